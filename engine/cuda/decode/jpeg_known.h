/* A JPEG file whose rows are known, for checks of a decoder: what libjpeg-turbo and Pillow make of it. Both
 * come from tests/tools/known_jpeg.py; tests/unit/engine/cuda/decode/jpeg_known.c compares them with what the
 * front makes of it. Pure functions; any thread.
 *
 * The file has coefficients of many frequencies and halved chroma, is turned, and its sides are no multiple
 * of a block's, so that most ways in which a decoder may go wrong show. */
#ifndef CONVOY_ENGINE_CUDA_JPEG_KNOWN_H
#define CONVOY_ENGINE_CUDA_JPEG_KNOWN_H

#include "engine/base/error.h"
#include "engine/base/jpeg_row.h"

#include <stdbool.h>

#define CONVOY_JPEG_KNOWN_INPUT  1024 /* bytes: header and file, of which the rest is zero */
#define CONVOY_JPEG_KNOWN_WIDTH  13
#define CONVOY_JPEG_KNOWN_HEIGHT 16
#define CONVOY_JPEG_KNOWN_BYTES  ((size_t)CONVOY_JPEG_KNOWN_HEIGHT * CONVOY_JPEG_KNOWN_WIDTH * 3)

/* Levels by which a sample of the row may be off. The planes of nvJPEG may be off by 2 (jpeg_probe.c), and a
 * colour is luma and up to 1.772 times chroma. (Of the decoders that were measured none is off at all.) */
#define CONVOY_JPEG_KNOWN_NEAR 6

/* How the file becomes the row: stretched. */
extern const struct convoy_image_fitting convoy_jpeg_known_fitting;

/* Writes a slot's input of that one file. */
void convoy_jpeg_known_fill(uint8_t input[CONVOY_JPEG_KNOWN_INPUT]);

/* Whether that row is the file's, within CONVOY_JPEG_KNOWN_NEAR. When it is not, *error has a sentence. */
bool convoy_jpeg_known_agrees(const uint8_t row[CONVOY_JPEG_KNOWN_BYTES], struct convoy_error *error);

#endif
