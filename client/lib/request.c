#include "client/lib/request.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "client/lib/failure.h"

#define BOUNDARY_BYTES 40

/* "&name=value" with value percent-encoded. */
static int put_text(FILE *out, const char *name, const char *value)
{
    char *escaped = curl_easy_escape(NULL, value, 0);
    if (!escaped)
        return -ENOMEM;
    fprintf(out, "&%s=%s", name, escaped);
    curl_free(escaped);
    return 0;
}

static int build_path(const struct convoy_options *options, char **path)
{
    char *text = NULL;
    size_t size = 0;
    int status = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return -ENOMEM;
    fputs("/classify", out);
    if (options->model)
        status = put_text(out, "model", options->model);
    if (status == 0 && options->version)
        status = put_text(out, "version", options->version);
    if (options->top)
        fprintf(out, "&top=%d", options->top);
    if (options->threshold != 0) /* no exponent: the server takes digits and a point */
        fprintf(out, "&threshold=%.9f", options->threshold > 0 ? options->threshold : 0.0);
    if (options->timeout_ms)
        fprintf(out, "&timeout_ms=%d", options->timeout_ms);
    if (options->profile)
        fputs("&profile=1", out);
    if (options->explain)
        fputs("&explain=cam", out);
    if (ferror(out))
        status = -ENOMEM;
    if (fclose(out))
        status = -ENOMEM;
    if (status) {
        free(text);
        return status;
    }
    char *first = strchr(text, '&');
    if (first)
        *first = '?';
    *path = text;
    return 0;
}

/* 128 random bits: no image contains them. */
static int make_boundary(char boundary[BOUNDARY_BYTES])
{
    unsigned long long bits[2];
    if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        return -EIO;
    snprintf(boundary, BOUNDARY_BYTES, "convoy%016llx%016llx", bits[0], bits[1]);
    return 0;
}

static int build_form(const struct convoy_image *images, size_t count, struct client_request *request)
{
    char boundary[BOUNDARY_BYTES], *form = NULL;
    size_t size = 0;
    int status = make_boundary(boundary);
    if (status)
        return status;
    FILE *out = open_memstream(&form, &size);
    if (!out)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "--%s\r\nContent-Disposition: form-data; name=\"image\"; filename=\"%zu\"\r\n\r\n",
                boundary, i);
        if (images[i].size)
            fwrite(images[i].bytes, 1, images[i].size, out);
        fputs("\r\n", out);
    }
    fprintf(out, "--%s--\r\n", boundary);
    status = ferror(out) ? -ENOMEM : 0;
    if (fclose(out))
        status = -ENOMEM;
    if (status == 0 &&
        asprintf(&request->header, "Content-Type: multipart/form-data; boundary=%s", boundary) < 0) {
        request->header = NULL;
        status = -ENOMEM;
    }
    request->own = form;
    request->body = form;
    request->body_size = size;
    return status;
}

int client_request_build(const struct convoy_image *images, size_t count,
                         const struct convoy_options *options, struct client_request *request,
                         struct convoy_failure *failure)
{
    static const struct convoy_options defaults;
    int status;
    memset(request, 0, sizeof *request);
    if (!options)
        options = &defaults;
    if (count == 0)
        return client_fail_with(failure, -EINVAL, "there is no image to classify");
    if (options->model && !*options->model)
        return client_fail_with(failure, -EINVAL, "the model's name is empty");
    if (options->version && !*options->version)
        return client_fail_with(failure, -EINVAL, "the model's version is empty");
    if (options->top < 0 || options->top > 1000)
        return client_fail_with(failure, -EINVAL, "top is %d, it must be 1 to 1000", options->top);
    if (!(options->threshold <= 1))
        return client_fail_with(failure, -EINVAL, "threshold is %g, it must be at most 1",
                                options->threshold);
    if (options->timeout_ms < 0 || options->timeout_ms > 3600000)
        return client_fail_with(failure, -EINVAL, "timeout_ms is %d, it must be 1 to 3600000",
                                options->timeout_ms);
    if (options->explain && count > 1)
        return client_fail_with(failure, -EINVAL, "an explanation is of one image, not of %zu", count);
    status = build_path(options, &request->path);
    if (status == 0 && count == 1) {
        request->body = images[0].size ? images[0].bytes : "";
        request->body_size = images[0].size;
        request->header = strdup("Content-Type: application/octet-stream");
        status = request->header ? 0 : -ENOMEM;
    } else if (status == 0) {
        status = build_form(images, count, request);
    }
    if (status)
        return client_fail_with(failure, status, "the request cannot be built: %s", strerror(-status));
    return 0;
}

void client_request_clear(struct client_request *request)
{
    free(request->path);
    free(request->header);
    free(request->own);
    memset(request, 0, sizeof *request);
}
