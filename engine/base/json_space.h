/* What JSON calls white space (RFC 8259, 2), for those who walk through a text themselves. */
#ifndef CONVOY_ENGINE_BASE_JSON_SPACE_H
#define CONVOY_ENGINE_BASE_JSON_SPACE_H

/* The first character from at on that is none, or end. Any thread. */
static inline const char *convoy_json_skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at;
}

#endif
