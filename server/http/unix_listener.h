/* A listening Unix socket, with its file. */
#ifndef CONVOY_SERVER_UNIX_LISTENER_H
#define CONVOY_SERVER_UNIX_LISTENER_H

#include "engine/base/error.h"

#include <stdbool.h>
#include <sys/types.h>

/* Which file it is: another process may have put its own at the path meanwhile. */
struct convoy_unix_file {
    dev_t device;
    ino_t inode;
};

/* Binds a stream socket at path, whose file gets mode, and listens (close-on-exec, non-blocking). A socket
 * that lies there and that no process listens on is removed first. *fd is the caller's. -EADDRINUSE where a
 * process does listen, or the file is no socket; -ENAMETOOLONG and others of bind(2); the sentence names
 * path. option: what the user chooses the path with, for the sentence. */
int convoy_unix_listener_open(const char *option, const char *path, mode_t mode, int *fd,
                              struct convoy_unix_file *file, struct convoy_error *error);

/* The file of a socket that a process before this one opened at path. False when there is none. */
bool convoy_unix_listener_find(const char *path, struct convoy_unix_file *file);

/* Removes the file at path if it is file still. */
void convoy_unix_listener_remove(const char *path, const struct convoy_unix_file *file);

#endif
