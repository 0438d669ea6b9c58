#include "engine/cuda/decode/nvjpeg.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define NAME "libnvjpeg.so.13"

/* Where the Toolkit puts it; the loader knows them only where an administrator told it so. */
static const char *const places[] = {NAME,
                                     "/usr/local/cuda-13/targets/x86_64-linux/lib/" NAME,
                                     "/usr/local/cuda/targets/x86_64-linux/lib/" NAME,
                                     "/usr/local/cuda-13.0/targets/x86_64-linux/lib/" NAME,
                                     "/usr/local/cuda/targets/sbsa-linux/lib/" NAME,
                                     "/usr/local/cuda/lib64/" NAME};

struct symbol {
    const char *name;
    size_t place;
};

#define SYMBOL(name, member)                                                                                 \
    {                                                                                                        \
        name, offsetof(struct convoy_nvjpeg, member)                                                         \
    }
static const struct symbol symbols[] = {
    SYMBOL("nvjpegGetProperty", get_property),
    SYMBOL("nvjpegCreateExV2", create),
    SYMBOL("nvjpegDestroy", destroy),
    SYMBOL("nvjpegJpegStateCreate", state_create),
    SYMBOL("nvjpegJpegStateDestroy", state_destroy),
    SYMBOL("nvjpegGetImageInfo", get_image_info),
    SYMBOL("nvjpegDecodeBatchedInitialize", batch_initialize),
    SYMBOL("nvjpegDecodeBatched", batch_decode),
};

int convoy_nvjpeg_open(struct convoy_nvjpeg *nvjpeg, struct convoy_error *error)
{
    *nvjpeg = (struct convoy_nvjpeg){0};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && nvjpeg->handle == NULL; i++)
        nvjpeg->handle = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
    if (nvjpeg->handle == NULL)
        return convoy_fail(error, -ENOENT, "there is no " NAME ", which is part of the CUDA Toolkit");
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *symbol = dlsym(nvjpeg->handle, symbols[i].name);
        if (symbol == NULL) {
            convoy_nvjpeg_close(nvjpeg);
            return convoy_fail(error, -ENOSYS, NAME " lacks %s", symbols[i].name);
        }
        memcpy((char *)nvjpeg + symbols[i].place, &symbol, sizeof(symbol));
    }
    return 0;
}

void convoy_nvjpeg_close(struct convoy_nvjpeg *nvjpeg)
{
    if (nvjpeg->handle != NULL)
        dlclose(nvjpeg->handle);
    *nvjpeg = (struct convoy_nvjpeg){0};
}

const char *convoy_nvjpeg_status_text(int status)
{
    static const char *const texts[] = {[CONVOY_NVJPEG_SUCCESS] = "success",
                                        [CONVOY_NVJPEG_NOT_INITIALIZED] = "not initialized",
                                        [CONVOY_NVJPEG_INVALID_PARAMETER] = "invalid parameter",
                                        [CONVOY_NVJPEG_BAD_JPEG] = "bad JPEG",
                                        [CONVOY_NVJPEG_NOT_SUPPORTED] = "JPEG not supported",
                                        [CONVOY_NVJPEG_ALLOCATOR_FAILURE] = "allocator failure",
                                        [CONVOY_NVJPEG_EXECUTION_FAILED] = "execution failed",
                                        [CONVOY_NVJPEG_ARCH_MISMATCH] = "the GPU lacks it",
                                        [CONVOY_NVJPEG_INTERNAL_ERROR] = "internal error",
                                        [CONVOY_NVJPEG_IMPLEMENTATION_NOT_SUPPORTED] =
                                            "implementation not supported",
                                        [CONVOY_NVJPEG_INCOMPLETE_BITSTREAM] = "incomplete bitstream"};
    return status >= 0 && status < (int)(sizeof(texts) / sizeof(texts[0])) ? texts[status] : "unknown error";
}
