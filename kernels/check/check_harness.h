/* What the checks of kernels share: fresh random numbers, device memory with guards around it, and the
 * comparison with a float64 reference. Part of the program convoy-kernels; nothing of it is in the daemon. */
#ifndef CONVOY_KERNELS_CHECK_HARNESS_H
#define CONVOY_KERNELS_CHECK_HARNESS_H

#include "kernels/nhwc.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CONVOY_CHECK_BOUND 1e-5 /* of max |y64|: what fp32 promises */
#define CONVOY_CHECK_PICK(check, list)                                                                       \
    ((list)[convoy_check_between(check, 0, (int)(sizeof(list) / sizeof *(list)) - 1)])

struct convoy_check {
    uint64_t random;
    int cases, failures;
    double worst; /* error over max |y64| */
    double bound; /* of that; 0: CONVOY_CHECK_BOUND */
    bool has_nan; /* NaN is a result like any other, and all of the output is written */
};

/* Where images have NaN: lines 0 and 3. Of the windows of 2 x 2 that are pooled, first one side is NaN, then
 * the other, then none. A kernel may multiply what lies beside the filter by zero, so rows are for filters of
 * one row, columns for filters of one column. Or all of the last image, and no other one. */
enum check_nan { CHECK_NO_NAN, CHECK_NAN_ROWS, CHECK_NAN_COLUMNS, CHECK_NAN_LAST };

/* Device memory and its image on the host. Around it, and in it until something is written there, lies one
 * particular NaN: what is read outside spoils the answer, what is written outside is seen. */
struct convoy_check_buffer {
    int64_t floats;
    float *host, *device; /* past the guard before them */
    int offset;           /* floats by which both were moved off their 256-byte boundary */
};

/* low <= result <= high */
int convoy_check_between(struct convoy_check *check, int low, int high);
double convoy_check_random(struct convoy_check *check, double low, double high);
/* Any of the activations that follow other kernels' results, with numbers that suit it. */
struct convoy_unary convoy_check_any_unary(struct convoy_check *check);
/* Any of all. *low: at least so much is an input that the function is defined for, and smooth enough near. */
struct convoy_unary convoy_check_every_unary(struct convoy_check *check, double *low);
/* As --act and the descriptions of cases name it: "leaky_relu". Static. */
const char *convoy_check_unary_name(enum convoy_unary_kind kind);
double convoy_check_apply_unary(struct convoy_unary unary, double x);
/* NaN if one of them is. */
double convoy_check_larger(double a, double b);
/* As the hardware takes an operand: the nearest, ties away from zero in tf32 and to even in fp16. */
double convoy_check_round(double x, enum convoy_compute_type compute_type);

/* Poisoned. offset 1 to 3 makes memory that does not lie on 16 bytes. Ends the program if there is no memory.
 */
struct convoy_check_buffer convoy_check_buffer(int64_t floats, int offset);
/* Fills `count` planes of h x w with NaN. */
void convoy_check_put_nan(enum check_nan where, float *planes, int count, int h, int w);
/* Random numbers, on the device too. */
struct convoy_check_buffer convoy_check_input(struct convoy_check *check, int64_t floats, int offset,
                                              double low, double high);
void convoy_check_upload(const struct convoy_check_buffer *buffer);
/* Its device memory for numbers of 16 bits, two in a float's place. */
convoy_fp16 *convoy_check_halves(const struct convoy_check_buffer *buffer);
/* Zeros on the host, to be freed, and a copy on the device, for cudaFree(), without guards. Both end the
 * program if there is no memory. */
void *convoy_check_memory(int64_t count, size_t size);
void *convoy_check_device_copy(const void *host, size_t bytes);
void convoy_check_free(struct convoy_check_buffer *buffer);
/* Waits for the device. Of n images, is image `loud` marked with `mark`, and no other one marked? -1: none.
 */
bool convoy_check_marked(const uint32_t *marks, int64_t n, int64_t loud, uint32_t mark);

/* Counts a case: waits for the device, compares y with want (NaN: nothing may be written there, unless
 * check->has_nan), looks at the guards of y and, if it is not NULL, of scratch. A failure is counted and
 * printed with what the format says of the case. */
void convoy_check_result(struct convoy_check *check, cudaError_t launched, struct convoy_check_buffer *y,
                         const double *want, struct convoy_check_buffer *scratch, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

#ifdef __cplusplus
}
#endif
#endif
