/* Times of bottlenecks and inverted residuals beside those of their layers. Part of the program
 * convoy-kernels. */
#ifndef CONVOY_KERNELS_TIME_BOTTLENECKS_H
#define CONVOY_KERNELS_TIME_BOTTLENECKS_H

/* --bottlenecks: shapes of resnet50, mobilenet_v2 and efficientnet_b0, with so many images each, prints a
 * table. Each time is that of one of a chain of launches in a CUDA graph, all of which have weights of their
 * own: of the layers with the kernel that is fastest in such a chain of its own layer, and of each kernel
 * that makes the bottleneck as a whole. The numbers are not compared with anything: --check does that. runs:
 * of the graph, of which the median is taken. name: how the names of kernels begin that are timed, without
 * layers beside them; NULL: all. */
void time_bottlenecks(int runs, const int *batches, int batch_count, const char *name);

#endif
