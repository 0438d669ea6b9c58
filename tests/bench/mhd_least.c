/* The least that a server of this kind must do with a POST of a JPEG, on bare libmicrohttpd: take the body,
 * decode the pixels with libjpeg-turbo, suspend the connection, have another thread resume it, answer a line.
 * What convoyd's front is measured against, with as many threads and the same libraries.
 *   mhd_least PORT THREADS [echo [CERTIFICATE KEY]]     the last two: over TLS
 * echo: it neither decodes nor suspends, and takes a body of any length, which it copies piece by piece over
 * itself. */
#include <microhttpd.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h> /* jpeglib.h needs FILE and size_t */
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#define ANSWER_BYTES 300 /* about what convoyd answers with ?top=1 */
#define BODY_BYTES   65536
#define ROW_BYTES    (3 * 1024)
#define PIXEL_BYTES  (1024 * ROW_BYTES)

struct request {
    struct request *next; /* of those that wait to be resumed */
    struct MHD_Connection *connection;
    bool suspended;
    size_t length;
    unsigned char body[];
};

static char answer[ANSWER_BYTES];
static bool echo;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static struct request *waiting;
static bool ending;

/* Resumes what waits, all of it at each turn. */
static void *resume(void *context)
{
    (void)context;
    pthread_mutex_lock(&lock);
    while (!ending || waiting != NULL) {
        struct request *first = waiting;
        if (first == NULL) {
            pthread_cond_wait(&filled, &lock);
            continue;
        }
        waiting = NULL;
        pthread_mutex_unlock(&lock);
        while (first != NULL) {
            struct request *request = first;
            first = request->next; /* the request may end as soon as it is resumed */
            MHD_resume_connection(request->connection);
        }
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void suspend(struct request *request)
{
    request->suspended = true;
    MHD_suspend_connection(request->connection);
    pthread_mutex_lock(&lock);
    request->next = waiting;
    waiting = request;
    if (request->next == NULL)
        pthread_cond_signal(&filled);
    pthread_mutex_unlock(&lock);
}

struct failure {
    struct jpeg_error_mgr manager;
    jmp_buf jump;
};

static void fail(j_common_ptr decoder)
{
    longjmp(((struct failure *)decoder->err)->jump, 1);
}

/* Into a buffer of the thread; false for what is no JPEG of at most 1024 x 1024 pixels. */
static bool decode(const struct request *request)
{
    static _Thread_local unsigned char *pixels;
    struct jpeg_decompress_struct decoder;
    struct failure failure;
    volatile bool ok = false;
    if (pixels == NULL && (pixels = malloc(PIXEL_BYTES)) == NULL)
        return false;
    decoder.err = jpeg_std_error(&failure.manager);
    failure.manager.error_exit = fail;
    jpeg_create_decompress(&decoder);
    if (setjmp(failure.jump) == 0) {
        jpeg_mem_src(&decoder, request->body, request->length);
        jpeg_read_header(&decoder, TRUE);
        decoder.out_color_space = JCS_RGB;
        jpeg_start_decompress(&decoder);
        ok = decoder.output_width <= 1024 && decoder.output_height <= 1024;
        while (ok && decoder.output_scanline < decoder.output_height) {
            JSAMPROW line = pixels + (size_t)decoder.output_scanline * ROW_BYTES;
            jpeg_read_scanlines(&decoder, &line, 1);
        }
    }
    jpeg_destroy_decompress(&decoder);
    return ok;
}

static enum MHD_Result respond(struct MHD_Connection *connection, unsigned status)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof answer, answer, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **place)
{
    struct request *request = *place;
    (void)context, (void)url, (void)method, (void)version;
    if (request == NULL) {
        request = malloc(sizeof *request + BODY_BYTES);
        if (request == NULL)
            return MHD_NO;
        *request = (struct request){.connection = connection};
        *place = request;
        return MHD_YES;
    }
    if (*upload_bytes > 0) {
        if (*upload_bytes > BODY_BYTES - request->length) {
            if (!echo || *upload_bytes > BODY_BYTES)
                return MHD_NO;
            request->length = 0;
        }
        memcpy(request->body + request->length, upload, *upload_bytes);
        request->length += *upload_bytes;
        *upload_bytes = 0;
        return MHD_YES;
    }
    if (request->suspended || echo)
        return respond(connection, MHD_HTTP_OK);
    if (!decode(request))
        return respond(connection, MHD_HTTP_UNPROCESSABLE_CONTENT);
    suspend(request);
    return MHD_YES;
}

static void complete(void *context, struct MHD_Connection *connection, void **place,
                     enum MHD_RequestTerminationCode why)
{
    (void)context, (void)connection, (void)why;
    free(*place);
    *place = NULL;
}

/* A PEM file; NULL where it cannot be read. */
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = file != NULL ? calloc(1, 65536) : NULL;
    if (text != NULL && fread(text, 1, 65535, file) == 0)
        text[0] = '\0';
    if (file != NULL)
        fclose(file);
    return text;
}

int main(int argc, char **argv)
{
    sigset_t ends;
    pthread_t resumer;
    int number;
    if (argc < 3)
        return 2;
    echo = argc > 3;
    for (size_t i = 0; i < sizeof answer; i++)
        answer[i] = 'x';
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    if (pthread_create(&resumer, NULL, resume, NULL) != 0)
        return 1;
    bool secure = argc > 5;
    char *certificate = secure ? read_file(argv[4]) : NULL, *key = secure ? read_file(argv[5]) : NULL;
    const struct MHD_OptionItem of_tls[] = {
        {secure ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0, certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, key},
        {MHD_OPTION_END, 0, NULL}};
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_TURBO | MHD_ALLOW_SUSPEND_RESUME | (secure ? MHD_USE_TLS : 0),
        (uint16_t)atoi(argv[1]), NULL, NULL, handle, NULL, MHD_OPTION_THREAD_POOL_SIZE,
        (unsigned)atoi(argv[2]), MHD_OPTION_CONNECTION_LIMIT, 1024u, MHD_OPTION_NOTIFY_COMPLETED, complete,
        NULL, MHD_OPTION_ARRAY, of_tls, MHD_OPTION_END);
    if (daemon == NULL) {
        fprintf(stderr, "mhd_least: cannot listen to port %s\n", argv[1]);
        return 1;
    }
    sigwait(&ends, &number);
    MHD_stop_daemon(daemon);
    free(certificate);
    free(key);
    pthread_mutex_lock(&lock);
    ending = true;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&lock);
    pthread_join(resumer, NULL);
    return 0;
}
