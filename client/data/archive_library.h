/* libarchive, opened when an archive is. With what it needs in its turn (libxml2, ICU) it is as large as all
 * other libraries of the client together, and only `convoy eval` of an archive calls it. */
#ifndef CONVOY_CLIENT_ARCHIVE_LIBRARY_H
#define CONVOY_CLIENT_ARCHIVE_LIBRARY_H

#include <archive.h>
#include <archive_entry.h>

#include "client/lib/convoy.h"

/* Functions of libarchive, by their names there. */
#define CLIENT_ARCHIVE_FUNCTIONS(X)                                                                          \
    X(archive_read_new)                                                                                      \
    X(archive_read_support_filter_all)                                                                       \
    X(archive_read_support_format_tar)                                                                       \
    X(archive_read_support_format_zip)                                                                       \
    X(archive_read_open_filename)                                                                            \
    X(archive_read_next_header)                                                                              \
    X(archive_read_data)                                                                                     \
    X(archive_read_free)                                                                                     \
    X(archive_error_string)                                                                                  \
    X(archive_entry_pathname)                                                                                \
    X(archive_entry_filetype)                                                                                \
    X(archive_entry_size)                                                                                    \
    X(archive_entry_size_is_set)

struct client_archive_library {
    // NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name takes none
#define CLIENT_ARCHIVE_MEMBER(name) __typeof__(name) *name;
    CLIENT_ARCHIVE_FUNCTIONS(CLIENT_ARCHIVE_MEMBER)
#undef CLIENT_ARCHIVE_MEMBER
};

/* Fills library. It stays open until the process ends. Returns 0, or -ENOENT where it is not installed. Any
 * thread. */
int client_archive_library_open(struct client_archive_library *library, struct convoy_failure *failure);

#endif
