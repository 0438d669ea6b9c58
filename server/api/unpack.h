/* Bodies that came compressed (Content-Encoding), unpacked in place of what came. The memory is taken from
 * what is set aside for all bodies (body_quota.h). */
#ifndef CONVOY_SERVER_UNPACK_H
#define CONVOY_SERVER_UNPACK_H

#include "engine/base/error.h"
#include "server/http/request.h"

#include <stddef.h>
#include <stdint.h>

/* The request's Content-Encoding; NULL where its body is as it is. */
const char *convoy_unpack_encoding(const struct convoy_request *request);

/* How many bytes it unpacks to, as far as that is known: gzip ends with its size. At most
 * http.max_body_bytes. */
size_t convoy_unpack_hint(const struct convoy_request *request);

/* How much all bodies may take together for one of so many bytes to be let in. */
size_t convoy_unpack_memory_limit(const struct convoy_request *request, size_t bytes);
/* -EAGAIN with the sentence for that. */
int convoy_unpack_no_memory(struct convoy_error *error);

/* Replaces the request's body by what it unpacks to, http.max_body_bytes at most. Any thread that has the
 * request to itself. 0; -ENOTSUP, -EMSGSIZE, -EBADMSG, -EAGAIN, -ENOMEM as convoy_decompress() says: the body
 * is then as it was. */
int convoy_unpack(struct convoy_request *request, struct convoy_error *error);

/* -EFBIG when images that came in so many bytes, compressed once more, have more pixels than those justify.
 */
int convoy_unpack_check_pixels(uint64_t pixels, size_t packed, struct convoy_error *error);

#endif
