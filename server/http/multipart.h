/* multipart/form-data (RFC 7578, RFC 2046 section 5.1) over a body that is complete in memory. Nothing is
 * copied: parts point into the body. Every step is linear in the body's length, whatever it holds. Any
 * thread. */
#ifndef CONVOY_SERVER_MULTIPART_H
#define CONVOY_SERVER_MULTIPART_H

#include "engine/base/error.h"

#include <stddef.h>
#include <stdint.h>

#define CONVOY_BOUNDARY_MAX 70 /* characters, RFC 2046 */

struct convoy_part {
    const uint8_t *bytes; /* the content, within the body */
    size_t length;
};

/* Finds the boundary parameter, quoted or not, in the value of a Content-Type header and writes it with its
 * NUL. -ENOENT when the type is not multipart/form-data (error is left alone; NULL counts as such); -EINVAL
 * when it is, but the boundary is missing, empty, too long or of characters that RFC 2046 forbids. */
int convoy_multipart_boundary(const char *content_type, char boundary[CONVOY_BOUNDARY_MAX + 1],
                              struct convoy_error *error);

/* Splits body at boundary. *count becomes the number of parts, or most + 1 when there are more than most,
 * which are not looked at. The first most of them are written to parts; NULL: none. Headers of the parts are
 * checked for their form and otherwise ignored. What lies before the first boundary and after the last is
 * ignored. -EINVAL when a boundary line, a part's headers or the end is not well-formed. */
int convoy_multipart_split(const uint8_t *body, size_t length, const char *boundary,
                           struct convoy_part *parts, size_t most, size_t *count, struct convoy_error *error);

#define CONVOY_PART_LEAST 8 /* bytes of a body that each of its parts takes at least */

#endif
