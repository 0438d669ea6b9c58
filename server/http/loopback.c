#include "server/http/loopback.h"

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

bool convoy_loopback(const struct sockaddr *address)
{
    if (address == NULL)
        return false;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)address;
        return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    if (address->sa_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
        return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == IN_LOOPBACKNET);
    }
    return false;
}
