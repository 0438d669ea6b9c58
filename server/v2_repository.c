#include "server/v2_repository.h"

#include "engine/base/json.h"
#include "server/http_internal.h"
#include "server/v2_internal.h"

#include <microhttpd.h>

/* Reads the body; *ready_only keeps its value where that says nothing. */
static int read_body(const struct convoy_request *request, bool *ready_only, struct convoy_error *error)
{
    static const char what[] = "the body";
    cJSON *document;
    struct convoy_json root;

    if (request->body_length == 0)
        return 0;
    int code = convoy_v2_body(request, &document, error);
    if (code == 0)
        code = convoy_json_root(document, what, &root, error);
    if (code == 0)
        code = convoy_json_bool(&root, "ready", ready_only, error);
    cJSON_Delete(document);
    return code;
}

/* Triton's states; it has no word of its own for a model that could not be loaded. */
static const char *const states[] = {[CONVOY_MODEL_LOADING] = "LOADING",
                                     [CONVOY_MODEL_READY] = "READY",
                                     [CONVOY_MODEL_FAILED] = "UNAVAILABLE"};

bool convoy_v2_repository_index(struct convoy_request *request)
{
    struct convoy_registry *registry = request->http->registry;
    struct convoy_text text = {0};
    struct convoy_error error;
    bool ready_only = false, first = true;

    int code = read_body(request, &ready_only, &error);
    if (code != 0)
        return convoy_v2_respond_body_error(request, code, &error);
    convoy_text_add(&text, "[");
    for (uint32_t i = 0; i < convoy_registry_count(registry); i++) {
        struct convoy_model_view view;
        convoy_model_view(registry, convoy_registry_at(registry, i), &view);
        if (view.state == CONVOY_MODEL_READY || !ready_only) {
            if (!first)
                convoy_text_add(&text, ",");
            first = false;
            convoy_v2_write_state(&view, states[view.state], &text);
        }
        convoy_model_view_end(&view);
    }
    convoy_text_add(&text, "]\n");
    return convoy_v2_respond(request, MHD_HTTP_OK, &text);
}
