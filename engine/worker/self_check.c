/* Whether the device still computes as it did, and still holds the weights that it was given. A worker that
 * finds a difference ends at once: none of its answers is worth having. */
#include "engine/base/clock.h"
#include "engine/worker/canary.h"
#include "engine/worker/serve.h"
#include "engine/worker/serve_internal.h"

#include <errno.h>
#include <unistd.h>

#define QUIET_US 100000u /* without work before checks run, so that they do not come between requests */
#define SLICE_US 1000    /* how long a slot may wait because weights are read */
#define SHARE    100u    /* checks take at most one part in so many of the time */
#define DECODER  CONVOY_MAX_MODELS /* in place of a model's number */

static void report(struct convoy_worker *worker, uint32_t model, const char *check, const char *reason)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "type", "checked");
    if (model != DECODER)
        cJSON_AddNumberToObject(message, "model", model);
    cJSON_AddStringToObject(message, "check", check);
    cJSON_AddBoolToObject(message, "same", reason == NULL);
    if (reason != NULL)
        cJSON_AddStringToObject(message, "reason", reason);
    convoy_control_send(&worker->control, message);
}

static _Noreturn void end_for(struct convoy_worker *worker, uint32_t model, const char *check,
                              const char *reason)
{
    report(worker, model, check, reason);
    _exit(CONVOY_EXIT_WRONG);
}

/* false when there was no memory to run it with. */
static bool run(struct convoy_worker *worker, uint32_t model, struct convoy_canary *answer, uint64_t *took_us)
{
    struct convoy_error error;
    int code = convoy_worker_canary_run(&worker->device, &worker->nets[model], answer, took_us, &error);
    if (code != 0 && code != -ENOMEM)
        convoy_worker_lose_device(worker, &error);
    return code == 0;
}

static void expect_near(struct convoy_worker *worker, uint32_t model, const struct convoy_canary *answer)
{
    const struct convoy_worker_net *net = &worker->nets[model];
    struct convoy_error error;
    float bound = net->fp32_only ? CONVOY_CANARY_BOUND_FP32 : CONVOY_CANARY_BOUND_LESS;
    if (!convoy_canary_agrees(&net->known.first, answer, bound, &error))
        end_for(worker, model, "canary", error.message);
}

void convoy_worker_check_loaded(struct convoy_worker *worker, uint32_t model, cJSON *described)
{
    struct convoy_worker_checks *checks = &worker->checks;
    struct convoy_worker_known *known = &worker->nets[model].known;
    struct convoy_canary again;
    uint64_t first_run_us = 0, row_us;
    known->there = run(worker, model, &known->first, &first_run_us);
    cJSON_AddNumberToObject(described, "first_run_us", (double)first_run_us);
    if (!known->there)
        return;
    convoy_worker_canary_describe(&known->first, described);
    if (run(worker, model, &again, &row_us)) {
        cJSON_AddNumberToObject(described, "row_us", (double)row_us);
        expect_near(worker, model, &again);
        known->exact = again.hash == known->first.hash;
        if (!known->exact)
            convoy_control_log(&worker->control, "warning",
                               "a model's answers to one row differ in their last bits from run to run: its "
                               "canary finds larger differences only");
    }
    known->hash = again.hash;
    if (!checks->begun)
        checks->due_us = convoy_now_us() + checks->period_us;
}

void convoy_worker_check_changed(struct convoy_worker *worker)
{
    struct convoy_canary answer;
    uint64_t ignored;
    for (uint32_t model = 0; worker->checks.changed && model < CONVOY_MAX_MODELS; model++) {
        struct convoy_worker_known *known = &worker->nets[model].known;
        if (!known->changed)
            continue;
        known->changed = false;
        if (!known->there || !run(worker, model, &answer, &ignored))
            continue;
        expect_near(worker, model, &answer);
        known->hash = answer.hash;
        report(worker, model, "canary", NULL);
    }
    worker->checks.changed = false;
}

