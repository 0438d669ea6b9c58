#include "server/api/oip_openapi.h"

#include "server/api/oip_internal.h"

#include <microhttpd.h>

/* Made from server/api/openapi.json by cmake/embed.cmake. */
extern const unsigned char convoy_openapi[];
extern const size_t convoy_openapi_length;

bool convoy_oip_openapi(struct convoy_request *request)
{
    struct convoy_text text = {0};

    convoy_text_put(&text, (const char *)convoy_openapi, convoy_openapi_length);
    return convoy_oip_respond(request, MHD_HTTP_OK, &text);
}
