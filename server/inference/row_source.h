/* From what a client sent for a row to the bytes that a slot takes: decoding, resizing, interleaving. */
#ifndef CONVOY_SERVER_ROW_SOURCE_H
#define CONVOY_SERVER_ROW_SOURCE_H

#include "server/inference/rows.h"

#include <stddef.h>
#include <stdint.h>

/* The layout of slot that rows of this source travel in. */
enum convoy_input_layout convoy_row_layout(enum convoy_row_source source);

/* The row's *length bytes, within part or in the calling thread's scratch (until its next call). NULL when it
 * failed, which the row then says; NULL as well, the row as it was, when an image has more than max_pixels
 * but no more than the configuration allows. Any thread. */
const void *convoy_row_bytes(const struct convoy_rows *rows, struct convoy_row *row, uint64_t max_pixels,
                             size_t *length);

/* Does the row's source only have to be copied, or rearranged on the way? */
static inline bool convoy_row_is_raw(enum convoy_row_source source)
{
    return source != CONVOY_ROW_ENCODED;
}

/* Makes item, whose context is its rows, bring the bytes of a raw row right from part into its slot. */
void convoy_row_from_part(struct convoy_item *item, const struct convoy_row *row);

/* How many pixels are decoded for it: none where bytes are only copied, or where an image's header is bad. */
uint64_t convoy_row_pixels(const struct convoy_rows *rows, const struct convoy_row *row);

void convoy_row_fail(struct convoy_row *row, int status, const char *sentence);

#endif