static void check_canary(struct convoy_worker *worker, uint32_t model)
{
    const struct convoy_worker_known *known = &worker->nets[model].known;
    struct convoy_canary answer;
    uint64_t ignored;
    if (!known->there || !run(worker, model, &answer, &ignored))
        return;
    expect_near(worker, model, &answer);
    if (known->exact && answer.hash != known->hash)
        end_for(worker, model, "canary", "the last bits differ, though the same kernels ran");
    report(worker, model, "canary", NULL);
}

/* Reads a slice of a model's weights; true while there is more to read. */
static bool check_weights(struct convoy_worker *worker, uint32_t model)
{
    struct convoy_error error;
    const struct convoy_backend *backend = worker->device.backend;
    if (backend->verify == NULL)
        return false;
    int more = backend->verify(worker->device.device, worker->nets[model].net, SLICE_US, &error);
    if (more == -EBADMSG)
        end_for(worker, model, "weights", error.message);
    if (more < 0 && more != -ENOMEM)
        convoy_worker_lose_device(worker, &error);
    if (more == 0)
        report(worker, model, "weights", NULL);
    return more > 0;
}

/* Files that cannot be decoded are given back to the front, and are no fault; wrong pixels would be answered.
 */
static void check_decoder(struct convoy_worker *worker)
{
    struct convoy_error error;
    const struct convoy_backend *backend = worker->device.backend;
    if (backend->verify_decoder == NULL)
        return;
    int right = backend->verify_decoder(worker->device.device, &error);
    if (right == -EBADMSG)
        end_for(worker, DECODER, "decoder", error.message);
    if (right < 0)
        convoy_worker_lose_device(worker, &error);
    if (right > 0)
        report(worker, DECODER, "decoder", NULL);
}

static void end_round(struct convoy_worker_checks *checks, uint64_t now)
{
    uint64_t rest_us = checks->busy_us * SHARE;
    checks->due_us = now + (rest_us > checks->period_us ? rest_us : checks->period_us);
    checks->begun = false;
    checks->busy_us = 0;
}

static uint64_t begin_us(const struct convoy_worker_checks *checks)
{
    uint64_t quiet_us = checks->worked_us + QUIET_US;
    return checks->due_us > quiet_us ? checks->due_us : quiet_us;
}

void convoy_worker_check_init(struct convoy_worker *worker, uint64_t period_us)
{
    worker->checks = (struct convoy_worker_checks){.period_us = period_us};
}

bool convoy_worker_check_idle(struct convoy_worker *worker)
{
    struct convoy_worker_checks *checks = &worker->checks;
    if (checks->period_us == 0 || !worker->attached || worker->in_flight > 0)
        return false;
    uint64_t now = convoy_now_us();
    if (checks->worked)
        checks->worked_us = now;
    checks->worked = false;
    if (now < begin_us(checks))
        return false;
    if (!checks->begun)
        checks->model = 0;
    checks->begun = true;
    while (checks->model < CONVOY_MAX_MODELS && worker->nets[checks->model].net == NULL)
        checks->model++;
    if (checks->model == DECODER) {
        check_decoder(worker);
        checks->busy_us += convoy_now_us() - now;
        end_round(checks, convoy_now_us());
        return true;
    }
    /* The weights first: what is wrong with them is said as that, and not as a wrong answer. */
    if (!checks->weights_done) {
        checks->weights_done = !check_weights(worker, checks->model);
    } else {
        check_canary(worker, checks->model++);
        checks->weights_done = false;
    }
    checks->busy_us += convoy_now_us() - now;
    return true;
}

int convoy_worker_check_wait_ms(const struct convoy_worker *worker)
{
    if (worker->checks.period_us == 0 || !worker->attached)
        return -1;
    uint64_t now = convoy_now_us(), begin = begin_us(&worker->checks);
    return now < begin ? (int)((begin - now) / 1000 + 1) : 0;
}
