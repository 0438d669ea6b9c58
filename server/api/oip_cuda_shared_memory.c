#include "server/api/oip_cuda_shared_memory.h"

#include "server/api/oip_internal.h"
#include "server/http/response.h"
#include "server/http/status.h"

bool convoy_oip_cuda_shared_memory_status(struct convoy_request *request)
{
    struct convoy_json_writer json = {0};

    if (request->path.region[0] != '\0')
        return convoy_respond_error(request, CONVOY_HTTP_NOT_FOUND, CONVOY_RETRY_NONE,
                                    "there is no region of CUDA shared memory: this server takes none, see "
                                    "/v2/systemsharedmemory/status");
    convoy_json_write_begin_array(&json);
    convoy_json_write_end_array(&json);
    return convoy_oip_respond(request, CONVOY_HTTP_OK, &json);
}

bool convoy_oip_cuda_shared_memory_register(struct convoy_request *request)
{
    return convoy_respond_error(request, CONVOY_HTTP_BAD_REQUEST, CONVOY_RETRY_NONE,
                                "CUDA shared memory cannot be registered here: register system shared memory "
                                "with /v2/systemsharedmemory, or send the tensors in the body");
}

bool convoy_oip_cuda_shared_memory_unregister(struct convoy_request *request)
{
    struct convoy_json_writer json = {0};

    convoy_json_write_begin_object(&json);
    convoy_json_write_end_object(&json);
    return convoy_oip_respond(request, CONVOY_HTTP_OK, &json);
}
