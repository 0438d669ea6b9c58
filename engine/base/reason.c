#include "engine/base/reason.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *convoy_reason(int code, char text[static CONVOY_REASON_BYTES])
{
    if (code == EACCES)
        snprintf(text, CONVOY_REASON_BYTES,
                 "%s; this process runs as user %u, who must be allowed to read it and to enter the folders "
                 "above it",
                 strerror(code), (unsigned)geteuid());
    else
        snprintf(text, CONVOY_REASON_BYTES, "%s", strerror(code));
    return text;
}
