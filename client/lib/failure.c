#include "client/lib/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int client_fail_with(struct convoy_failure *failure, int code, const char *format, ...)
{
    if (failure) {
        memset(failure, 0, sizeof *failure);
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(failure->message, sizeof failure->message, format, arguments);
        va_end(arguments);
    }
    return code;
}
