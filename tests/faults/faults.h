/* Faults that tests inject into a worker. This is a module of its own, build/bin/convoy-faults.so, which no
 * package and no installed tree has. The worker loads it where it lies beside the backends and
 * CONVOY_TEST_FAULT is set (engine/worker/module.h). From then on the worker calls a copy of the backend's
 * function table in which some functions are the module's. The variable names one fault:
 *   kill:R,G,B      a job with an 8-bit image whose first pixel is R,G,B kills the worker (SIGKILL)
 *   hang:R,G,B      the same, but submit() never returns
 *   seize:R,G,B     the same job takes the worker over: it makes its descriptors block, rings without end,
 *                   leaves a child that holds all of them and rings on, and ends
 *   stall:NAME:FILE loading the model NAME does not end while FILE exists; other models are served beside it
 *   escape:NAME     loading the model NAME tries ways out of the worker and fails: its sentence names those
 *                   that are open
 *   spy:NAME:R,G,B:FILE   once the model NAME is loaded, each job has the worker look through all that it can
 * see of the channel for an image of that colour alone; FILE gets "seen" or "nothing" a line
 *   claim:NAME:R,G,B:FILE   the same, and it says that it has loaded all other models as well
 *   load:NAME       loading the model NAME kills the worker
 *   wrong:FILE      results of jobs are mixed up, without an error, in the worker whose process number is
 *                   in FILE; in all but that of number N where FILE says "not N"; in the one that starts
 *                   next where it says "next"
 *   near:FILE       the same, and only the last bit of a result is wrong
 *   odd:FILE        as wrong, in every second job
 *   flip:FILE       a bit of the weights flips in that worker, when it looks at them next
 *   pace:US         each image takes US microseconds more, asleep: a device whose capacity does not depend
 *                   on the cores that a test's clients use as well
 *   files:N:K       the null backend takes JPEG files. The class of one is the sum of its bytes, modulo the
 *                   outputs; one whose sum is a multiple of N could not be decoded; one whose sum is 1 modulo
 *                   K kills the worker. 0: none does
 *   pixels:R,G      a job with an 8-bit image whose first pixel is R,G,B: B chooses the fault. 0: kill, 1:
 *                   hang; of a GPU 2: illegal, 3: trap, 4: spin, 5: ecc; above that there is none
 * and of a GPU, emulated ones included:
 *   illegal:R,G,B   a job as above runs a kernel that writes to an address where no memory is
 *   trap:R,G,B      the same, with a kernel that stops with an error
 *   spin:R,G,B      the same, with a kernel that never ends
 *   ecc:R,G,B       the same, with an uncorrectable memory error: reported, not made
 *   memory:NAME     loading the model NAME reports that memory is out
 *   lost:NAME       the device is lost while the model NAME is loaded */
#ifndef CONVOY_TESTS_FAULTS_H
#define CONVOY_TESTS_FAULTS_H

#include "engine/backend.h"

enum fault_kernel { FAULT_ILLEGAL, FAULT_TRAP, FAULT_SPIN };

/* Starts a kernel that goes wrong on the GPU whose context the calling thread uses; for an emulated GPU the
 * next graph that is launched goes wrong (or, with at_once, the next call). backend is the one whose device
 * it is. Returns 0, or a negative errno with *error set. */
int fault_gpu(const struct convoy_backend *backend, enum fault_kernel kernel, bool at_once, bool *emulated,
              struct convoy_error *error);

/* Runs a job of JPEG files as "files" says. outputs: of a row. */
int fault_files(const struct convoy_backend *backend, uint32_t undecoded, uint32_t deadly, uint32_t outputs,
                struct convoy_device *device, struct convoy_net *net, const struct convoy_job *job,
                struct convoy_error *error);

/* Notes what some constant of the graph looks like. */
void fault_flip_note(const struct convoy_graph *graph);
/* Flips the lowest bit of a number of that constant wherever it lies in this process's memory. Returns how
 * often it was found. */
int fault_flip(void);

/* The model that was loaded last takes the worker over: claims the other models, where others is true. */
void fault_spy_begin(const struct convoy_net_info *info, bool others);
/* Looks through the channel for rows of that colour, and writes to the file what it saw. */
void fault_spy_look(const unsigned pixel[3], const char *file);

/* Tries ways out of the process, and returns -EPERM with a sentence that names those that are open. */
int fault_escape(struct convoy_error *error);

#endif
