/* A classification request: path with query, Content-Type, body. It is built once and may be sent any number
 * of times, as the load generator does. */
#ifndef CONVOY_CLIENT_REQUEST_H
#define CONVOY_CLIENT_REQUEST_H

#include "client/lib/convoy.h"

struct client_request {
    char *path;       /* "/classify?..." */
    char *header;     /* the whole Content-Type header */
    const void *body; /* the bytes of a single image (they must outlive the request), else own */
    size_t body_size;
    void *own; /* the multipart form, NULL for a single image */
};

/* Fills request. One image becomes the body itself, several become multipart/form-data in their order. Call
 * client_request_clear also after an error. Returns 0, -EINVAL (no image, an empty model name, top or timeout
 * out of range) or -ENOMEM. */
int client_request_build(const struct convoy_image *images, size_t count,
                         const struct convoy_options *options, struct client_request *request,
                         struct convoy_failure *failure);

void client_request_clear(struct client_request *request);

#endif
