/* Lines of the log that repeat: at most one a second is written, with the number of those that were not. For
 * what a client can cause as often as it likes.
 *
 *   static struct convoy_log_limit limit;
 *   uint64_t unwritten;
 *   if (convoy_log_limit_pass(&limit, &unwritten))
 *       convoy_log(CONVOY_LOG_INFO, "slow client cut off", ..., CONVOY_UINT("unwritten", unwritten));
 *
 * Any thread. */
#ifndef CONVOY_ENGINE_BASE_LOG_LIMIT_H
#define CONVOY_ENGINE_BASE_LOG_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* All zero: nothing was written yet. */
struct convoy_log_limit {
    _Atomic uint64_t next_us, unwritten;
};

/* True when the line is to be written. *unwritten: how many were not since the last one that was. */
bool convoy_log_limit_pass(struct convoy_log_limit *limit, uint64_t *unwritten);

/* For lines that are all to be written: how many were lost since the last one. */
uint64_t convoy_log_limit_take(struct convoy_log_limit *limit);

/* So many lines were to be written and are lost: the next one that is written counts them. */
void convoy_log_limit_lost(struct convoy_log_limit *limit, uint64_t lines);

#endif
