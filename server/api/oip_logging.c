#include "server/api/oip_logging.h"

#include "engine/base/json.h"
#include "engine/base/log.h"
#include "server/api/oip_internal.h"
#include "server/http/response.h"
#include "server/http/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BODY "the body" /* as sentences call the JSON */

/* Triton's names for the lines of each level, from debug on; that of debug counts levels of its own. */
static const char *const switches[] = {"log_verbose_level", "log_info", "log_warning", "log_error"};
#define LEVELS (sizeof switches / sizeof switches[0])

/* Of each level: must its lines be in the log? */
struct wanted {
    enum { EITHER, NO, YES } lines[LEVELS];
};

static bool respond_settings(struct convoy_request *request)
{
    enum convoy_log_level level = convoy_log_level();
    struct convoy_json_writer json = {0};

    convoy_json_write_begin_object(&json);
    convoy_json_write_key(&json, "log_file");
    convoy_json_write_string(&json, "");
    convoy_json_write_key(&json, "log_info");
    convoy_json_write_bool(&json, level <= CONVOY_LOG_INFO);
    convoy_json_write_key(&json, "log_warning");
    convoy_json_write_bool(&json, level <= CONVOY_LOG_WARNING);
    convoy_json_write_key(&json, "log_error");
    convoy_json_write_bool(&json, true);
    convoy_json_write_key(&json, "log_verbose_level");
    convoy_json_write_unsigned(&json, level == CONVOY_LOG_DEBUG);
    convoy_json_write_key(&json, "log_format");
    convoy_json_write_string(&json, "ISO8601"); /* as its times are */
    convoy_json_write_end_object(&json);
    return convoy_oip_respond(request, CONVOY_HTTP_OK, &json);
}

/* What stays as it is may be sent back. */
static int check_fixed(const struct convoy_json *root, struct convoy_error *error)
{
    const char *file = NULL, *format = NULL;
    int code = convoy_json_string_or_null(root, "log_file", &file, error);

    if (code == 0)
        code = convoy_json_string_or_null(root, "log_format", &format, error);
    if (code == 0 && file != NULL && file[0] != '\0')
        code = convoy_fail(error, -EINVAL, BODY ": log_file cannot be set: the log is standard error");
    if (code == 0 && format != NULL && strcmp(format, "ISO8601") != 0)
        code =
            convoy_fail(error, -EINVAL,
                        BODY ": log_format cannot be set: the times of the log are as in ISO8601; whether it "
                             "is logfmt or JSON says log.format of the configuration");
    return code;
}

static int read_wanted(const struct convoy_json *root, struct wanted *wanted, struct convoy_error *error)
{
    int code = check_fixed(root, error);

    *wanted = (struct wanted){0};
    for (unsigned level = 0; level < LEVELS && code == 0; level++) {
        bool on = false;
        uint32_t verbose = 0;
        if (!convoy_json_has(root, switches[level]))
            continue;
        if (level == CONVOY_LOG_DEBUG)
            code = convoy_json_uint32(root, switches[level], 0, INT32_MAX, &verbose, error);
        else
            code = convoy_json_bool(root, switches[level], &on, error);
        wanted->lines[level] = on || verbose > 0 ? YES : NO;
    }
    return code;
}

/* The level nearest to the present one at which the log has what is wanted. */
static int choose_level(const struct wanted *wanted, enum convoy_log_level *result,
                        struct convoy_error *error)
{
    int now = (int)convoy_log_level(), best = -1;

    for (int level = 0; level < (int)LEVELS; level++) {
        bool fits = true;
        for (int lines = 0; lines < (int)LEVELS; lines++)
            fits = fits && wanted->lines[lines] != (lines >= level ? NO : YES);
        if (fits && (best < 0 || abs(level - now) < abs(best - now)))
            best = level;
    }
    if (best < 0)
        return convoy_fail(error, -EINVAL,
                           BODY
                           ": the log has one level, error, warning, info or debug, and each has the lines "
                           "of those before it: log_error stays true, and none of log_warning, log_info "
                           "and log_verbose_level can be on while one before it is off");
    *result = (enum convoy_log_level)best;
    return 0;
}

static int read_level(const struct convoy_request *request, enum convoy_log_level *level,
                      struct convoy_error *error)
{
    struct convoy_json root;
    struct wanted wanted;
    cJSON *document;
    int code = convoy_oip_body(request, &document, error);

    if (code == 0)
        code = convoy_json_root(document, BODY, &root, error);
    if (code == 0)
        code = read_wanted(&root, &wanted, error);
    if (code == 0)
        code = choose_level(&wanted, level, error);
    cJSON_Delete(document);
    return code;
}

/* The line of the change is in the log at any two levels: one of them has warnings. */
static void set_level(const struct convoy_request *request, enum convoy_log_level level)
{
    enum convoy_log_level before = convoy_log_level();

    if (level < before)
        convoy_log_set_level(level);
    if (level != before)
        convoy_log(CONVOY_LOG_WARNING, "a client sets the log's level", CONVOY_STR("request_id", request->id),
                   CONVOY_STR("to", convoy_log_level_text(level)));
    convoy_log_set_level(level);
}

bool convoy_oip_logging(struct convoy_request *request)
{
    enum convoy_log_level level = CONVOY_LOG_INFO;
    struct convoy_error error;

    if (convoy_method_of(request->method) == CONVOY_POST) {
        /* A line for every step can fill a disk, and none for an attack hides it. */
        int code = read_level(request, &level, &error);
        if (code != 0)
            return convoy_oip_respond_body_error(request, code, &error);
        set_level(request, level);
    }
    return respond_settings(request);
}
