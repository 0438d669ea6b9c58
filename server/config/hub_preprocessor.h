/* preprocessor_config.json, as the image processors of transformers write it: which of its keys count, what
 * they mean and what holds where one is left out differs from class to class.
 *
 * Source: transformers 5.24, src/transformers/models/NAME/image_processing_pil_NAME.py, and the feature
 * extractors of version 4, whose "size" is a number. */
#ifndef CONVOY_SERVER_HUB_PREPROCESSOR_H
#define CONVOY_SERVER_HUB_PREPROCESSOR_H

#include "engine/base/json.h"
#include "server/config/model_input.h"

/* Sets *input. root: the file's object. -EINVAL; -ENOTSUP for what convoyd does not do. Any thread. */
int convoy_hub_preprocessor_read(const struct convoy_json *root, struct convoy_model_input *input,
                                 struct convoy_error *error);

#endif
