/* The messages that the daemon sends to a worker: the counterpart of server/workers/worker_message.h. Each
 * function returns a message for convoy_worker_process_send(), which frees it, or NULL when memory is out. */
#ifndef CONVOY_SERVER_WORKER_COMMAND_H
#define CONVOY_SERVER_WORKER_COMMAND_H

#include "engine/ipc/channel.h"
#include "server/models/model.h"

#include <cjson/cJSON.h>

/* CHANNEL: the slots are laid out and have this size. */
/* turn: which area of outputs the worker is to use. */
cJSON *convoy_worker_command_channel(const struct convoy_channel_size *size, uint32_t turn);
/* Whether the device may decode JPEG files for a model; FIRST: the model is loaded only when it does, or
 * cannot. */
enum convoy_load_files { CONVOY_LOAD_NO_FILES, CONVOY_LOAD_FILES, CONVOY_LOAD_FILES_FIRST };

/* LOAD. Reads the model's number, name, version, path and config. beside: other models are served meanwhile.
 */
cJSON *convoy_worker_command_load(const struct convoy_model_record *model, bool beside,
                                  enum convoy_load_files files);
/* MEASURE: how large are the model's rows and outputs? Names the same file as LOAD, and all
 * that changes its shapes. */
cJSON *convoy_worker_command_measure(const struct convoy_model_record *model);
/* UNLOAD of the model with this number. */
cJSON *convoy_worker_command_unload(uint32_t number);
/* What of a LOAD decides what the model computes: two fronts for which it is the same load the same. An
 * object that the caller frees. */
cJSON *convoy_worker_command_load_kind(const struct convoy_model_record *model, enum convoy_load_files files);
/* ADOPT: the front before is gone, and this one wants to know what the worker has loaded. */
cJSON *convoy_worker_command_adopt(void);
/* KEEP: of the models that it has loaded only those that convoy_worker_command_keep_add() adds, each under a
 * new number. Adding fails when memory is out. */
cJSON *convoy_worker_command_keep(void);
bool convoy_worker_command_keep_add(cJSON *keep, uint32_t was, uint32_t is);
/* MEMORY: how much of the device's memory is free, which something else than this worker has changed. */
cJSON *convoy_worker_command_memory(void);
/* EXIT: the worker ends. */
cJSON *convoy_worker_command_exit(void);

#endif
