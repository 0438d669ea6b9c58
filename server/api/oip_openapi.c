#include "server/api/oip_openapi.h"

#include "server/http/response.h"
#include "server/http/status.h"

/* Made from server/api/openapi.json by cmake/embed.cmake. */
extern const unsigned char convoy_openapi[];
extern const size_t convoy_openapi_length;

bool convoy_oip_openapi(struct convoy_request *request)
{
    struct convoy_json_writer json = {0};

    convoy_json_writer_append(&json, (const char *)convoy_openapi, convoy_openapi_length);
    return convoy_respond(request, CONVOY_HTTP_OK, CONVOY_TYPE_JSON, &json, CONVOY_RETRY_NONE);
}
