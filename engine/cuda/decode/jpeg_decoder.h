/* Jobs of JPEG files, decoded by nvJPEG: the chip's JPEG engines where it has them, otherwise its kernels. A
 * job's files become rows of 8-bit pixels in device memory (CONVOY_LAYOUT_U8_HWC), which the compute thread
 * copies to where a network reads them.
 *
 * A decoder has several states: a thread, a stream and memory each. A state's thread takes the oldest job and
 * a room for its rows (jpeg_room.h), checks its files (jpeg_file.h), has them decoded in rounds that fit its
 * memory, and launches a kernel that turns, resizes and crops (kernels/fit_images.h) into the room. So the
 * compute thread waits for none of this, several jobs are decoded beside each other, and networks run
 * meanwhile; a state goes on with the next job while the rows of the last wait in their room.
 *
 *     compute thread    submit ────────────────▶ ended? ─▶ copy of the rows, network ─▶ release
 *     state's thread            check, decode, fit                                       next job
 *
 * A file that cannot be decoded is marked in its job, and its row is zeros; others are not touched. Where a
 * batch fails as a whole, it is decoded in halves until the files are found.
 *
 * Memory: all of it is allocated by convoy_jpeg_decoder_prepare() and convoy_jpeg_decoder_reserve(), except
 * what nvJPEG keeps for itself, which is bounded.
 *
 * Threads: the compute thread calls all of this, but for what says otherwise. */
#ifndef CONVOY_ENGINE_CUDA_JPEG_DECODER_H
#define CONVOY_ENGINE_CUDA_JPEG_DECODER_H

#include "engine/cuda/decode/jpeg_task.h"
#include "engine/cuda/runtime/gpu.h"

/* Jobs that are decoded at once. On an H200 with 256 clients' photographs of 500 x 375 to resnet50, which
 * make batches of some 33: with 2 the states are the bound (22,800 a second), with 3 they are not (23,500;
 * 25,000 with what else is there now), and 4 bring nothing more. With batches of 64 and nothing else to do 2
 * are as fast and take 87 us of the processor's time a picture, 3 take 119: a state's thread spins in nvJPEG.
 * A start with 2 is 0.3 s shorter than with 4. */
#define CONVOY_JPEG_STATES 3
#define CONVOY_JPEG_AHEAD  4 /* jobs that the worker gives it besides those that compute */
/* Jobs that are being decoded, or have been and wait for a network. */
#define CONVOY_JPEG_ROOMS 8

struct convoy_jpeg_decoder;

/* Opens the library, which takes a millisecond and no device; gpu may be opened later. NULL with a sentence
 * if that cannot be. Before the worker confines itself. */
struct convoy_jpeg_decoder *convoy_jpeg_decoder_open(const struct convoy_cuda_gpu *gpu,
                                                     struct convoy_error *error);
/* No task may be under way. NULL is allowed. */
void convoy_jpeg_decoder_close(struct convoy_jpeg_decoder *decoder);

/* Makes the states and rooms, and has the states decode pictures that are known: 0.6 s on an H100. A second
 * call does what the first one left to do. Any one thread, for which this selects the device, while the
 * compute thread works: no lock is held that it waits for. (The driver has locks of its own: a launch may
 * wait for a call here that allocates or pins memory, or loads nvJPEG's kernels, some milliseconds each.) A
 * call waits for one that is under way on another thread. Returns 0: tasks may be submitted once reserve()
 * has returned 0, too; -ENOTSUP: this device cannot; -ENOMEM: it lacks memory, and a later call may succeed;
 * else the device is lost. */
int convoy_jpeg_decoder_prepare(struct convoy_jpeg_decoder *decoder, struct convoy_error *error);

/* Makes room for jobs of up to `rows` rows of image_bytes. Tasks may be under way. -EAGAIN: prepare() comes
 * first, and will make that room; -ENOTSUP: this device cannot, or rows are too large; -ENOMEM: it lacks
 * memory; else the device is lost. After an error jobs of such rows may not be submitted; others that were
 * prepared for still may. */
int convoy_jpeg_decoder_reserve(struct convoy_jpeg_decoder *decoder, uint32_t rows, size_t image_bytes,
                                struct convoy_error *error);

/* Device memory that it holds, in bytes, nvJPEG's own included. NULL is allowed. */
uint64_t convoy_jpeg_decoder_memory(const struct convoy_jpeg_decoder *decoder);

/* Queues a task. */
void convoy_jpeg_decoder_submit(struct convoy_jpeg_decoder *decoder, struct convoy_jpeg_task *task);
/* Waits until a task that was submitted with `wakes` has ended. */
void convoy_jpeg_decoder_wait(struct convoy_jpeg_decoder *decoder, const struct convoy_jpeg_task *task);
/* True once it has ended. Costs a load. */
bool convoy_jpeg_task_ended(const struct convoy_jpeg_task *task);
/* After it has ended and what reads its images is in the stream: its room is another's when the stream has
 * come that far. 0 or as convoy_cuda_check(). */
int convoy_jpeg_decoder_release(struct convoy_jpeg_decoder *decoder, struct convoy_jpeg_task *task,
                                cudaStream_t stream, struct convoy_error *error);

/* Has each state decode, turn and resize a file whose row is known (jpeg_known.h), as it does with a job's.
 * With no task under way. Returns 1: all rows are right; 0: nothing is prepared, or a state could not
 * decode the file, which it would say of a client's, too; -EBADMSG with a sentence: a row is wrong; another
 * errno: the device is lost. */
int convoy_jpeg_decoder_check(struct convoy_jpeg_decoder *decoder, struct convoy_error *error);

#endif
