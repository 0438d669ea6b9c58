#include "server/daemon/beside.h"

#include "engine/base/log.h"
#include "engine/ipc/channel.h"

#include <stdlib.h>
#include <unistd.h>

#define BEAT_MS 1000u

static bool is_loading(const struct convoy_beside *beside, const struct convoy_model_states *states)
{
    struct convoy_health health;
    convoy_supervisor_health(beside->supervisor, &health);
    return states->loading > 0 || (states->ready > 0 && !health.worker) ||
           convoy_supervisor_loads(beside->supervisor) || convoy_supervisor_starts(beside->supervisor);
}

static void on_turn(uv_check_t *turn)
{
    struct convoy_beside *beside = turn->data;
    struct convoy_model_states states;
    struct convoy_error error;
    convoy_registry_states(beside->registry, &states);
    if (is_loading(beside, &states))
        return;
    if (convoy_manager_check_ready(beside->manager, &error) != 0) {
        convoy_log(CONVOY_LOG_ERROR, "the models cannot be loaded beside the workers that run",
                   CONVOY_STR("reason", error.message));
        _exit(EXIT_FAILURE); /* the master ends the workers */
    }
    uv_check_stop(turn);
    uv_timer_stop(&beside->beat);
    convoy_log(CONVOY_LOG_INFO, "models are loaded beside the workers that run",
               CONVOY_UINT("ready", states.ready), CONVOY_UINT("failed", states.failed));
    convoy_link_loaded(beside->link, CONVOY_CHANNEL_ABI);
}

static void on_beat(uv_timer_t *beat)
{
    struct convoy_beside *beside = beat->data;
    struct convoy_model_states states;
    convoy_registry_states(beside->registry, &states);
    uint32_t answered = states.ready + states.failed;
    /* A worker that loads ends within a limit. One that cannot start is started again for ever. */
    if (answered != beside->answered || convoy_supervisor_loads(beside->supervisor))
        convoy_link_loading(beside->link);
    beside->answered = answered;
}

/* Perhaps before the models are loaded, when the front before has crashed. */
static void on_go(void *context)
{
    struct convoy_beside *beside = context;
    convoy_link_on_go(beside->link, NULL, NULL);
    uv_close((uv_handle_t *)&beside->turn, NULL);
    uv_close((uv_handle_t *)&beside->beat, NULL);
    convoy_manager_take_over(beside->manager);
    beside->on_go(beside->context);
}

void convoy_beside_start(struct convoy_beside *beside)
{
    beside->answered = 0;
    uv_check_init(beside->loop, &beside->turn);
    uv_timer_init(beside->loop, &beside->beat);
    beside->turn.data = beside->beat.data = beside;
    uv_check_start(&beside->turn, on_turn);
    uv_timer_start(&beside->beat, on_beat, BEAT_MS, BEAT_MS);
    convoy_link_on_go(beside->link, on_go, beside);
}
