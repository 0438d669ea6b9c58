#include "engine/cuda/runtime/fault.h"

#include "engine/cuda/runtime/calls.h"
#include "engine/cuda/runtime/memory.h"
#include "engine/fault_image.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOO_MUCH ((size_t)1 << 50)

static const struct {
    const char *format;
    enum convoy_fault_kind kind;
} kernels[] = {{"illegal:%u,%u,%u", CONVOY_FAULT_ILLEGAL},
               {"trap:%u,%u,%u", CONVOY_FAULT_TRAP},
               {"spin:%u,%u,%u", CONVOY_FAULT_SPIN}};

static enum { NONE, KERNEL, ECC, MEMORY, LOST } fault;
static enum convoy_fault_kind kernel;
static unsigned pixel[3];
static const char *model_name;

void convoy_cuda_fault_prepare(void)
{
    const char *wish = getenv("CONVOY_TEST_FAULT");
    fault = NONE;
    if (wish == NULL)
        return;
    if (strncmp(wish, "memory:", strlen("memory:")) == 0) {
        fault = MEMORY;
        model_name = wish + strlen("memory:");
    } else if (strncmp(wish, "lost:", strlen("lost:")) == 0) {
        fault = LOST;
        model_name = wish + strlen("lost:");
    } else if (sscanf(wish, "ecc:%u,%u,%u", &pixel[0], &pixel[1], &pixel[2]) == 3) {
        fault = ECC;
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
        if (sscanf(wish, kernels[i].format, &pixel[0], &pixel[1], &pixel[2]) == 3) {
            fault = KERNEL;
            kernel = kernels[i].kind;
        }
#pragma GCC diagnostic pop
}

int convoy_cuda_fault_on_job(const struct convoy_job *job, cudaStream_t stream, struct convoy_error *error)
{
    if ((fault != KERNEL && fault != ECC) || !convoy_job_has_pixel(job, pixel))
        return 0;
    if (fault == ECC)
        return convoy_cuda_check(cudaErrorECCUncorrectable, "a test", error);
    return convoy_cuda_check(convoy_launch_fault(kernel, stream), "a test", error);
}

int convoy_cuda_fault_on_load(const char *model, cudaStream_t stream, struct convoy_error *error)
{
    void *memory = NULL;
    if ((fault != MEMORY && fault != LOST) || strcmp(model, model_name) != 0)
        return 0;
    if (fault == LOST)
        return convoy_cuda_check(convoy_launch_fault(CONVOY_FAULT_ILLEGAL, stream), "a test", error);
    int failed = convoy_cuda_allocate(TOO_MUCH, "a test", &memory, error);
    convoy_cuda_release(memory);
    return failed;
}
