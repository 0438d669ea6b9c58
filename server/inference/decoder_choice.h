/* Who decodes a JPEG file: the front's threads with libjpeg, or the device. Pure functions; any thread.
 *
 * What the two make of a file may differ in rounding (docs/http.md#decoders). So but for "fastest" the choice
 * depends on the picture, on the model and on the configuration alone: the same picture gives the same bits,
 * whatever else goes on. */
#ifndef CONVOY_SERVER_DECODER_CHOICE_H
#define CONVOY_SERVER_DECODER_CHOICE_H

#include "server/config/config.h"
#include "server/image/jpeg_header.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pixels of the smallest picture that "auto" gives to a device: libjpeg decodes a smaller one in less time
 * than the way through a decoder of the device takes. */
#define CONVOY_DECODER_LEAST_PIXELS 65536u
/* Of the largest that a device is given: its decoded samples take 64 MiB there (engine/cuda/decode). */
#define CONVOY_DECODER_MOST_PIXELS (20u << 20)

struct convoy_decoder_choice {
    enum convoy_image_decoder decoder; /* as the configuration or the request wants it */
    bool takes_files;                  /* all devices of the model decode files */
    bool busy;                         /* images wait for the front's threads; for "fastest" */
    uint64_t file_bytes;               /* of the largest file that a slot takes */
    uint64_t max_pixels;
};

/* May any file go to a device? Where not, no file need be looked at. */
bool convoy_decoder_choice_open(const struct convoy_decoder_choice *choice);

/* True if the device is to decode the file of `length` bytes with this header. */
bool convoy_decoder_choice_device(const struct convoy_decoder_choice *choice,
                                  const struct convoy_jpeg_header *file, size_t length);

#endif
