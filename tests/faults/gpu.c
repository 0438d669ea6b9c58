/* Kernels that go wrong, started through the CUDA driver that the backend's runtime has loaded, in the
 * context that the runtime made. So this file needs neither nvcc nor the runtime, and the product holds none
 * of it. */
#include "tests/faults/faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

/* The driver's own handles are pointers; its functions return 0 on success. */
static const char kernels[] = ".version 6.3\n"
                              ".target sm_75\n"
                              ".address_size 64\n"
                              ".visible .global .align 4 .u32 never;\n"
                              ".visible .entry illegal() {\n"
                              "    .reg .u64 %nowhere;\n"
                              "    mov.u64 %nowhere, 64;\n"
                              "    st.global.u32 [%nowhere], 1;\n"
                              "    ret;\n"
                              "}\n"
                              ".visible .entry stop() {\n"
                              "    trap;\n"
                              "    ret;\n"
                              "}\n"
                              ".visible .entry spin() {\n"
                              "    .reg .u32 %value;\n"
                              "    .reg .pred %again;\n"
                              "AGAIN:\n"
                              "    ld.volatile.global.u32 %value, [never];\n"
                              "    setp.eq.u32 %again, %value, 0;\n"
                              "    @%again bra AGAIN;\n"
                              "    ret;\n"
                              "}\n";
static const char *const names[] = {
    [FAULT_ILLEGAL] = "illegal", [FAULT_TRAP] = "stop", [FAULT_SPIN] = "spin"};

#define STREAM_NON_BLOCKING 1u

/* Calls a function of the driver by its name. */
#define DRIVER(driver, name, types, arguments)                                                               \
    ({                                                                                                       \
        int(*driver_call) types = NULL;                                                                      \
        *(void **)&driver_call = dlsym(driver, name);                                                        \
        driver_call == NULL ? -1 : driver_call arguments;                                                    \
    })

static int start(enum fault_kernel kernel, struct convoy_error *error)
{
    static void *module, *stream;
    void *function = NULL;
    const char *call = "cuModuleLoadData";
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL)
        return convoy_fail(error, -ENOSYS, "a test's fault of a GPU: %s", dlerror());
    int failed = module != NULL ? 0 : DRIVER(driver, call, (void **, const void *), (&module, kernels));
    if (!failed && stream == NULL)
        failed = DRIVER(driver, call = "cuStreamCreate", (void **, unsigned), (&stream, STREAM_NON_BLOCKING));
    if (!failed)
        failed = DRIVER(driver, call = "cuModuleGetFunction", (void **, void *, const char *),
                        (&function, module, names[kernel]));
    if (!failed)
        failed = DRIVER(driver, call = "cuLaunchKernel",
                        (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                         void **, void **),
                        (function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    /* The error of a kernel that ends is the context's from here on: whichever call comes next reports it. */
    if (!failed && kernel != FAULT_SPIN)
        (void)DRIVER(driver, "cuStreamSynchronize", (void *), (stream));
    return failed ? convoy_fail(error, -EIO, "a test's fault of a GPU: %s says %d", call, failed) : 0;
}

int fault_gpu(const struct convoy_backend *backend, enum fault_kernel kernel, bool at_once, bool *emulated,
              struct convoy_error *error)
{
    Dl_info where;
    *emulated = false;
    void *module = dladdr(backend, &where) != 0 ? dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (module != NULL) {
        void (*inject)(int, bool) = NULL;
        *(void **)&inject = dlsym(module, "convoy_emulated_inject");
        dlclose(module);
        if (inject != NULL) {
            *emulated = true;
            inject((int)kernel, at_once);
            return 0;
        }
    }
    return start(kernel, error);
}
