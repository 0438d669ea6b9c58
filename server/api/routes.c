#include "server/api/routes.h"

#include "server/api/call.h"
#include "server/api/classify.h"
#include "server/api/form.h"
#include "server/api/long_answer.h"
#include "server/api/model_wait.h"
#include "server/api/oip.h"
#include "server/api/oip_config.h"
#include "server/api/oip_cuda_shared_memory.h"
#include "server/api/oip_infer.h"
#include "server/api/oip_logging.h"
#include "server/api/oip_openapi.h"
#include "server/api/oip_repository.h"
#include "server/api/oip_shared_memory.h"
#include "server/api/oip_statistics.h"
#include "server/api/oip_trace.h"
#include "server/api/totals.h"
#include "server/api/v1.h"
#include "server/inference/inference_request.h"
#include "server/web/page.h"

const struct convoy_route convoy_routes[] = {
    {CONVOY_POST, "/classify", convoy_classify, true, CONVOY_ROLE_INFER},
    {CONVOY_POST, "/v2/models/{model}/infer", convoy_oip_infer, true, CONVOY_ROLE_INFER},
    {CONVOY_POST, "/v2/models/{model}/classify", convoy_classify, true, CONVOY_ROLE_INFER},
    {CONVOY_POST, "/v2/models/{model}/versions/{version}/classify", convoy_classify, true, CONVOY_ROLE_INFER},
    {CONVOY_POST, "/v2/models/{model}/versions/{version}/infer", convoy_oip_infer, true, CONVOY_ROLE_INFER},
    {CONVOY_GET, "/v2/health/live", convoy_oip_live, false, CONVOY_ROLE_NONE},
    {CONVOY_GET, "/v2/health/ready", convoy_oip_ready, false, CONVOY_ROLE_NONE},
    {CONVOY_GET, "/v2/models", convoy_oip_models, false, CONVOY_ROLE_INFER},
    /* Before {model}: the first that fits answers. */
    {CONVOY_GET, "/v2/models/stats", convoy_oip_statistics, false, CONVOY_ROLE_METRICS},
    {CONVOY_GET, "/v2/models/{model}", convoy_oip_model, false, CONVOY_ROLE_INFER},
    {CONVOY_GET, "/v2/models/{model}/ready", convoy_oip_model_ready, false, CONVOY_ROLE_INFER},
    {CONVOY_GET, "/v2/models/{model}/stats", convoy_oip_model_statistics, false, CONVOY_ROLE_METRICS},
    {CONVOY_GET, "/v2/models/{model}/config", convoy_oip_config, false, CONVOY_ROLE_INFER},
    {CONVOY_GET, "/v2/models/{model}/versions/{version}", convoy_oip_model, false, CONVOY_ROLE_INFER},
    {CONVOY_GET, "/v2/models/{model}/versions/{version}/ready", convoy_oip_model_ready, false,
     CONVOY_ROLE_INFER},
    {CONVOY_GET, "/v2/models/{model}/versions/{version}/stats", convoy_oip_model_statistics, false,
     CONVOY_ROLE_METRICS},
    {CONVOY_GET, "/v2/models/{model}/versions/{version}/config", convoy_oip_config, false, CONVOY_ROLE_INFER},
    {CONVOY_POST, "/v2/repository/index", convoy_oip_repository_index, true, CONVOY_ROLE_INFER},
    {CONVOY_POST, "/v2/repository/models/{model}/load", convoy_oip_repository_load, true, CONVOY_ROLE_ADMIN},
    {CONVOY_POST, "/v2/repository/models/{model}/unload", convoy_oip_repository_unload, true,
     CONVOY_ROLE_ADMIN},
    {CONVOY_GET, "/v2/systemsharedmemory/status", convoy_oip_shared_memory_status, false, CONVOY_ROLE_INFER},
    {CONVOY_GET, "/v2/systemsharedmemory/region/{region}/status", convoy_oip_shared_memory_status, false,
     CONVOY_ROLE_INFER},
    {CONVOY_POST, "/v2/systemsharedmemory/region/{region}/register", convoy_oip_shared_memory_register, true,
     CONVOY_ROLE_INFER},
    {CONVOY_POST, "/v2/systemsharedmemory/region/{region}/unregister", convoy_oip_shared_memory_unregister,
     false, CONVOY_ROLE_INFER},
    {CONVOY_POST, "/v2/systemsharedmemory/unregister", convoy_oip_shared_memory_unregister, false,
     CONVOY_ROLE_INFER},
    {CONVOY_GET, "/v2/cudasharedmemory/status", convoy_oip_cuda_shared_memory_status, false,
     CONVOY_ROLE_INFER},
    {CONVOY_GET, "/v2/cudasharedmemory/region/{region}/status", convoy_oip_cuda_shared_memory_status, false,
     CONVOY_ROLE_INFER},
    {CONVOY_POST, "/v2/cudasharedmemory/region/{region}/register", convoy_oip_cuda_shared_memory_register,
     true, CONVOY_ROLE_INFER},
    {CONVOY_POST, "/v2/cudasharedmemory/region/{region}/unregister", convoy_oip_cuda_shared_memory_unregister,
     false, CONVOY_ROLE_INFER},
    {CONVOY_POST, "/v2/cudasharedmemory/unregister", convoy_oip_cuda_shared_memory_unregister, false,
     CONVOY_ROLE_INFER},
    {CONVOY_GET_OR_POST, "/v2/trace/setting", convoy_oip_trace_setting, true, CONVOY_ROLE_METRICS},
    {CONVOY_GET_OR_POST, "/v2/models/{model}/trace/setting", convoy_oip_trace_setting, true,
     CONVOY_ROLE_METRICS},
    {CONVOY_GET, "/v1/models", convoy_v1_models, false, CONVOY_ROLE_INFER},
    {CONVOY_POST, "/v1/models/{model}:predict", convoy_v1_predict, true, CONVOY_ROLE_INFER},
    {CONVOY_GET, "/v1/models/{model}", convoy_oip_model_ready, false, CONVOY_ROLE_INFER},
    {CONVOY_GET_OR_POST, "/v2/logging", convoy_oip_logging, true, CONVOY_ROLE_METRICS},
    {CONVOY_GET, "/v2", convoy_oip_server, false, CONVOY_ROLE_INFER},
    {CONVOY_GET, "/v2/openapi.json", convoy_oip_openapi, false, CONVOY_ROLE_INFER},
    {CONVOY_GET, "/metrics", convoy_metrics_page, false, CONVOY_ROLE_METRICS},
    {CONVOY_GET, "/totals", convoy_totals_page, false, CONVOY_ROLE_METRICS},
    /* The last two: convoy_page_route_count. The page asks for a key, so it needs none. */
    {CONVOY_GET, "/", convoy_web_page, false, CONVOY_ROLE_NONE},
    {CONVOY_GET, "/web/{file}", convoy_web_file, false, CONVOY_ROLE_NONE},
};

const size_t convoy_route_count = sizeof convoy_routes / sizeof convoy_routes[0];
const size_t convoy_page_route_count = 2;

const struct convoy_route convoy_health_routes[] = {
    {CONVOY_GET, "/v2/health/live", convoy_oip_live, false, CONVOY_ROLE_NONE},
    {CONVOY_GET, "/v2/health/ready", convoy_oip_ready, false, CONVOY_ROLE_NONE},
    {CONVOY_GET, "/metrics", convoy_metrics_page, false, CONVOY_ROLE_METRICS},
};

const size_t convoy_health_route_count = sizeof convoy_health_routes / sizeof convoy_health_routes[0];

void convoy_routes_release(struct convoy_request *request)
{
    struct convoy_call *call = convoy_call_of(request);

    convoy_long_answer_free(call->long_answer);
    convoy_form_free(call->form);
    convoy_oip_infer_drop(call->infer);
    if (call->inference != NULL)
        convoy_inference_request_drop(call->inference);
    convoy_model_wait_drop(call->wait);
    convoy_call_set_model(request, NULL);
}
