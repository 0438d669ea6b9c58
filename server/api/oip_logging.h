/* Triton's logging extension: what goes into the log is asked for and changed here. */
#ifndef CONVOY_SERVER_OIP_LOGGING_H
#define CONVOY_SERVER_OIP_LOGGING_H

#include <stdbool.h>

struct convoy_request;

/* GET and POST /v2/logging. The log has one level, and Triton a switch for each: a POST's body is an object
 * of log_info, log_warning, log_error (booleans) and log_verbose_level (0, or more for debug), and the level
 * becomes the nearest that is as they say; 400 where none is. log_file and log_format are reported and cannot
 * be changed. A handler of routes (route.h). */
bool convoy_oip_logging(struct convoy_request *request);

#endif
