#include "server/api/totals.h"

#include "server/api/app.h"
#include "server/api/oip_internal.h"
#include "server/http/status.h"
#include "server/metrics/metrics_totals.h"
#include "server/security/gate.h"

/* Ends of the templates of routes that images are sent to: pages that ask for totals, and probes, would drown
 * them. */
static const char *const image_routes[] = {"/classify", "/infer", ":predict", NULL};

bool convoy_totals_page(struct convoy_request *request)
{
    const struct convoy_app *app = convoy_app_of(request);
    struct convoy_json_writer json = {0};

    convoy_json_write_begin_object(&json);
    convoy_metrics_totals_write(app->metrics, image_routes, &json);
    /* The page offers what its user may do: to be refused is how it would find out otherwise. */
    convoy_json_write_key(&json, "may_load");
    convoy_json_write_bool(&json, app->config->repository.control == CONVOY_CONTROL_EXPLICIT &&
                                      convoy_gate_allows(request, CONVOY_ROLE_ADMIN));
    convoy_json_write_end_object(&json);
    return convoy_oip_respond(request, CONVOY_HTTP_OK, &json);
}
