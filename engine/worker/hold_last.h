/* A descriptor of which the other end is told first when this process ends. */
#ifndef CONVOY_ENGINE_HOLD_LAST_H
#define CONVOY_ENGINE_HOLD_LAST_H

/* Keeps a copy of the socket fd under a number above all others of this process. When the last thread has run
 * its last instruction Linux closes descriptors from the lowest number up, and lets go of the files in the
 * opposite order: so the other end of fd reads its end before a driver begins to take down what the process
 * had opened, which takes hundreds of milliseconds. (H100, Linux 6.18, a process
 * with PyTorch: 1 to 4 ms after SIGKILL, and it was gone after 140 to 240.) Where that fails or the order is
 * another, the end is read later. */
void convoy_worker_hold_last(int fd);

#endif
