#include "server/http/address_text.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>

void convoy_address_text(const struct sockaddr *address, char text[INET6_ADDRSTRLEN])
{
    text[0] = '\0';
    if (address == NULL)
        return;
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        (void)inet_ntop(AF_INET, &v4.sin_addr, text, INET6_ADDRSTRLEN);
    } else if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
            (void)inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, INET6_ADDRSTRLEN);
        else
            (void)inet_ntop(AF_INET6, &v6.sin6_addr, text, INET6_ADDRSTRLEN);
    }
}
