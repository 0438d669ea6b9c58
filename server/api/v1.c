#include "server/api/v1.h"

#include "server/api/app.h"
#include "server/api/oip_internal.h"
#include "server/http/status.h"

#include <string.h>

/* The values of output i from values on, as arrays in arrays, of which depth are open. Returns what follows.
 */
static const float *write_nested(const struct convoy_model_shape *shape, uint32_t i, uint32_t depth,
                                 const float *values, struct convoy_json_writer *json)
{
    convoy_json_write_begin_array(json);
    for (uint32_t k = 0; k < shape->output_dims[i][depth]; k++) {
        if (depth + 1 < shape->output_rank[i])
            values = write_nested(shape, i, depth + 1, values, json);
        else
            convoy_json_write_float(json, *values++);
    }
    convoy_json_write_end_array(json);
    return values;
}

static void write_row(const struct convoy_model_shape *shape, const float *values,
                      struct convoy_json_writer *json)
{
    if (shape->output_count == 1) {
        (void)write_nested(shape, 0, 0, values, json);
        return;
    }
    convoy_json_write_begin_object(json);
    for (uint32_t i = 0; i < shape->output_count; i++) {
        convoy_json_write_string_key(json, shape->output_names[i]);
        values = write_nested(shape, i, 0, values, json);
    }
    convoy_json_write_end_object(json);
}

void convoy_v1_write(const struct convoy_inference_request *inference, struct convoy_json_writer *json)
{
    const struct convoy_model_shape *shape = &inference->view.shape;

    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "predictions");
    convoy_json_write_begin_array(json);
    for (uint32_t row = 0; row < inference->count; row++)
        write_row(shape, inference->outputs + (size_t)row * shape->outputs_per_row, json);
    convoy_json_write_end_array(json);
    convoy_json_write_end_object(json);
}

/* Is it served, or about to be? */
static bool is_listed(const struct convoy_model_view *view)
{
    return view->evicted || (view->state != CONVOY_MODEL_UNLOADED && view->state != CONVOY_MODEL_UNLOADING);
}

bool convoy_v1_models(struct convoy_request *request)
{
    struct convoy_json_writer json = {0};
    struct convoy_model_list list;
    const char *last = ""; /* they come by name, and each name once for every version */

    if (convoy_registry_list(convoy_app_of(request)->registry, NULL, &list, NULL) != 0)
        return false;
    convoy_json_write_begin_object(&json);
    convoy_json_write_key(&json, "models");
    convoy_json_write_begin_array(&json);
    for (uint32_t i = 0; i < list.count; i++) {
        const char *name = list.views[i].model->name;
        if (!is_listed(&list.views[i]) || strcmp(name, last) == 0)
            continue;
        convoy_json_write_string(&json, name);
        last = name;
    }
    convoy_json_write_end_array(&json);
    convoy_json_write_end_object(&json);
    convoy_model_list_end(&list);
    return convoy_oip_respond(request, CONVOY_HTTP_OK, &json);
}
