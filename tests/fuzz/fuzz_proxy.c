/* The PROXY protocol's header, as it is read from a socket: no byte behind it is asked for, nothing beyond
 * the room for it, and what is complete is read whole. */
#include "server/http/proxy_header.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    union convoy_proxy_address client;
    size_t have = 0, more;
    /* A copy of what has come, and no byte more: a read beyond it is seen. */
    uint8_t *read = malloc(1);

    while ((more = convoy_proxy_header_more(read, have)) != 0) {
        if (more == CONVOY_PROXY_HEADER_BAD)
            break;
        if (more > CONVOY_PROXY_HEADER_MAX - have)
            abort();
        if (more > size - have)
            break;
        read = realloc(read, have + more);
        memcpy(read + have, data + have, more);
        have += more;
    }
    if (more == 0 && convoy_proxy_header_read(read, have, &client) && client.any.sa_family != AF_UNSPEC &&
        client.any.sa_family != AF_INET && client.any.sa_family != AF_INET6)
        abort();
    free(read);
    return 0;
}
