#include "server/http/suspension.h"

#include "server/http/http_state.h"
#include "server/http/request.h"

#include <microhttpd.h>
#include <pthread.h>

void convoy_suspension_init(struct convoy_suspension *suspension, const struct convoy_request *request)
{
    suspension->http = request->http;
    suspension->mhd = request->mhd;
    atomic_init(&suspension->over, false);
}

/* All under one lock, so that a stop finds either nothing or the whole. */
bool convoy_suspend(struct convoy_suspension *suspension, void (*begin)(void *context), void *context)
{
    struct convoy_http *http = suspension->http;

    pthread_mutex_lock(&http->suspended_lock);
    bool stopping = atomic_load(&http->stopping);
    if (!stopping) {
        convoy_list_add_first(&http->suspended, &suspension->link);
        MHD_suspend_connection(suspension->mhd);
        if (begin != NULL)
            begin(context);
    }
    pthread_mutex_unlock(&http->suspended_lock);
    return !stopping;
}

/* Under the lock. */
static void unlist(struct convoy_http *http, struct convoy_suspension *suspension)
{
    convoy_list_remove(&suspension->link);
    if (convoy_list_empty(&http->suspended) && atomic_load_explicit(&http->stopping, memory_order_relaxed))
        pthread_cond_broadcast(&http->none_suspended);
}

void convoy_resume(struct convoy_suspension *suspension)
{
    if (atomic_exchange(&suspension->over, true))
        return;
    struct convoy_http *http = suspension->http;
    MHD_resume_connection(suspension->mhd);
    pthread_mutex_lock(&http->suspended_lock);
    unlist(http, suspension);
    pthread_mutex_unlock(&http->suspended_lock);
}

bool convoy_suspension_over(const struct convoy_suspension *suspension)
{
    return atomic_load(&suspension->over);
}

bool convoy_suspension_stopping(const struct convoy_suspension *suspension)
{
    return atomic_load(&suspension->http->stopping);
}

void convoy_resume_all(struct convoy_http *http)
{
    pthread_mutex_lock(&http->suspended_lock);
    convoy_list_for_each(at, following, &http->suspended) {
        struct convoy_suspension *suspension = convoy_list_entry(at, struct convoy_suspension, link);
        if (atomic_exchange(&suspension->over, true))
            continue; /* the thread that resumes it is about to unlist it */
        MHD_resume_connection(suspension->mhd);
        unlist(http, suspension);
    }
    while (!convoy_list_empty(&http->suspended))
        pthread_cond_wait(&http->none_suspended, &http->suspended_lock);
    pthread_mutex_unlock(&http->suspended_lock);
}
