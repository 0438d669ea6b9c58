/* An eventfd by which the threads of one process wake each other. No other process may have it: one that did
 * could clear its O_NONBLOCK and make a ring or a clear wait. Any thread. */
#ifndef CONVOY_ENGINE_BASE_WAKE_FD_H
#define CONVOY_ENGINE_BASE_WAKE_FD_H

/* Makes one; the caller closes it. Readable while it was rung and not cleared. Returns a negative errno when
 * there is none to be had. */
int convoy_wake_fd_new(void);
void convoy_wake_fd_ring(int wake_fd);
/* Call it before looking at what woke the thread, so that no ring is lost. */
void convoy_wake_fd_clear(int wake_fd);

#endif
