/* What the front tells a worker: the other half of server/workers/worker_message.h. The caller hands each to
 * convoy_worker_process_send(), which frees it. */
#ifndef CONVOY_SERVER_WORKER_COMMAND_H
#define CONVOY_SERVER_WORKER_COMMAND_H

#include "engine/ipc/channel.h"
#include "server/models/model.h"

#include <cjson/cJSON.h>

/* CHANNEL: the slots are laid out and have this size. */
cJSON *convoy_worker_command_channel(const struct convoy_channel_size *size);
/* LOAD: of the model its number, name, version, path and config count. beside: others are served meanwhile.
 */
cJSON *convoy_worker_command_load(const struct convoy_model *model, bool beside);
/* UNLOAD. */
cJSON *convoy_worker_command_unload(const struct convoy_model *model);

#endif
