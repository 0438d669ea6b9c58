/* A model's folder as the Hugging Face hub has it: a config.json of transformers or timm, which names the
 * classes, and preprocessor_config.json, which says how pictures were prepared. So a download is served as it
 * is; models/NAME/convoyd-model.json then holds convoyd's own keys. Both files come from strangers.
 *
 * Threads: pure functions and files; any thread. */
#ifndef CONVOY_SERVER_HUB_FOLDER_H
#define CONVOY_SERVER_HUB_FOLDER_H

#include "engine/base/json.h"
#include "server/config/label_file.h"
#include "server/config/model_input.h"

#include <stdbool.h>

/* Is this config.json the hub's? It has "model_type", "architectures" or "pretrained_cfg", which convoyd's
 * own has not. */
bool convoy_hub_is(const struct convoy_json *root);

/* Sets *input to what timm's "pretrained_cfg" in root says, else folder/preprocessor_config.json. -ENOENT
 * where there is neither, -ENOTSUP for what convoyd does not do, -EINVAL and the errors of
 * convoy_json_load(); the sentence says what to write into convoyd-model.json. */
int convoy_hub_input(const char *folder, const struct convoy_json *root, struct convoy_model_input *input,
                     struct convoy_error *error);

/* Has an image several classes? ("problem_type") */
bool convoy_hub_is_multi_label(const struct convoy_json *root);

/* The names of the classes: "id2label", or timm's "label_names" and "label_descriptions". Leaves *labels all
 * zero where there are none, where they are the LABEL_0, LABEL_1, ... of a network that was given no names,
 * and where they are no names for 0 to n - 1. -ENOMEM. */
int convoy_hub_labels(const struct convoy_json *root, struct convoy_label_list *labels,
                      struct convoy_error *error);

#endif
