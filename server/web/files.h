/* The files of the page at /: server/web/page, which the build embeds in the program. Any thread. */
#ifndef CONVOY_SERVER_WEB_FILES_H
#define CONVOY_SERVER_WEB_FILES_H

#include <stddef.h>

struct convoy_web_file {
    const char *name; /* as in page/ */
    const char *type; /* Content-Type */
    const unsigned char *bytes;
    const size_t *length;
    const char *sha256; /* of the bytes, in hexadecimal */
};

/* The document of /. */
extern const struct convoy_web_file convoy_web_index;

/* A file that the page refers to as web/NAME; NULL: there is none of that name. */
const struct convoy_web_file *convoy_web_find(const char *name);

#endif
