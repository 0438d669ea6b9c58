/* The address of the client that a request is from. */
#ifndef CONVOY_SERVER_CLIENT_ADDRESS_H
#define CONVOY_SERVER_CLIENT_ADDRESS_H

struct convoy_request;
struct sockaddr;

/* The peer's address, or what a trusted proxy (http.trusted_proxies) says of its client; NULL where it is not
 * known. It belongs to the request or its connection. Before the headers are complete it is the peer's. On
 * the request's HTTP thread, or while it is suspended. */
const struct sockaddr *convoy_client_address(const struct convoy_request *request);

/* Reads what a trusted proxy says. The headers are complete. On the request's HTTP thread. */
void convoy_client_address_read(struct convoy_request *request);

#endif
