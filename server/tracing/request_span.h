/* One request that was answered, as it is traced: when it began and ended, and its stages. */
#ifndef CONVOY_SERVER_REQUEST_SPAN_H
#define CONVOY_SERVER_REQUEST_SPAN_H

#include "server/config/model_name.h"
#include "server/http/request_id.h"
#include "server/http/route.h"
#include "server/http/traceparent.h"

#include <stdbool.h>
#include <stdint.h>

/* In the order in which they follow each other. */
enum convoy_span_stage {
    CONVOY_SPAN_WAIT,   /* for a decoder, or for a model to be activated */
    CONVOY_SPAN_DECODE, /* until the image is handed to the batcher */
    CONVOY_SPAN_QUEUE,
    CONVOY_SPAN_INPUT,
    CONVOY_SPAN_COMPUTE,
    CONVOY_SPAN_OUTPUT,
    CONVOY_SPAN_STAGES
};

/* Times are nanoseconds since the epoch. */
struct convoy_request_span {
    struct convoy_trace_context context;
    char request_id[CONVOY_REQUEST_ID_BYTES];
    char method[12];
    const char *route; /* the template, which lives as long as the program */
    char model[CONVOY_MODEL_NAME_BYTES + 1], version[CONVOY_PATH_VERSION_BYTES], device[32];
    int status;
    uint32_t images, cached, retries, batch_size;
    uint64_t decode_us;             /* the sum over all images */
    uint64_t begun_ns, complete_ns; /* the first line, and the body's last byte */
    uint64_t ended_ns;              /* the answer was about to be written */
    bool staged;                    /* an image was answered: its stages are known */
    uint64_t
        stage_ns[CONVOY_SPAN_STAGES + 1]; /* of the image that was done last: stage i is from i to i + 1 */
};

#endif
