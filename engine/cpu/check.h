/* oneDNN's statuses as this project's errors. */
#ifndef CONVOY_ENGINE_CPU_CHECK_H
#define CONVOY_ENGINE_CPU_CHECK_H

#include "engine/base/error.h"

#include <dnnl.h>
#include <stddef.h>

/* 0 for success; else fills error with a sentence that names what was tried and for which node, and returns
 * -ENOMEM, -ENOTSUP (oneDNN cannot do that) or -EIO. */
int convoy_cpu_check(dnnl_status_t status, struct convoy_error *error, const char *node, const char *what);

/* -ENOMEM, with a sentence that names for which node how many bytes were asked for what, and how many are
 * free. */
int convoy_cpu_no_memory(struct convoy_error *error, const char *node, const char *what, size_t bytes);

#endif
