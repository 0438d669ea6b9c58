/* The JSON of an inference request as a document, without the numbers and files of its tensor. */
#ifndef CONVOY_SERVER_TENSOR_DOCUMENT_H
#define CONVOY_SERVER_TENSOR_DOCUMENT_H

#include "engine/base/error.h"

#include <cjson/cJSON.h>
#include <stddef.h>

/* Bytes of JSON besides the data. A request has some hundred. A parser's objects take forty times as much as
 * their text, and live until the answer is out. */
#define CONVOY_TENSOR_DOCUMENT_MOST 65536

#define CONVOY_TENSOR_DOCUMENT_NAME "the request" /* as sentences call it */

struct convoy_tensor_document {
    const cJSON *root;        /* 0 stands for the data; strings belong to the document */
    size_t data, data_length; /* where the data lies in the text; length 0: there is none */

    /* Its own: root is one of them. */
    cJSON *parsed, *plain;
};

/* Reads any text; the data is "data" of the first of the "inputs". Zero at first. -EINVAL, -EFBIG past
 * CONVOY_TENSOR_DOCUMENT_MOST, -ENOMEM, with a sentence. The caller ends it, also after an error. Any thread.
 */
int convoy_tensor_document_read(struct convoy_tensor_document *document, const char *text, size_t length,
                                struct convoy_error *error);
/* The same of KServe's V1 protocol: the data is "instances". */
int convoy_tensor_document_read_instances(struct convoy_tensor_document *document, const char *text,
                                          size_t length, struct convoy_error *error);

void convoy_tensor_document_end(struct convoy_tensor_document *document); /* all-zero is allowed */

#endif
