#include "server/web/page.h"

#include "server/http/response.h"
#include "server/http/status.h"
#include "server/web/files.h"

#include <stdio.h>
#include <string.h>

/* Nothing but the page's own files and this server's answers: no script or style within the document, no
 * other site, no frame, no form that leads anywhere, and no text that becomes script. */
static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

bool convoy_web_has(const char *if_none_match, const char *digest)
{
    size_t length = strlen(digest);
    const char *at = if_none_match;

    while (*at != '\0') {
        at += strspn(at, " \t,");
        if (*at == '*')
            return true;
        if (strncmp(at, "W/", 2) == 0)
            at += 2;
        if (*at != '"')
            return false;
        size_t tag = strcspn(++at, "\"");
        if (tag == length && memcmp(at, digest, length) == 0 && at[tag] == '"')
            return true;
        at += tag;
        at += *at == '"';
    }
    return false;
}

/* The client may keep the file and has to ask whether it is still the same: a new release of the daemon then
 * never runs with parts of the last one. */
static bool respond(struct convoy_request *request, const struct convoy_web_file *file)
{
    char tag[80];
    const struct convoy_response_header headers[] = {{"ETag", tag},
                                                     {"Cache-Control", "no-cache"},
                                                     {"Content-Security-Policy", policy},
                                                     {"X-Content-Type-Options", "nosniff"},
                                                     {"Referrer-Policy", "no-referrer"},
                                                     {"Cross-Origin-Resource-Policy", "same-origin"},
                                                     {"Cross-Origin-Opener-Policy", "same-origin"}};
    const char *known = convoy_request_header(request, "If-None-Match");
    struct convoy_json_writer body = {0};
    int status = CONVOY_HTTP_OK;

    snprintf(tag, sizeof tag, "\"%s\"", file->sha256);
    if (known != NULL && convoy_web_has(known, file->sha256))
        status = CONVOY_HTTP_NOT_MODIFIED;
    else
        convoy_json_writer_append(&body, (const char *)file->bytes, *file->length);
    return convoy_respond_with(request, status, file->type, &body, CONVOY_RETRY_NONE, headers,
                               sizeof headers / sizeof headers[0]);
}

bool convoy_web_page(struct convoy_request *request)
{
    return respond(request, &convoy_web_index);
}

bool convoy_web_file(struct convoy_request *request)
{
    const struct convoy_web_file *file = convoy_web_find(request->path.file);

    if (file == NULL)
        return convoy_respond_error(request, CONVOY_HTTP_NOT_FOUND, CONVOY_RETRY_NONE,
                                    "the page has no such file: reload it from /");
    return respond(request, file);
}
