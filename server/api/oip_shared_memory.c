#include "server/api/oip_shared_memory.h"

#include "engine/base/json.h"
#include "server/api/app.h"
#include "server/api/oip_internal.h"
#include "server/http/local_client.h"
#include "server/http/response.h"
#include "server/http/status.h"
#include "server/inference/shared_memory.h"

#include <errno.h>

/* JSON's integers are exact below that. */
#define LARGEST_INTEGER ((UINT64_C(1) << 53) - 1)

static bool may_use(const struct convoy_request *request)
{
    return convoy_app_of(request)->shared_memory != NULL && convoy_client_is_local(request);
}

/* For a client that may not. */
static bool refuse(struct convoy_request *request)
{
    if (convoy_app_of(request)->shared_memory == NULL)
        return convoy_respond_error(request, CONVOY_HTTP_FORBIDDEN, CONVOY_RETRY_NONE,
                                    "shared memory is off: set shared_memory.enabled in the server's "
                                    "configuration, or send the tensors in the body");
    return convoy_respond_error(request, CONVOY_HTTP_FORBIDDEN, CONVOY_RETRY_NONE,
                                "shared memory is for clients on the server's own machine that connect to a "
                                "loopback address such as 127.0.0.1: send the tensors in the body");
}

/* Answers {}. */
static bool respond_done(struct convoy_request *request)
{
    struct convoy_json_writer json = {0};

    convoy_json_write_begin_object(&json);
    convoy_json_write_end_object(&json);
    return convoy_oip_respond(request, CONVOY_HTTP_OK, &json);
}

bool convoy_oip_shared_memory_status(struct convoy_request *request)
{
    const char *name = request->path.region[0] != '\0' ? request->path.region : NULL;
    struct convoy_json_writer json = {0};
    struct convoy_error error;

    if (!may_use(request))
        return refuse(request);
    if (convoy_shared_memory_write_status(convoy_app_of(request)->shared_memory, name, &json, &error) != 0)
        return convoy_respond_error(request, CONVOY_HTTP_NOT_FOUND, CONVOY_RETRY_NONE, error.message);
    return convoy_oip_respond(request, CONVOY_HTTP_OK, &json);
}

/* What a registration asks for; key belongs to the document. */
struct order {
    const char *key;
    uint64_t offset, byte_size;
};

static int read_order(const cJSON *document, struct order *order, struct convoy_error *error)
{
    struct convoy_json root;
    int code = convoy_json_root(document, "the body", &root, error);

    if (code == 0)
        code = convoy_json_string(&root, "key", &order->key, error);
    if (code == 0)
        code = convoy_json_uint64(&root, "offset", 0, LARGEST_INTEGER, &order->offset, error);
    if (code == 0)
        code = convoy_json_uint64(&root, "byte_size", 1, LARGEST_INTEGER, &order->byte_size, error);
    if (code == 0 && (order->key == NULL || order->byte_size == 0))
        code = convoy_fail(error, -EINVAL,
                           "the body lacks '%s': send {\"key\": \"/name\", \"offset\": 0, \"byte_size\": n}",
                           order->key == NULL ? "key" : "byte_size");
    return code;
}

static bool respond_failure(struct convoy_request *request, int code, const struct convoy_error *error)
{
    if (code == -EMFILE || code == -ENFILE)
        return convoy_respond_error(request, CONVOY_HTTP_SERVICE_UNAVAILABLE, CONVOY_RETRY_SOON,
                                    error->message);
    return convoy_oip_respond_body_error(request, code, error);
}

bool convoy_oip_shared_memory_register(struct convoy_request *request)
{
    struct order order = {0};
    struct convoy_error error;
    cJSON *document;

    if (!may_use(request))
        return refuse(request);
    int code = convoy_oip_body(request, &document, &error);
    if (code == 0)
        code = read_order(document, &order, &error);
    if (code == 0)
        code = convoy_shared_memory_register(convoy_app_of(request)->shared_memory, request->path.region,
                                             order.key, order.offset, order.byte_size, &error);
    cJSON_Delete(document);
    return code == 0 ? respond_done(request) : respond_failure(request, code, &error);
}

bool convoy_oip_shared_memory_unregister(struct convoy_request *request)
{
    if (!may_use(request))
        return refuse(request);
    if (request->path.region[0] != '\0')
        convoy_shared_memory_unregister(convoy_app_of(request)->shared_memory, request->path.region);
    else
        convoy_shared_memory_unregister_all(convoy_app_of(request)->shared_memory);
    return respond_done(request);
}
