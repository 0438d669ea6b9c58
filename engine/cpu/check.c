#include "engine/cpu/check.h"

#include <dnnl_debug.h>
#include <errno.h>
#include <sys/sysinfo.h>

int convoy_cpu_check(dnnl_status_t status, struct convoy_error *error, const char *node, const char *what)
{
    switch (status) {
    case dnnl_success:
        return 0;
    case dnnl_out_of_memory:
        return convoy_fail(error, -ENOMEM,
                           "node '%s': oneDNN found no memory to %s; free some or lower max_batch", node,
                           what);
    case dnnl_unimplemented:
    case dnnl_invalid_arguments:
        return convoy_fail(error, -ENOTSUP,
                           "node '%s': oneDNN cannot %s (%s); the CPU backend does not run this network",
                           node, what, dnnl_status2str(status));
    default:
        return convoy_fail(error, -EIO, "node '%s': oneDNN failed to %s (%s)", node, what,
                           dnnl_status2str(status));
    }
}

int convoy_cpu_no_memory(struct convoy_error *error, const char *node, const char *what, size_t bytes)
{
    struct sysinfo info;
    unsigned long long available = 0;
    if (sysinfo(&info) == 0)
        available = (unsigned long long)info.freeram * info.mem_unit;
    return convoy_fail(
        error, -ENOMEM,
        "node '%s': no memory for %zu bytes of %s, %llu are free; lower max_batch or serve fewer models",
        node, bytes, what, available);
}
