/* libconvoy: asks a convoyd server to classify images.
 *
 *     struct convoy_client *client;
 *     struct convoy_failure failure;
 *     struct convoy_answer *answer;
 *     if (convoy_client_open("http://127.0.0.1:8080", &client, &failure) == 0 &&
 *         convoy_client_classify_files(client, (const char *[]){"cat.jpg"}, 1, NULL, &answer, &failure) == 0)
 *         puts(answer->results[0].predictions[0].label);
 *
 * Threads: a client is one connection; use it from one thread at a time. Different clients may be used from
 * different threads at the same time; this is how to have several requests in flight. An answer does not
 * depend on its client: any thread may read and free it, also after the client was closed.
 *
 * Errors: a function returns 0, or a negative errno value after it filled the struct convoy_failure, which
 * may be NULL: -ECONNREFUSED  no server answers at the URL -ETIMEDOUT     the server did not answer in time
 *     -EREMOTEIO     the server answered with an error: its status, message and request id are in failure
 *     -EPROTO        the answer is not a convoyd's, or the connection broke
 *     -EINVAL        an argument is wrong
 *     -ENOMEM        out of memory
 *     any other      the errno of the file that could not be read
 *
 * Link with -lconvoy; the static library needs libcurl and libcjson too. */
#ifndef CONVOY_H
#define CONVOY_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CONVOY_API __attribute__((visibility("default")))

/* Describes an error. */
struct convoy_failure {
    char message[512];   /* a sentence, the server's own if it sent one; NUL-terminated */
    char request_id[65]; /* the server's X-Request-Id, as in the server's log; "" without one */
    int status;          /* the HTTP status, 0 when there was no answer */
    int retry_after_s;   /* seconds after which a retry may succeed, 0 when the server named none */
};

/* One connection to one server. */
struct convoy_client;

/* An encoded image (JPEG, PNG, WebP, BMP or GIF) in memory. The caller owns the bytes. */
struct convoy_image {
    const void *bytes;
    size_t size;
};

/* Options of a classification; a zeroed struct selects the server's default for each. */
struct convoy_options {
    const char *model;   /* NULL: the server's default model */
    const char *version; /* NULL: the highest */
    int top;             /* 1 to 1000 classes for each image; 0: the server's default (5) */
    int timeout_ms;      /* the server's time limit for the request; 0: the server's default */
    bool profile;        /* measure every layer; the request then forms a batch of its own and is slower */
    double threshold; /* up to 1: classes of a lower probability are left out; 0: the model's; below 0: none
                         is */
    bool explain; /* of one image: also where the network found its best class. The server refuses models that
                     cannot say (status 400). Not with profile */
};

struct convoy_prediction {
    const char *label;
    long index;         /* of the class, from 0 */
    double probability; /* NaN where the network's output was not a number */
};

/* The result of one image: predictions by descending probability (none, where a threshold left none), or an
 * error with its status. */
struct convoy_result {
    const struct convoy_prediction *predictions;
    size_t prediction_count;
    const char *error; /* NULL when the image was classified */
    int status;        /* the HTTP status that belongs to error, 200 without one */
};

struct convoy_layer {
    const char *name;
    const char *kernel;
    double us;
};

/* A class activation map; docs/http.md defines each member. */
struct convoy_map {
    const char *label; /* of the class */
    long index;
    long height, width;              /* of the map, in values */
    double low, high;                /* what black and white stand for */
    double left, top, right, bottom; /* what it covers of the image, as parts of its width and height */
    const void *png;                 /* a grey picture of the map, as a PNG file */
    size_t png_size;
};

/* Microseconds, measured by the server; docs/http.md defines each stage. */
struct convoy_timing {
    double decode_us;
    double queue_us;
    double input_us;
    double compute_us;
    double output_us;
    double total_us;
    double wait_us; /* 0 from a server that does not tell */
};

/* The answer to one request. Everything that it points to is freed with it. */
struct convoy_answer {
    const char *model;
    const char *version;
    const char *device;  /* "" when no image was computed */
    char request_id[65]; /* the server's X-Request-Id */
    long batch_size;     /* of the batch that contained the request, 0 when no image was computed */
    long cached;         /* images that the server's response cache answered */
    long retries;        /* how often a batch was repeated because a worker died */
    struct convoy_timing timing;
    const struct convoy_result *results; /* one for each image, in order */
    size_t result_count;
    const struct convoy_layer *layers; /* none without options.profile */
    size_t layer_count;
    size_t decoded_by_gpu; /* images that the model's device decoded; 0 from a server that does not tell */
    const struct convoy_map *map; /* NULL without options.explain */
};

struct convoy_model {
    const char *name;
    const char *version;
    const char *state;  /* "READY", "LOADING" or "FAILED" */
    const char *reason; /* why it is FAILED, or why its changed files are not served yet; else "" */
};

/* The server's models by name, then version (as a number where it is one). */
struct convoy_models {
    const struct convoy_model *models;
    size_t count;
};

/* Makes a client for the server at url: http:// or https://, a host, optionally a port and a path prefix;
 * "host:port" means http, "unix:PATH" the Unix socket at PATH. Requests carry the key in the environment
 * variable CONVOY_KEY, where it is set. Sends nothing, so an unreachable server is reported by the first
 * request. The connection is kept between requests. The caller owns *client, for convoy_client_close; it is
 * NULL after an error. */
CONVOY_API int convoy_client_open(const char *url, struct convoy_client **client,
                                  struct convoy_failure *failure);

/* Closes the connection and frees the client. Accepts NULL. */
CONVOY_API void convoy_client_close(struct convoy_client *client);

/* Classifies count (at least 1) images in one request; blocks until the answer has arrived. options may be
 * NULL. Returns 0 when the server processed the images: with several images, each has its own result, which
 * may be an error. If a single image is refused, or the request as a whole fails, returns -EREMOTEIO. The
 * caller owns *answer, for convoy_answer_free; it is NULL after an error. */
CONVOY_API int convoy_client_classify(struct convoy_client *client, const struct convoy_image *images,
                                      size_t count, const struct convoy_options *options,
                                      struct convoy_answer **answer, struct convoy_failure *failure);

/* As convoy_client_classify, for files; all are read before the request is sent. If a file cannot be read,
 * the request fails and failure names the file. */
CONVOY_API int convoy_client_classify_files(struct convoy_client *client, const char *const *paths,
                                            size_t count, const struct convoy_options *options,
                                            struct convoy_answer **answer, struct convoy_failure *failure);

/* Frees an answer and everything that it points to. Accepts NULL. */
CONVOY_API void convoy_answer_free(struct convoy_answer *answer);

/* Lists the server's models. The caller owns *models, for convoy_models_free; it is NULL after an error. */
CONVOY_API int convoy_client_models(struct convoy_client *client, struct convoy_models **models,
                                    struct convoy_failure *failure);

/* Frees a list of models. Accepts NULL. */
CONVOY_API void convoy_models_free(struct convoy_models *models);

#ifdef __cplusplus
}
#endif

#endif
