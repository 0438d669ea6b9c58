#include "server/image/png_write.h"

#include <errno.h>
#include <spng.h>

int convoy_png_write_grey(const uint8_t *pixels, uint32_t width, uint32_t height, uint8_t **bytes,
                          size_t *length, struct convoy_error *error)
{
    struct spng_ihdr header = {
        .width = width, .height = height, .bit_depth = 8, .color_type = SPNG_COLOR_TYPE_GRAYSCALE};
    spng_ctx *encoder = spng_ctx_new(SPNG_CTX_ENCODER);
    int code = encoder == NULL ? SPNG_EMEM : spng_set_option(encoder, SPNG_ENCODE_TO_BUFFER, 1);
    *bytes = NULL;
    if (code == 0)
        code = spng_set_ihdr(encoder, &header);
    if (code == 0)
        code = spng_encode_image(encoder, pixels, (size_t)width * height, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
    if (code == 0)
        *bytes = spng_get_png_buffer(encoder, length, &code);
    spng_ctx_free(encoder);
    if (*bytes != NULL)
        return 0;
    return convoy_fail(error, code == SPNG_EMEM ? -ENOMEM : -EINVAL,
                       "cannot write a PNG image of %u x %u: %s", width, height, spng_strerror(code));
}
