/* Computes how large the channel's slots are, and whether a model fits them. The running daemon and
 * --check-config use it. Pure functions: convoy_slot_size_begin(), then one call for each model, then
 * convoy_slot_size_end(). */
#ifndef CONVOY_SERVER_SLOT_SIZE_H
#define CONVOY_SERVER_SLOT_SIZE_H

#include "engine/ipc/channel.h"
#include "server/config/config.h"
#include "server/models/model.h"

/* Begins with the least size. */
void convoy_slot_size_begin(struct convoy_channel_size *size);
/* Makes room for max_batch 8-bit rows of the model, for max_batch float rows as far as they take at most 4
 * MiB (one fits in any case), and for their outputs. */
void convoy_slot_size_add(struct convoy_channel_size *size, const struct convoy_model_shape *shape,
                          uint32_t max_batch);
/* Makes room for models that are not known yet. */
void convoy_slot_size_at_least(struct convoy_channel_size *size, uint64_t input_bytes, uint64_t output_bytes);
/* Applies worker.slot_bytes and the bound of CONVOY_SLOT_MAX_BYTES. */
void convoy_slot_size_end(struct convoy_channel_size *size, const struct convoy_config *config);
/* -E2BIG with both sizes when not even one 8-bit row and its outputs fit a slot. */
int convoy_slot_size_check(const struct convoy_channel_size *size, const struct convoy_model_shape *shape,
                           struct convoy_error *error);

#endif
