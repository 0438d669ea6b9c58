/* The chip for which times are estimated before anything was measured: an H200 with 132 multiprocessors, 60
 * TFLOP/s and 4.2 TB/s. Other chips differ by a factor that is about the same for all kernels. */
#ifndef CONVOY_KERNELS_CHIP_H
#define CONVOY_KERNELS_CHIP_H

#define CONVOY_ESTIMATE_SMS          132
#define CONVOY_ESTIMATE_FLOPS_PER_US 60e6
#define CONVOY_ESTIMATE_BYTES_PER_US 4.2e6
#define CONVOY_ESTIMATE_LAUNCH_US    2.5

#endif
