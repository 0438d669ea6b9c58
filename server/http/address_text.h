/* A client's address as text, for the log. */
#ifndef CONVOY_SERVER_ADDRESS_TEXT_H
#define CONVOY_SERVER_ADDRESS_TEXT_H

#include <netinet/in.h>
#include <sys/socket.h>

/* The address in numbers, without its port; an IPv4 address as one also where IPv6 carried it; "" when it is
 * NULL or of another family. */
void convoy_address_text(const struct sockaddr *address, char text[INET6_ADDRSTRLEN]);

#endif
