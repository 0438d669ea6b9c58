#include "server/inference/tensor_document.h"

#include "engine/base/json.h"
#include "engine/base/json_plain.h"
#include "server/inference/tensor_cut.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* Is there anything that would be cut out of the text? */
static bool has_data(const cJSON *document)
{
    const cJSON *input;

    cJSON_ArrayForEach(input, cJSON_GetObjectItemCaseSensitive(document, "inputs"))
    {
        if (cJSON_GetObjectItemCaseSensitive(input, "data") != NULL)
            return true;
    }
    return false;
}

/* The usual header of binary data: it is short, and there is nothing to cut out. */
static bool read_plain(struct convoy_tensor_document *document, const char *text, size_t length)
{
    document->plain = convoy_json_plain(text, length);
    if (document->plain != NULL && has_data(document->plain)) {
        free(document->plain);
        document->plain = NULL;
    }
    document->root = document->plain;
    return document->plain != NULL;
}

static int read_cut(struct convoy_tensor_document *document, const struct convoy_tensor_cut *cut,
                    const char *besides, struct convoy_error *error)
{
    document->data = cut->data;
    document->data_length = cut->data_length;
    if (cut->header_length > CONVOY_TENSOR_DOCUMENT_MOST)
        return convoy_fail(
            error, -EFBIG,
            "%s has %zu bytes of JSON besides %s and %d are read: leave out what is not needed",
            CONVOY_TENSOR_DOCUMENT_NAME, cut->header_length, besides, CONVOY_TENSOR_DOCUMENT_MOST);
    int code = convoy_json_parse(cut->header, cut->header_length, CONVOY_TENSOR_DOCUMENT_NAME,
                                 &document->parsed, error);
    document->root = document->parsed;
    return code;
}

static int no_memory(struct convoy_error *error)
{
    return convoy_fail(error, -ENOMEM, "the server is out of memory: try again later");
}

int convoy_tensor_document_read(struct convoy_tensor_document *document, const char *text, size_t length,
                                struct convoy_error *error)
{
    struct convoy_tensor_cut cut;

    if (read_plain(document, text, length))
        return 0;
    if (convoy_tensor_cut(text, length, &cut) != 0)
        return no_memory(error);
    int code = read_cut(document, &cut, "the tensor's data", error);
    free(cut.header);
    return code;
}

int convoy_tensor_document_read_instances(struct convoy_tensor_document *document, const char *text,
                                          size_t length, struct convoy_error *error)
{
    struct convoy_tensor_cut cut;

    if (convoy_tensor_cut_instances(text, length, &cut) != 0)
        return no_memory(error);
    int code = read_cut(document, &cut, "its instances", error);
    free(cut.header);
    return code;
}

void convoy_tensor_document_end(struct convoy_tensor_document *document)
{
    cJSON_Delete(document->parsed);
    free(document->plain);
    *document = (struct convoy_tensor_document){0};
}
