/* What convoyd needs of the binary interface of libnvjpeg.so.13 (nvJPEG of CUDA 13): numbers, structs and the
 * types of functions. NVIDIA's header is not needed to build convoyd, as CUDA's is for the kernels, and the
 * library is opened when a device is.
 *
 * The names are NVIDIA's with a prefix of our own, since its header may be included beside this one. */
#ifndef CONVOY_ENGINE_CUDA_NVJPEG_ABI_H
#define CONVOY_ENGINE_CUDA_NVJPEG_ABI_H

#include <cuda_runtime_api.h>
#include <stddef.h>

/* What each function returns. */
enum convoy_nvjpeg_status {
    CONVOY_NVJPEG_SUCCESS,
    CONVOY_NVJPEG_NOT_INITIALIZED,
    CONVOY_NVJPEG_INVALID_PARAMETER,
    CONVOY_NVJPEG_BAD_JPEG,
    CONVOY_NVJPEG_NOT_SUPPORTED,
    CONVOY_NVJPEG_ALLOCATOR_FAILURE,
    CONVOY_NVJPEG_EXECUTION_FAILED,
    CONVOY_NVJPEG_ARCH_MISMATCH,
    CONVOY_NVJPEG_INTERNAL_ERROR,
    CONVOY_NVJPEG_IMPLEMENTATION_NOT_SUPPORTED,
    CONVOY_NVJPEG_INCOMPLETE_BITSTREAM
};

enum convoy_nvjpeg_backend {
    CONVOY_NVJPEG_DEFAULT = 0,
    CONVOY_NVJPEG_GPU_HYBRID = 2, /* kernels; large batches also for the entropy coding */
    CONVOY_NVJPEG_HARDWARE = 3    /* the chip's JPEG engines */
};

enum convoy_nvjpeg_output {
    CONVOY_NVJPEG_UNCHANGED = 0, /* the components as they are coded, each a plane of its own size */
    CONVOY_NVJPEG_YUV = 1        /* the same of Y, Cb and Cr */
};

#define CONVOY_NVJPEG_COMPONENTS 4

struct convoy_nvjpeg_image {
    unsigned char *channel[CONVOY_NVJPEG_COMPONENTS]; /* in device memory */
    size_t pitch[CONVOY_NVJPEG_COMPONENTS];           /* bytes from line to line */
};

/* Allocators return 0, or an error as cudaMalloc(). */
struct convoy_nvjpeg_device_allocator {
    int (*allocate)(void *context, void **memory, size_t bytes, cudaStream_t stream);
    int (*release)(void *context, void *memory, size_t bytes, cudaStream_t stream);
    void *context;
};
struct convoy_nvjpeg_pinned_allocator {
    int (*allocate)(void *context, void **memory, size_t bytes, cudaStream_t stream);
    int (*release)(void *context, void *memory, size_t bytes, cudaStream_t stream);
    void *context;
};

typedef struct convoy_nvjpeg_opaque_handle *convoy_nvjpeg_handle;
typedef struct convoy_nvjpeg_opaque_state *convoy_nvjpeg_state;

/* nvjpegGetProperty(): 0 the major number of the version, 1 the minor one, 2 the patch. */
typedef int (*convoy_nvjpeg_get_property)(int which, int *value);
/* nvjpegCreateExV2() */
typedef int (*convoy_nvjpeg_create)(int backend, struct convoy_nvjpeg_device_allocator *device,
                                    struct convoy_nvjpeg_pinned_allocator *pinned, unsigned flags,
                                    convoy_nvjpeg_handle *handle);
/* nvjpegDestroy() */
typedef int (*convoy_nvjpeg_destroy)(convoy_nvjpeg_handle handle);
/* nvjpegJpegStateCreate() and nvjpegJpegStateDestroy() */
typedef int (*convoy_nvjpeg_state_create)(convoy_nvjpeg_handle handle, convoy_nvjpeg_state *state);
typedef int (*convoy_nvjpeg_state_destroy)(convoy_nvjpeg_state state);
/* nvjpegGetImageInfo(): reads a file's header; the arrays have CONVOY_NVJPEG_COMPONENTS entries, of the size
 * of each component. */
typedef int (*convoy_nvjpeg_get_image_info)(convoy_nvjpeg_handle handle, const unsigned char *data,
                                            size_t length, int *components, int *sampling, int *widths,
                                            int *heights);
/* nvjpegDecodeBatchedInitialize(): before batches of another size, and after a batch that failed. */
typedef int (*convoy_nvjpeg_batch_initialize)(convoy_nvjpeg_handle handle, convoy_nvjpeg_state state,
                                              int batch, int threads, int output);
/* nvjpegDecodeBatched(): returns when the work is in the stream; data is not read afterwards. */
typedef int (*convoy_nvjpeg_batch_decode)(convoy_nvjpeg_handle handle, convoy_nvjpeg_state state,
                                          const unsigned char *const *data, const size_t *lengths,
                                          struct convoy_nvjpeg_image *images, cudaStream_t stream);

#endif
