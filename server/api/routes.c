#include "server/api/routes.h"

#include "server/api/call.h"
#include "server/api/classify.h"
#include "server/api/infer.h"
#include "server/api/model_wait.h"
#include "server/api/v2.h"
#include "server/api/v2_config.h"
#include "server/api/v2_openapi.h"
#include "server/api/v2_repository.h"
#include "server/api/v2_shared_memory.h"
#include "server/api/v2_statistics.h"
#include "server/api/v2_trace.h"
#include "server/inference/inference_request.h"

const struct convoy_route convoy_routes[] = {
    {CONVOY_POST, "/classify", convoy_classify, true},
    {CONVOY_POST, "/v2/models/{model}/classify", convoy_classify, true},
    {CONVOY_POST, "/v2/models/{model}/versions/{version}/classify", convoy_classify, true},
    {CONVOY_POST, "/v2/models/{model}/infer", convoy_infer, true},
    {CONVOY_POST, "/v2/models/{model}/versions/{version}/infer", convoy_infer, true},
    {CONVOY_GET, "/v2/health/live", convoy_v2_live, false},
    {CONVOY_GET, "/v2/health/ready", convoy_v2_ready, false},
    {CONVOY_GET, "/v2/models", convoy_v2_models, false},
    /* Before {model}: the first that fits answers. */
    {CONVOY_GET, "/v2/models/stats", convoy_v2_statistics, false},
    {CONVOY_GET, "/v2/models/{model}", convoy_v2_model, false},
    {CONVOY_GET, "/v2/models/{model}/ready", convoy_v2_model_ready, false},
    {CONVOY_GET, "/v2/models/{model}/stats", convoy_v2_model_statistics, false},
    {CONVOY_GET, "/v2/models/{model}/config", convoy_v2_config, false},
    {CONVOY_GET, "/v2/models/{model}/versions/{version}", convoy_v2_model, false},
    {CONVOY_GET, "/v2/models/{model}/versions/{version}/ready", convoy_v2_model_ready, false},
    {CONVOY_GET, "/v2/models/{model}/versions/{version}/stats", convoy_v2_model_statistics, false},
    {CONVOY_GET, "/v2/models/{model}/versions/{version}/config", convoy_v2_config, false},
    {CONVOY_POST, "/v2/repository/index", convoy_v2_repository_index, true},
    {CONVOY_POST, "/v2/repository/models/{model}/load", convoy_v2_repository_load, true},
    {CONVOY_POST, "/v2/repository/models/{model}/unload", convoy_v2_repository_unload, true},
    {CONVOY_GET, "/v2/systemsharedmemory/status", convoy_v2_shared_memory_status, false},
    {CONVOY_GET, "/v2/systemsharedmemory/region/{region}/status", convoy_v2_shared_memory_status, false},
    {CONVOY_POST, "/v2/systemsharedmemory/region/{region}/register", convoy_v2_shared_memory_register, true},
    {CONVOY_POST, "/v2/systemsharedmemory/region/{region}/unregister", convoy_v2_shared_memory_unregister,
     false},
    {CONVOY_POST, "/v2/systemsharedmemory/unregister", convoy_v2_shared_memory_unregister, false},
    {CONVOY_GET_OR_POST, "/v2/trace/setting", convoy_v2_trace_setting, true},
    {CONVOY_GET_OR_POST, "/v2/models/{model}/trace/setting", convoy_v2_trace_setting, true},
    {CONVOY_GET, "/v2", convoy_v2_server, false},
    {CONVOY_GET, "/v2/openapi.json", convoy_v2_openapi, false},
    {CONVOY_GET, "/metrics", convoy_metrics_page, false},
};

const size_t convoy_route_count = sizeof convoy_routes / sizeof convoy_routes[0];

void convoy_routes_release(struct convoy_request *request)
{
    struct convoy_call *call = convoy_call_of(request);

    convoy_infer_drop(call->infer);
    if (call->inference != NULL)
        convoy_inference_request_drop(call->inference);
    convoy_model_wait_drop(call->wait);
    convoy_call_set_model(request, NULL);
}
