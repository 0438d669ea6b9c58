/* Images: the first byte chooses the target, the rest is the file. */
#include "server/image/image.h"
#include "server/image/jpeg_header.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct convoy_image_scratch *scratch;
    static uint8_t row[64 * 48 * 4];
    struct convoy_image_info info;
    struct convoy_jpeg_header file;
    struct convoy_error error;
    if (scratch == NULL)
        scratch = convoy_image_scratch_new();
    if (size == 0)
        return 0;
    struct convoy_image_target target = {.width = data[0] & 1 ? 64 : 8,
                                         .height = data[0] & 2 ? 48 : 9,
                                         .channels = data[0] & 4   ? 1
                                                     : data[0] & 1 ? 4
                                                                   : 3,
                                         .fit = (enum convoy_image_fit)((data[0] >> 3 & 3) % 3),
                                         .filter = (enum convoy_image_filter)(data[0] >> 5 & 3),
                                         .cover_width = data[0] & 128 ? 71 : 0,
                                         .cover_height = data[0] & 128 ? 71 : 0,
                                         .color = {1, 2, 3}};
    int probed = convoy_image_probe(data + 1, size - 1, 1 << 18, &info, &error);
    int decoded = convoy_image_to_row(scratch, data + 1, size - 1, 1 << 18, &target, row, &error);
    if (probed != 0 && decoded == 0)
        abort(); /* the bound is checked by the probe: nothing may be decoded past it */
    if (convoy_jpeg_is_plain(data + 1, size - 1, &file) && (uint64_t)file.width * file.height <= 1 << 18 &&
        probed != 0)
        abort(); /* a device would be given what libjpeg refuses by its header */
    return 0;
}
