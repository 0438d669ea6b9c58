/* Long answers (server/api/long_answer.h) in a decode pool of one thread, on an HTTP thread that the test
 * plays. */
#include "server/api/long_answer.h"

#include "server/api/app.h"
#include "server/api/call.h"
#include "server/http/http_state.h"
#include "server/http/http_thread.h"
#include "server/http/status.h"
#include "server/inference/decode_pool.h"

#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LONG    4097u
#define LIMIT_S 20 /* of what other threads have to do, which takes microseconds */

static struct convoy_app app;
static struct convoy_http http;
static struct convoy_http_thread thread;
static struct convoy_request *request;
static struct convoy_call *call;
static struct convoy_json_writer json;
static sem_t begun, release, written;
static atomic_uint writes;

static void wait_for(sem_t *event)
{
    struct timespec limit;

    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += LIMIT_S;
    cr_assert_eq(sem_timedwait(event, &limit), 0, "it did not happen within %d s", LIMIT_S);
}

static uint64_t occupy(struct convoy_decode_job *job, uint32_t index)
{
    (void)job;
    (void)index;
    sem_post(&begun);
    sem_wait(&release);
    return 0;
}

static struct convoy_decode_job occupation = {.count = 1, .size = 1, .work = occupy, .first = true};

static void begin(void)
{
    struct convoy_error error;

    cr_assert_eq(convoy_decode_pool_start(1, 0, &app.pipeline.decode_pool, &error), 0);
    sem_init(&begun, 0, 0);
    sem_init(&release, 0, 0);
    sem_init(&written, 0, 0);
    thread.http = &http;
    pthread_mutex_init(&thread.lock, NULL);
    convoy_list_init(&thread.suspended);
    convoy_list_init(&thread.resumed);
    request = calloc(1, sizeof *request + sizeof *call);
    request->thread = &thread;
    request->http = &http;
    request->app = &app;
    request->half_closed = true; /* a suspension does not ask the library */
    call = convoy_call_of(request);
}

static void end(void)
{
    sem_post(&release); /* where a failure left the pool's thread occupied */
    convoy_decode_pool_stop(app.pipeline.decode_pool);
    convoy_long_answer_free(call->long_answer);
    convoy_json_writer_free(&json);
    free(request);
}

TestSuite(long_answer, .init = begin, .fini = end);

/* The pool's one thread is busy from then on until `release`. */
static void occupy_pool(void)
{
    convoy_decode_pool_add(app.pipeline.decode_pool, &occupation);
    wait_for(&begun);
}

static void write_one(struct convoy_request *of, struct convoy_json_writer *to)
{
    atomic_fetch_add(&writes, 1);
    convoy_json_write_unsigned(to, of == request ? 17 : 0);
    sem_post(&written);
}

static void write_slowly(struct convoy_request *of, struct convoy_json_writer *to)
{
    sem_post(&begun);
    sem_wait(&release);
    write_one(of, to);
}

static struct convoy_suspension *suspension(void)
{
    cr_assert_not(convoy_list_empty(&thread.suspended));
    return convoy_list_entry(thread.suspended.next, struct convoy_suspension, link);
}

/* What the HTTP thread does with it, once every thread of the pool is done. */
static int take(const char **sentence)
{
    convoy_decode_pool_end(app.pipeline.decode_pool);
    cr_assert(convoy_suspension_over(suspension()), "the connection stays suspended");
    cr_assert_eq(thread.resumed.next, &suspension()->resumed);
    cr_assert_eq(thread.resumed.previous, &suspension()->resumed, "it is resumed once");
    return convoy_long_answer_take(call->long_answer, &json, sentence);
}

static void assert_written_whole(void)
{
    const char *sentence = NULL;

    cr_assert_eq(take(&sentence), CONVOY_HTTP_OK);
    cr_assert_eq(json.length, 2);
    cr_assert_eq(memcmp(json.bytes, "17", 2), 0);
    cr_assert_eq(atomic_load(&writes), 1);
}

static void assert_not_written(int status, const char *words)
{
    const char *sentence = NULL;

    cr_assert_eq(take(&sentence), status);
    cr_assert_not_null(strstr(sentence, words), "%s", sentence);
    cr_assert_null(json.bytes);
    cr_assert_eq(atomic_load(&writes), 0, "it was written for no one");
}

Test(long_answer, is_written_by_the_pool)
{
    cr_assert(convoy_long_answer_leave(request, LONG, write_one));
    wait_for(&written);
    assert_written_whole();
}

Test(long_answer, that_is_short_is_left_to_the_caller)
{
    cr_assert_not(convoy_long_answer_leave(request, LONG - 1, write_one));
    cr_assert_null(call->long_answer);
    cr_assert(convoy_list_empty(&thread.suspended));
}

Test(long_answer, is_left_to_the_caller_once_no_connection_is_suspended_any_more)
{
    thread.stopping = true;
    cr_assert_not(convoy_long_answer_leave(request, LONG, write_one));
    cr_assert_null(call->long_answer);
    cr_assert(convoy_list_empty(&thread.suspended));
}

Test(long_answer, that_waits_when_the_daemon_stops_is_not_written)
{
    occupy_pool();
    cr_assert(convoy_long_answer_leave(request, LONG, write_one));
    atomic_store(&http.stopping, true);
    sem_post(&release);
    assert_not_written(CONVOY_HTTP_SERVICE_UNAVAILABLE, "stopping");
}

Test(long_answer, that_waits_when_its_client_leaves_is_not_written)
{
    occupy_pool();
    cr_assert(convoy_long_answer_leave(request, LONG, write_one));
    suspension()->look(suspension(), true);
    cr_assert(convoy_suspension_over(suspension()), "the client is gone, and the connection waits");
    sem_post(&release);
    assert_not_written(CONVOY_HTTP_CLIENT_GONE, "closed");
}

Test(long_answer, that_is_begun_when_its_client_leaves_is_finished)
{
    cr_assert(convoy_long_answer_leave(request, LONG, write_slowly));
    wait_for(&begun);
    suspension()->look(suspension(), true);
    cr_assert_not(convoy_suspension_over(suspension()), "a thread writes into it");
    sem_post(&release);
    assert_written_whole();
}

Test(long_answer, of_a_client_that_stays_waits_for_its_turn)
{
    occupy_pool();
    cr_assert(convoy_long_answer_leave(request, LONG, write_one));
    suspension()->look(suspension(), false);
    cr_assert_not(convoy_suspension_over(suspension()));
    sem_post(&release);
    assert_written_whole();
}
