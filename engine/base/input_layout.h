/* How the values of one row (one image, or one input tensor) lie in memory: one enum for clients' bytes,
 * slots of the channel and jobs of a backend. C x H x W is the model's input without its batch axis. */
#ifndef CONVOY_ENGINE_BASE_INPUT_LAYOUT_H
#define CONVOY_ENGINE_BASE_INPUT_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* The numbers go through shared memory. Those that networks read come first, CONVOY_ROW_LAYOUTS of them; then
 * those that a slot can carry besides, CONVOY_SLOT_LAYOUTS in all; the others are converted before. A change
 * of a number raises CONVOY_CHANNEL_ABI and CONVOY_BACKEND_ABI. */
enum convoy_input_layout {
    CONVOY_LAYOUT_U8_HWC = 0,  /* 8-bit pixels, interleaved; the backend computes x * multiply[c] + add[c] */
    CONVOY_LAYOUT_F32_CHW = 1, /* float32 of the host's byte order, one plane after the other, used as is */
    CONVOY_LAYOUT_JPEG = 2,    /* struct convoy_jpeg_row: a file that the backend's device decodes */
    CONVOY_LAYOUT_U8_CHW = 3,  /* 8-bit pixels, one plane after the other */
    CONVOY_LAYOUT_ENCODED = 4  /* an image file (JPEG, PNG, ...) of any size, for the front to decode */
};

#define CONVOY_ROW_LAYOUTS  2
#define CONVOY_SLOT_LAYOUTS 3

/* True if number, which the other end of the channel wrote, is a layout that a slot can carry. */
static inline bool convoy_slot_layout_valid(uint32_t number)
{
    return number < CONVOY_SLOT_LAYOUTS;
}

#endif
