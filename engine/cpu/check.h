/* Turns oneDNN's statuses into errors. */
#ifndef CONVOY_ENGINE_CPU_CHECK_H
#define CONVOY_ENGINE_CPU_CHECK_H

#include "engine/base/error.h"

#include <dnnl.h>
#include <stddef.h>

/* Returns 0 for success; else fills error with a sentence that names the node and what was tried, and returns
 * -ENOMEM, -ENOTSUP (oneDNN cannot do that) or -EIO. */
int convoy_cpu_check(dnnl_status_t status, struct convoy_error *error, const char *node, const char *what);

/* Returns -ENOMEM with a sentence that names the node, what the memory is for, the bytes, and how many are
 * free. */
int convoy_cpu_no_memory(struct convoy_error *error, const char *node, const char *what, size_t bytes);

#endif
