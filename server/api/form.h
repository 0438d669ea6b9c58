/* The parts of a form, the image of a JSON object, or one that came compressed, on their way from the body to
 * the samples of an inference request.
 *
 * Finding them, and reading their images' headers, takes time in proportion to the body. A large one is left
 * to the decode pool, before all that waits there to be decoded: like receiving it, it is work of a
 * nanosecond or so for each byte. On the request's HTTP thread. */
#ifndef CONVOY_SERVER_FORM_H
#define CONVOY_SERVER_FORM_H

#include "server/http/request.h"
#include "server/inference/inference_request.h"

#include <stdbool.h>
#include <stddef.h>

struct convoy_form;

enum convoy_form_kind {
    CONVOY_FORM_IMAGE, /* the body is the image */
    CONVOY_FORM_JSON,  /* an object with one image (image_text.h), which is decoded in place */
    CONVOY_FORM_PARTS  /* multipart/form-data, at most images.max_per_request parts */
};

/* Reads the body, which is unpacked first where it came compressed; the call's form is then read, and *count
 * its images. boundary is that of PARTS. Large and compressed ones are read in the decode pool, unless the
 * client leaves or deadline_us passes before a thread has begun. False with the request's refusal set;
 * without when memory is out; or with convoy_form_waits() true: the connection is suspended, and the same
 * call continues when it is resumed. */
bool convoy_form_read(struct convoy_request *request, enum convoy_form_kind kind, const char *boundary,
                      uint64_t deadline_us, size_t *count);

/* True when the last convoy_form_read() left form to the pool. NULL is allowed. */
bool convoy_form_waits(const struct convoy_form *form);

/* Gives each of inference's samples, as many as there are parts, its part and what is known of it. */
void convoy_form_place(const struct convoy_form *form, struct convoy_inference_request *inference);

/* NULL is allowed. Only once it is read, or when the pool has ended. */
void convoy_form_free(struct convoy_form *form);

#endif
