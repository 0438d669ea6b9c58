/* How libjpeg's failures come back: it has no return codes, so they jump.
 *
 * Usage, the only one: a function sets `failed` false, calls setjmp(errors.jump), and when that returns
 * non-zero returns convoy_jpeg_failure(). Nothing is ever written to stderr. One decoder, one thread. */
#ifndef CONVOY_SERVER_IMAGE_JPEG_ERRORS_H
#define CONVOY_SERVER_IMAGE_JPEG_ERRORS_H

#include "engine/base/error.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h> /* jpeglib.h needs FILE and size_t */

#include <jpeglib.h>

struct convoy_jpeg_errors {
    struct jpeg_error_mgr manager; /* first, so that libjpeg's pointer to it is a pointer to this */
    jmp_buf jump;
    const char *own_reason; /* set by convoy_jpeg_give_up() */
    bool late;              /* set by convoy_jpeg_give_up_late() */
    bool end_is_fine;       /* the file may end early as long as no pixel is missing */
};

/* Sets up errors for decoder.err; end_is_fine starts false. */
struct jpeg_error_mgr *convoy_jpeg_errors_init(struct convoy_jpeg_errors *errors);

/* Jumps with a failure of our own: a file that ends too early. */
void convoy_jpeg_truncated(j_common_ptr decoder) __attribute__((noreturn));

/* Jumps with a reason that libjpeg does not know, a static string that completes "cannot be decoded (...)".
 */
void convoy_jpeg_give_up(j_common_ptr decoder, const char *reason) __attribute__((noreturn));

/* Jumps because the deadline has passed: convoy_jpeg_failure() is -ETIMEDOUT. */
void convoy_jpeg_give_up_late(j_common_ptr decoder) __attribute__((noreturn));

/* After the jump: -ENOMEM or -EBADMSG and its sentence. */
int convoy_jpeg_failure(j_common_ptr decoder, struct convoy_error *error);

#endif
