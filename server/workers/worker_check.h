/* Asks a worker process whether a model can be loaded: `convoy-worker --check`. For --check-config; a running
 * daemon talks to its workers with worker_process.h. */
#ifndef CONVOY_SERVER_WORKER_CHECK_H
#define CONVOY_SERVER_WORKER_CHECK_H

#include "engine/base/error.h"
#include "server/config/config.h"
#include "server/config/model_input.h"

#include <cjson/cJSON.h>
#include <stdint.h>

/* Starts program, a convoy-worker, for the model file at path, with what the model's configuration says of
 * its input and the daemon's of its backend and its confinement, and waits for its answer, an object that the
 * caller frees; the process is gone when this returns. -ETIMEDOUT: no answer within limit_us; -EIO: it ended
 * without one; -EPROTO: the answer is not one JSON object; -ENOMEM, or why it could not be started. Blocks;
 * any thread. */
int convoy_worker_check_run(const char *program, const struct convoy_config *config, const char *path,
                            const struct convoy_model_input *input, uint64_t limit_us, cJSON **answer,
                            struct convoy_error *error);

#endif
