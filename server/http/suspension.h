/* A connection that waits for others: its HTTP thread serves its other connections until somebody resumes it.
 *
 * Life: init and suspend on the connection's HTTP thread; resume once from any thread, which must keep the
 * suspension alive until the call returns (the connection may be answered, and its request end, before). A
 * stop resumes what is suspended still. */
#ifndef CONVOY_SERVER_SUSPENSION_H
#define CONVOY_SERVER_SUSPENSION_H

#include "server/inference/decode_pool.h"

#include <stdatomic.h>
#include <stdbool.h>

struct MHD_Connection;
struct convoy_http;

struct convoy_suspension {
    struct convoy_http *http;
    struct MHD_Connection *mhd;
    atomic_bool over; /* someone resumes, or has resumed, the connection */
    /* In the list of the suspended, under its lock. */
    struct convoy_suspension *next, *previous;
};

void convoy_suspension_init(struct convoy_suspension *suspension, struct convoy_http *http,
                            struct MHD_Connection *mhd);

/* Suspends and, where job is not NULL, hands it to the decode pool; false, with nothing done, when the daemon
 * is stopping. */
bool convoy_suspend(struct convoy_suspension *suspension, struct convoy_decode_job *job);

/* Only the first call does something. Once it has been called http may be gone. */
void convoy_resume(struct convoy_suspension *suspension);

/* True from the moment that somebody resumes. */
bool convoy_suspension_over(struct convoy_suspension *suspension);

/* Resumes all connections that are still suspended, for a stop; returns when none is. */
void convoy_resume_all(struct convoy_http *http);

#endif
