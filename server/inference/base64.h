/* Base64 in the strings of a JSON text, decoded in place (RFC 4648, either alphabet, with or without '=').
 * Line breaks are passed over, as MIME (RFC 2045) and base64(1) write them: JSON's \n and \r, or as they are.
 * Any character may be escaped, as some writers of JSON do with "/" and "+". Any thread. */
#ifndef CONVOY_SERVER_BASE64_H
#define CONVOY_SERVER_BASE64_H

#include "server/http/multipart.h"

/* Decodes the string whose opening quote is at *at, before end; *at is behind its closing quote then. part is
 * within the string. -EPROTO: no string begins there; -EINVAL: it is no base64; -EBADMSG: it has no end, or
 * ends within a byte. */
int convoy_base64_string(char **at, const char *end, struct convoy_part *part);

#endif
