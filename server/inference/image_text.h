/* An image in JSON: {"image": "..."}, base64 (base64.h), by itself or as a data: URI (RFC 2397). Any thread.
 */
#ifndef CONVOY_SERVER_IMAGE_TEXT_H
#define CONVOY_SERVER_IMAGE_TEXT_H

#include "engine/base/error.h"
#include "server/http/multipart.h"

/* Decodes the image in place: part is within text. Nothing is allocated. -EINVAL with a sentence: it is no
 * such object, or has other members. */
int convoy_image_text(char *text, size_t length, struct convoy_part *part, struct convoy_error *error);

#endif
