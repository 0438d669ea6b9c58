#include "server/api/explain.h"

#include "server/http/query.h"
#include "server/http/response.h"
#include "server/http/status.h"
#include "server/inference/class_map_quota.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TYPE_PNG "image/png"

bool convoy_explain_read(struct convoy_request *request, uint32_t *map)
{
    size_t length;
    bool explained, chosen;
    const char *value = convoy_request_query(request, "explain", &length, &explained);

    *map = CONVOY_MAP_NONE;
    if (explained && (value == NULL || length != 3 || memcmp(value, "cam", 3) != 0)) {
        convoy_fail(&request->refusal_reason, 0,
                    "explain takes cam, a class activation map, and nothing else");
        return convoy_request_refuse(request, CONVOY_HTTP_BAD_REQUEST);
    }
    value = convoy_request_query(request, "class", &length, &chosen);
    if (chosen && !explained) {
        convoy_fail(&request->refusal_reason, 0,
                    "class says of which class the map is: ask with explain=cam");
        return convoy_request_refuse(request, CONVOY_HTTP_BAD_REQUEST);
    }
    if (explained)
        *map = CONVOY_MAP_BEST;
    if (!chosen)
        return true;
    uint64_t class = 0;
    if (convoy_query_number("class", value, length, 0, UINT32_MAX - CONVOY_MAP_CLASS, &class,
                            &request->refusal_reason) != 0)
        return convoy_request_refuse(request, CONVOY_HTTP_BAD_REQUEST);
    *map = (uint32_t) class + CONVOY_MAP_CLASS;
    return true;
}

bool convoy_explain_check(struct convoy_request *request, const struct convoy_model_view *view, size_t count,
                          uint32_t map)
{
    const struct convoy_model_shape *shape = &view->shape;
    struct convoy_error *reason = &request->refusal_reason;

    if (map == CONVOY_MAP_NONE)
        return true;
    if (shape->map_height == 0)
        convoy_fail(
            reason, 0,
            "model %s has no class activation map: %s; cover parts of the picture in turn and compare "
            "the answers (occlusion), as the page at / does",
            view->model->name, shape->map_reason);
    else if (count > 1)
        convoy_fail(reason, 0, "explain takes one picture a request, not %zu", count);
    else if (map >= CONVOY_MAP_CLASS && map - CONVOY_MAP_CLASS >= shape->output_elements[0])
        convoy_fail(reason, 0, "model %s has %u classes: class is from 0 to %u", view->model->name,
                    shape->output_elements[0], shape->output_elements[0] - 1);
    else
        return true;
    return convoy_request_refuse(request, CONVOY_HTTP_BAD_REQUEST);
}

bool convoy_explain_take(struct convoy_request *request, uint32_t map)
{
    if (map == CONVOY_MAP_NONE || convoy_class_map_take())
        return true;
    convoy_fail(
        &request->refusal_reason, 0,
        "%d requests for class activation maps are under way, which is the most: try again in a second",
        CONVOY_CLASS_MAP_REQUESTS);
    return convoy_request_refuse(request, CONVOY_HTTP_SERVICE_UNAVAILABLE);
}

/* A JSON string; null when memory is out. */
static void write_data_uri(const struct convoy_class_map_picture *picture, struct convoy_json_writer *json)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const char before[] = "\"data:" TYPE_PNG ";base64,";
    size_t bytes = sizeof before - 1 + (picture->length + 2) / 3 * 4 + 1;
    char *text = malloc(bytes), *to = text;

    if (text == NULL) {
        convoy_json_write_fragment(json, "null", 4);
        return;
    }
    to = mempcpy(to, before, sizeof before - 1);
    for (size_t at = 0; at < picture->length; at += 3) {
        size_t left = picture->length - at;
        uint32_t second = left > 1 ? picture->png[at + 1] : 0, third = left > 2 ? picture->png[at + 2] : 0;
        uint32_t bits = (uint32_t)picture->png[at] << 16 | second << 8 | third;
        *to++ = digits[bits >> 18];
        *to++ = digits[bits >> 12 & 63];
        *to++ = left > 1 ? digits[bits >> 6 & 63] : '=';
        *to++ = left > 2 ? digits[bits & 63] : '=';
    }
    *to = '"';
    convoy_json_write_fragment(json, text, bytes);
    free(text);
}

static void write_box(const struct convoy_image_box *box, struct convoy_json_writer *json)
{
    convoy_json_write_key(json, "box");
    convoy_json_write_begin_array(json);
    convoy_json_write_double(json, box->left);
    convoy_json_write_double(json, box->top);
    convoy_json_write_double(json, box->right);
    convoy_json_write_double(json, box->bottom);
    convoy_json_write_end_array(json);
}

void convoy_explain_write(const struct convoy_inference_request *inference,
                          const struct convoy_class_map_picture *picture, struct convoy_json_writer *json)
{
    const struct convoy_item *item = &inference->samples[0].item;
    struct convoy_image_box box;
    char number[16];

    convoy_json_write_key(json, "explanation");
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "method");
    convoy_json_write_string(json, "cam");
    convoy_json_write_key(json, "label");
    convoy_json_write_string(json, convoy_model_label(&inference->view, item->map_class, number));
    convoy_json_write_key(json, "index");
    convoy_json_write_unsigned(json, item->map_class);
    convoy_json_write_key(json, "height");
    convoy_json_write_unsigned(json, item->map_height);
    convoy_json_write_key(json, "width");
    convoy_json_write_unsigned(json, item->map_width);
    convoy_json_write_key(json, "low");
    convoy_json_write_double(json, (double)picture->low);
    convoy_json_write_key(json, "high");
    convoy_json_write_double(json, (double)picture->high);
    if (convoy_class_map_box(inference, 0, &box))
        write_box(&box, json);
    convoy_json_write_key(json, "png");
    write_data_uri(picture, json);
    convoy_json_write_end_object(json);
}

/* Does the value of Accept name the type? */
static bool names(const char *accept, const char *type)
{
    const size_t length = strlen(type);

    while (*accept != '\0') {
        accept += strspn(accept, ", \t");
        size_t name = strcspn(accept, ",; \t");
        if (name == length && strncasecmp(accept, type, length) == 0)
            return true;
        accept += strcspn(accept, ",");
    }
    return false;
}

bool convoy_explain_wants_png(const struct convoy_request *request)
{
    const char *accept = convoy_request_header(request, "Accept");

    return accept != NULL && names(accept, TYPE_PNG) && !names(accept, CONVOY_TYPE_JSON);
}

bool convoy_explain_send(struct convoy_request *request, const struct convoy_class_map_picture *picture)
{
    struct convoy_json_writer bytes = {0};

    convoy_json_writer_append(&bytes, (const char *)picture->png, picture->length);
    return convoy_respond(request, CONVOY_HTTP_OK, TYPE_PNG, &bytes, CONVOY_RETRY_NONE);
}
