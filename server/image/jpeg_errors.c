#include "server/image/jpeg_errors.h"

#include <errno.h>

#include <jerror.h>

static __attribute__((noreturn)) void jump(j_common_ptr decoder)
{
    longjmp(((struct convoy_jpeg_errors *)decoder->err)->jump, 1);
}

/* libjpeg calls this with level -1 for a warning, at which it goes on with made-up data. Two warnings mean
 * that pixels are missing: the file ends (unless everything needed has been read), or a segment ends before
 * its last block. The others, such as bytes before a marker, leave an image that every browser shows. */
static void on_message(j_common_ptr decoder, int level)
{
    struct convoy_jpeg_errors *errors = (struct convoy_jpeg_errors *)decoder->err;
    if (level >= 0)
        return;
    errors->manager.num_warnings++;
    int code = errors->manager.msg_code;
    if (code == JWRN_HIT_MARKER || (code == JWRN_JPEG_EOF && !errors->end_is_fine))
        jump(decoder);
}

static void print_nothing(j_common_ptr decoder)
{
    (void)decoder;
}

struct jpeg_error_mgr *convoy_jpeg_errors_init(struct convoy_jpeg_errors *errors)
{
    jpeg_std_error(&errors->manager);
    errors->manager.error_exit = jump;
    errors->manager.emit_message = on_message;
    errors->manager.output_message = print_nothing;
    errors->own_reason = NULL;
    errors->late = false;
    errors->end_is_fine = false;
    return &errors->manager;
}

void convoy_jpeg_truncated(j_common_ptr decoder)
{
    decoder->err->msg_code = JWRN_JPEG_EOF;
    jump(decoder);
}

void convoy_jpeg_give_up(j_common_ptr decoder, const char *reason)
{
    ((struct convoy_jpeg_errors *)decoder->err)->own_reason = reason;
    jump(decoder);
}

void convoy_jpeg_give_up_late(j_common_ptr decoder)
{
    ((struct convoy_jpeg_errors *)decoder->err)->late = true;
    jump(decoder);
}

int convoy_jpeg_failure(j_common_ptr decoder, struct convoy_error *error)
{
    static const char sentence[] = "the JPEG image cannot be decoded (%s): encode it again and send that";
    char reason[JMSG_LENGTH_MAX];
    const char *own_reason = ((struct convoy_jpeg_errors *)decoder->err)->own_reason;
    if (((struct convoy_jpeg_errors *)decoder->err)->late)
        return convoy_fail(error, -ETIMEDOUT, "the deadline passed while the image was decoded");
    if (own_reason != NULL)
        return convoy_fail(error, -EBADMSG, sentence, own_reason);
    switch (decoder->err->msg_code) {
    case JERR_OUT_OF_MEMORY:
        return convoy_fail(error, -ENOMEM,
                           "out of memory while decoding a JPEG image: send a smaller one or try again");
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
        return convoy_fail(error, -EBADMSG, "the JPEG image ends before its last pixel: send the whole file");
    default:
        decoder->err->format_message(decoder, reason);
        return convoy_fail(error, -EBADMSG, sentence, reason);
    }
}
