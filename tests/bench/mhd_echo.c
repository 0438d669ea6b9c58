/* The least that libmicrohttpd can do with a POST: take the body, answer a line. What convoyd's front is
 * measured against, with the same flags and as many threads. mhd_echo PORT THREADS */
#include <microhttpd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define ANSWER_BYTES 300 /* about what convoyd answers with ?top=1 */

static char answer[ANSWER_BYTES];

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **request)
{
    static int begun;
    (void)context, (void)url, (void)method, (void)version, (void)upload;
    if (*request == NULL) {
        *request = &begun;
        return MHD_YES;
    }
    if (*upload_bytes > 0) {
        *upload_bytes = 0;
        return MHD_YES;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof answer, answer, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

int main(int argc, char **argv)
{
    sigset_t ends;
    int number;
    if (argc != 3)
        return 2;
    for (size_t i = 0; i < sizeof answer; i++)
        answer[i] = 'x';
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_TURBO, (uint16_t)atoi(argv[1]), NULL, NULL,
                         handle, NULL, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)atoi(argv[2]),
                         MHD_OPTION_CONNECTION_LIMIT, 1024u, MHD_OPTION_END);
    if (daemon == NULL) {
        fprintf(stderr, "mhd_echo: cannot listen to port %s\n", argv[1]);
        return 1;
    }
    sigwait(&ends, &number);
    MHD_stop_daemon(daemon);
    return 0;
}
