/* The counters and gauges of metrics.h over all models, as JSON: little enough to be asked for every second
 * or two, by a page that draws curves. Nothing is kept between two calls: who wants rates takes differences.
 */
#ifndef CONVOY_SERVER_METRICS_TOTALS_H
#define CONVOY_SERVER_METRICS_TOTALS_H

#include "engine/base/json_writer.h"
#include "server/metrics/metrics.h"

/* Writes members into the object that is open; server/api/openapi.json names them (Totals). routes: the ends
 * of the templates of routes whose answers are counted, the last one NULL; answers of other routes are left
 * out. Any thread; no lock. Takes the longer the more series there are: some 10 us with a thousand. */
void convoy_metrics_totals_write(struct convoy_metrics *metrics, const char *const *routes,
                                 struct convoy_json_writer *json);

#endif
