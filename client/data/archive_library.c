#include "client/data/archive_library.h"

#include <dlfcn.h>
#include <errno.h>

#include "client/lib/failure.h"

#define LIBRARY "libarchive.so.13"

int client_archive_library_open(struct client_archive_library *library, struct convoy_failure *failure)
{
    void *opened = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!opened)
        return client_fail_with(failure, -ENOENT,
                                "archives need " LIBRARY
                                ", which cannot be opened: install it (Debian package "
                                "libarchive13), or unpack the archive and name its folder");
        /* POSIX' way to make a function of what dlsym() returns. */
#define FIND(name)                                                                                           \
    if ((*(void **)&library->name = dlsym(opened, #name)) == NULL)                                           \
        return client_fail_with(failure, -ENOENT, LIBRARY " lacks %s(): install a newer one", #name);
    CLIENT_ARCHIVE_FUNCTIONS(FIND)
#undef FIND
    return 0;
}
