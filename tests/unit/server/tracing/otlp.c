/* Traces as a collector takes them: valid JSON whatever the texts are, parents, errors, requests without
 * stages. */
#include "server/tracing/otlp.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <string.h>

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"
#define SPAN   "53995c3f42cd8ad8"

static struct convoy_request_span request(void)
{
    return (struct convoy_request_span){.context = {TRACE, PARENT, SPAN, true},
                                        .request_id = "r-1",
                                        .method = "POST",
                                        .route = "/classify",
                                        .model = "m",
                                        .version = "1",
                                        .device = "cuda:0",
                                        .status = 200,
                                        .images = 2,
                                        .begun_ns = 1785542400000000001,
                                        .complete_ns = 1785542400000003001,
                                        .ended_ns = 1785542400000010000,
                                        .staged = true,
                                        .stage_ns = {1785542400000003001, 2, 3, 4, 5, 6, 7}};
}

static cJSON *written(const struct convoy_request_span *spans, uint32_t count, const cJSON **list)
{
    struct convoy_json_writer json = {0};
    convoy_otlp_write(&json, spans, count);
    cr_assert(!json.failed);
    cJSON *document = cJSON_ParseWithLength(json.bytes, json.length);
    cr_assert_not_null(document, "%.*s", (int)json.length, json.bytes);
    convoy_json_writer_free(&json);
    const cJSON *resource = cJSON_GetArrayItem(cJSON_GetObjectItem(document, "resourceSpans"), 0);
    *list = cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(resource, "scopeSpans"), 0), "spans");
    return document;
}

static const char *text(const cJSON *span, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(span, key));
}

static const char *attribute(const cJSON *span, const char *key)
{
    const cJSON *one;
    cJSON_ArrayForEach(one, cJSON_GetObjectItem(span, "attributes"))
    {
        const cJSON *value = cJSON_GetObjectItem(one, "value");
        if (strcmp(text(one, "key"), key) == 0)
            return cJSON_GetStringValue(value->child);
    }
    return NULL;
}

Test(otlp, a_server_span_and_its_stages)
{
    static const char *const names[] = {"wait", "decode", "queue", "input", "compute", "output"};
    struct convoy_request_span spans[] = {request(), request()};
    const cJSON *list;
    cJSON *document = written(spans, 2, &list);
    cr_assert_eq(cJSON_GetArraySize(list), 14);
    const cJSON *server = cJSON_GetArrayItem(list, 0);
    cr_assert_str_eq(text(server, "name"), "POST /classify");
    cr_assert_str_eq(text(server, "traceId"), TRACE);
    cr_assert_str_eq(text(server, "spanId"), SPAN);
    cr_assert_str_eq(text(server, "parentSpanId"), PARENT);
    cr_assert_str_eq(text(server, "startTimeUnixNano"), "1785542400000000001", "not one bit is lost");
    cr_assert_str_eq(text(server, "endTimeUnixNano"), "1785542400000010000");
    cr_assert_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(server, "kind")), 2);
    cr_assert_null(cJSON_GetObjectItem(server, "status"));
    cr_assert_str_eq(attribute(server, "convoy.receive_us"), "3");
    cr_assert_str_eq(attribute(server, "convoy.images"), "2");
    for (int i = 0; i < 6; i++) {
        const cJSON *stage = cJSON_GetArrayItem(list, i + 1);
        cr_assert_str_eq(text(stage, "name"), names[i]);
        cr_assert_str_eq(text(stage, "traceId"), TRACE);
        cr_assert_str_eq(text(stage, "parentSpanId"), SPAN);
        cr_assert_str_neq(text(stage, "spanId"), text(cJSON_GetArrayItem(list, i), "spanId"));
        if (i > 0)
            cr_assert_str_eq(text(stage, "startTimeUnixNano"),
                             text(cJSON_GetArrayItem(list, i), "endTimeUnixNano"));
    }
    cJSON_Delete(document);
}

Test(otlp, an_error_a_trace_that_begins_and_texts_that_others_choose)
{
    struct convoy_request_span span = request();
    span.context.parent_id[0] = '\0';
    span.status = 503;
    span.staged = false;
    strcpy(span.model, "\"\\\n\xff");
    const cJSON *list;
    cJSON *document = written(&span, 1, &list);
    cr_assert_eq(cJSON_GetArraySize(list), 1);
    const cJSON *server = cJSON_GetArrayItem(list, 0);
    cr_assert_null(cJSON_GetObjectItem(server, "parentSpanId"));
    cr_assert_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(server, "status"), "code")), 2);
    cr_assert_str_eq(attribute(server, "convoy.model"), "\"\\\n\xef\xbf\xbd");
    cr_assert_str_eq(attribute(server, "http.response.status_code"), "503");
    cJSON_Delete(document);
}
