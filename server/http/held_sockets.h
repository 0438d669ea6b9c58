/* Where listening sockets are held while one server's process gives way to the next: by key, so that the next
 * one finds those that it would open itself. All functions run on the thread that starts and stops servers.
 */
#ifndef CONVOY_SERVER_HTTP_HELD_SOCKETS_H
#define CONVOY_SERVER_HTTP_HELD_SOCKETS_H

struct convoy_held_sockets {
    void *context;
    /* The socket of this key, which is the caller's from now on; -1: none. */
    int (*take)(void *context, const char *key);
    /* Holds a copy of fd. */
    void (*hold)(void *context, const char *key, int fd);
    /* Closes that copy before it returns. */
    void (*drop)(void *context, const char *key);
    /* Closes those with keys that begin so and were not taken. */
    void (*drop_rest)(void *context, const char *prefix);
};

#endif
