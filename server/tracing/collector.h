/* The way to a collector of traces: POST requests with libcurl, which is opened at run time.
 *
 * A daemon that sends no traces has none of libcurl's twenty libraries in its process, which faces the
 * internet, and does not need the package. One thread at a time. */
#ifndef CONVOY_SERVER_COLLECTOR_H
#define CONVOY_SERVER_COLLECTOR_H

#include "engine/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct convoy_collector;

/* url is not kept. gives_up(context) is asked once a second and more often during a POST, which ends when it
 * is true. -ENOENT when there is no libcurl, -EINVAL when it does not take the URL, -ENOMEM. */
int convoy_collector_new(const char *url, bool (*gives_up)(void *context), void *context,
                         struct convoy_collector **collector, struct convoy_error *error);
void convoy_collector_free(struct convoy_collector *collector); /* NULL is allowed */

/* Sends JSON, within timeout_ms; 0 when the collector has taken it, else -EIO. What it answers is not kept.
 */
int convoy_collector_post(struct convoy_collector *collector, const char *json, size_t length,
                          uint32_t timeout_ms, struct convoy_error *error);

#endif
