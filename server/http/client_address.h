/* The address of the client that a request is from. */
#ifndef CONVOY_SERVER_CLIENT_ADDRESS_H
#define CONVOY_SERVER_CLIENT_ADDRESS_H

struct convoy_request;
struct sockaddr;

/* The peer's address; NULL where it is not known. It belongs to the connection. On the request's HTTP thread,
 * or while it is suspended. */
const struct sockaddr *convoy_client_address(const struct convoy_request *request);

#endif
