/* The public functions of libconvoy (convoy.h), over the connection, the form and the reader of answers. This
 * file is not convoy.c: all parts of the client know convoy.h, and this one knows all of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/answer.h"
#include "client/lib/convoy.h"
#include "client/lib/failure.h"
#include "client/lib/file.h"
#include "client/lib/http.h"
#include "client/lib/request.h"

#define MODELS_MS 30000L

struct convoy_client {
    struct client_http *http;
};

int convoy_client_open(const char *url, struct convoy_client **client, struct convoy_failure *failure)
{
    *client = NULL;
    struct convoy_client *made = calloc(1, sizeof *made);
    if (!made)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    int status = client_http_open(url, &made->http, failure);
    if (status) {
        free(made);
        return status;
    }
    *client = made;
    return 0;
}

void convoy_client_close(struct convoy_client *client)
{
    if (!client)
        return;
    client_http_close(client->http);
    free(client);
}

int convoy_client_classify(struct convoy_client *client, const struct convoy_image *images, size_t count,
                           const struct convoy_options *options, struct convoy_answer **answer,
                           struct convoy_failure *failure)
{
    struct client_request request;
    struct client_response response;
    *answer = NULL;
    int status = client_request_build(images, count, options, &request, failure);
    if (status == 0)
        status =
            client_http_post(client->http, &request,
                             client_http_patience_ms(options ? options->timeout_ms : 0), &response, failure);
    if (status == 0)
        status = client_answer_read(&response, count, answer, failure);
    client_request_clear(&request);
    return status;
}

int convoy_client_classify_files(struct convoy_client *client, const char *const *paths, size_t count,
                                 const struct convoy_options *options, struct convoy_answer **answer,
                                 struct convoy_failure *failure)
{
    int status = 0;
    size_t loaded = 0;
    *answer = NULL;
    struct convoy_image *images = calloc(count ? count : 1, sizeof *images);
    if (!images)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    for (; status == 0 && loaded < count; loaded++) {
        void *bytes = NULL;
        status = client_file_read(paths[loaded], &bytes, &images[loaded].size, failure);
        images[loaded].bytes = bytes;
    }
    if (status == 0)
        status = convoy_client_classify(client, images, count, options, answer, failure);
    for (size_t i = 0; i < loaded; i++)
        free((void *)images[i].bytes);
    free(images);
    return status;
}

int convoy_client_models(struct convoy_client *client, struct convoy_models **models,
                         struct convoy_failure *failure)
{
    struct client_response response;
    *models = NULL;
    int status = client_http_get(client->http, "/v2/models", MODELS_MS, &response, failure);
    return status ? status : client_models_read(&response, models, failure);
}

void convoy_answer_free(struct convoy_answer *answer)
{
    client_answer_discard(answer);
}

void convoy_models_free(struct convoy_models *models)
{
    client_models_discard(models);
}
