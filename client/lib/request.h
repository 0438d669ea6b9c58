/* What a request for classification carries: its path with query, its type, its body. Built once, sent as
 * often as one likes (a load generator does). */
#ifndef CONVOY_CLIENT_REQUEST_H
#define CONVOY_CLIENT_REQUEST_H

#include "client/lib/convoy.h"

struct client_request {
    char *path;       /* "/classify?..." */
    char *header;     /* the whole Content-Type header */
    const void *body; /* a lone image's own bytes (they must outlive this), else own */
    size_t body_size;
    void *own; /* the form, NULL for a lone image */
};

/* One image goes as the body itself, several as multipart/form-data in order. Fills request, which is for
 * client_request_clear also after an error. 0, -EINVAL (no image, an empty model name, top or timeout out of
 * range) or -ENOMEM. */
int client_request_build(const struct convoy_image *images, size_t count,
                         const struct convoy_options *options, struct client_request *request,
                         struct convoy_failure *failure);

void client_request_clear(struct client_request *request);

#endif
