#include "server/http/client_id.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

bool convoy_client_id_of(const struct sockaddr *address, struct convoy_client_id *id)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

    memset(id, 0, sizeof *id);
    if (address == NULL)
        return false;
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        memcpy(id->bytes, mapped, sizeof mapped);
        memcpy(id->bytes + sizeof mapped, &v4.sin_addr, 4);
        return true;
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        bool is_mapped = memcmp(&v6.sin6_addr, mapped, sizeof mapped) == 0;
        memcpy(id->bytes, &v6.sin6_addr, is_mapped ? 16 : 8);
        return true;
    }
    return false;
}
