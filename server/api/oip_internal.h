/* What the endpoints of the Open Inference Protocol (OIP, paths under /v2) share. */
#ifndef CONVOY_SERVER_OIP_INTERNAL_H
#define CONVOY_SERVER_OIP_INTERNAL_H

#include "engine/base/error.h"
#include "engine/base/json_writer.h"
#include "server/http/request.h"
#include "server/models/registry.h"

#include <cjson/cJSON.h>
#include <stdbool.h>

/* Answers with json and a line end, and takes over its bytes; a 503 with Retry-After. */
bool convoy_oip_respond(struct convoy_request *request, int status, struct convoy_json_writer *json);

/* The request's body as JSON, for pages that take a few members; *document is the caller's to free. -EFBIG
 * past 64 KiB, which is much more than any of them needs and little enough to be parsed on an HTTP thread;
 * else as convoy_json_parse(). */
int convoy_oip_body(const struct convoy_request *request, cJSON **document, struct convoy_error *error);

/* Answers with the error of convoy_oip_body(), or of a check of what it read. */
bool convoy_oip_respond_body_error(struct convoy_request *request, int code,
                                   const struct convoy_error *error);

/* Writes {"name", "version", "state", "reason"}; state: the name of the state on that page. */
void convoy_oip_write_state(const struct convoy_model_view *view, const char *state,
                            struct convoy_json_writer *json);

/* Writes the dimensions of a row of the model's input, as the network declares them, as three elements of an
 * array. */
void convoy_oip_write_dims(const struct convoy_model_shape *shape, struct convoy_json_writer *json);

/* Writes the dimensions of output i of the model, without that of the rows, as elements of an array. */
void convoy_oip_write_output_dims(const struct convoy_model_shape *shape, uint32_t i,
                                  struct convoy_json_writer *json);

/* The model of the path, READY, and a view of it, to be ended with convoy_model_view_end(); otherwise
 * answers, *answered telling how that went, and returns NULL. */
struct convoy_model_record *convoy_oip_ready_model(struct convoy_request *request,
                                                   struct convoy_model_view *view, bool *answered);

#endif
