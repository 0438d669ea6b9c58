/* What devices' drivers say of them, as /metrics shows it. */
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_totals.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct convoy_metrics *metrics;
static char *text;

static void begin(void)
{
    metrics = convoy_metrics_new();
    cr_assert_not_null(metrics);
}

static void end(void)
{
    free(text);
    convoy_metrics_free(metrics);
}

TestSuite(metrics_health, .init = begin, .fini = end);

static void render(void)
{
    size_t length;
    free(text);
    text = convoy_metrics_render(metrics, &length);
    cr_assert_not_null(text);
}

static struct convoy_device_health nothing(void)
{
    struct convoy_device_health health = {0};
    for (int i = 0; i < CONVOY_HEALTH_VALUES; i++)
        health.values[i] = CONVOY_HEALTH_UNKNOWN;
    return health;
}

/* All lines of the GPU's families. */
static void expect_lines(const char *expected)
{
    char found[8192] = "";
    render();
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        if (strncmp(line, "convoyd_gpu_", 12) == 0)
            strcat(strcat(found, line + 12), "\n");
    cr_assert_str_eq(found, expected, "%s", found);
}

Test(metrics_health, every_value_in_its_unit)
{
    struct convoy_device_health health = nothing();
    health.values[CONVOY_HEALTH_UTILIZATION] = 93;
    health.values[CONVOY_HEALTH_MEMORY_UTILIZATION] = 41;
    health.values[CONVOY_HEALTH_JPEG_UTILIZATION] = 7;
    health.values[CONVOY_HEALTH_MEMORY_USED] = 81559412736;
    health.values[CONVOY_HEALTH_MEMORY_TOTAL] = 150754820096;
    health.values[CONVOY_HEALTH_TEMPERATURE] = 52;
    health.values[CONVOY_HEALTH_POWER] = 312451;
    health.values[CONVOY_HEALTH_POWER_LIMIT] = 700000;
    health.values[CONVOY_HEALTH_THROTTLED] = 1 << CONVOY_THROTTLE_POWER_CAP | 1 << CONVOY_THROTTLE_SW_THERMAL;
    health.values[CONVOY_HEALTH_ECC_VOLATILE] = 0;
    health.values[CONVOY_HEALTH_ECC_AGGREGATE] = 3;
    health.values[CONVOY_HEALTH_LAST_XID] = 31;
    convoy_metrics_device_health(convoy_metrics_device(metrics, "cuda:0"), &health);
    convoy_metrics_device_xids(convoy_metrics_device(metrics, "cuda:0"), 2);
    expect_lines("utilization_ratio{device=\"cuda:0\",engine=\"kernels\"} 0.93\n"
                 "utilization_ratio{device=\"cuda:0\",engine=\"memory\"} 0.41\n"
                 "utilization_ratio{device=\"cuda:0\",engine=\"jpeg\"} 0.07\n"
                 "memory_bytes{device=\"cuda:0\",kind=\"used\"} 81559412736\n"
                 "memory_bytes{device=\"cuda:0\",kind=\"total\"} 150754820096\n"
                 "temperature_celsius{device=\"cuda:0\"} 52\n"
                 "power_watts{device=\"cuda:0\"} 312.451\n"
                 "power_limit_watts{device=\"cuda:0\"} 700\n"
                 "ecc_uncorrected_errors_total{device=\"cuda:0\",lifetime=\"volatile\"} 0\n"
                 "ecc_uncorrected_errors_total{device=\"cuda:0\",lifetime=\"aggregate\"} 3\n"
                 "xid_errors_total{device=\"cuda:0\"} 2\n"
                 "last_xid{device=\"cuda:0\"} 31\n"
                 "throttled{device=\"cuda:0\",reason=\"clocks_setting\"} 0\n"
                 "throttled{device=\"cuda:0\",reason=\"power_cap\"} 1\n"
                 "throttled{device=\"cuda:0\",reason=\"hw_slowdown\"} 0\n"
                 "throttled{device=\"cuda:0\",reason=\"sync_boost\"} 0\n"
                 "throttled{device=\"cuda:0\",reason=\"sw_thermal\"} 1\n"
                 "throttled{device=\"cuda:0\",reason=\"hw_thermal\"} 0\n"
                 "throttled{device=\"cuda:0\",reason=\"hw_power_brake\"} 0\n");
}

/* A family's lines stand together, devices in the order in which they came, under the family's own help. */
Test(metrics_health, what_is_unknown_is_not_shown)
{
    struct convoy_device_health health = nothing();
    (void)convoy_metrics_device(metrics, "cpu");
    health.values[CONVOY_HEALTH_MEMORY_UTILIZATION] = 1;
    health.values[CONVOY_HEALTH_TEMPERATURE] = 30;
    convoy_metrics_device_health(convoy_metrics_device(metrics, "cuda:0"), &health);
    health.values[CONVOY_HEALTH_UTILIZATION] = 2;
    health.values[CONVOY_HEALTH_TEMPERATURE] = CONVOY_HEALTH_UNKNOWN;
    convoy_metrics_device_health(convoy_metrics_device(metrics, "cuda:1"), &health);
    render();
    cr_assert_not_null(strstr(text, "# HELP convoyd_gpu_utilization_ratio Part of"));
    cr_assert_null(strstr(text, "# TYPE convoyd_gpu_power_watts"));
    cr_assert_null(strstr(text, "# TYPE convoyd_gpu_throttled"));
    expect_lines("utilization_ratio{device=\"cuda:0\",engine=\"memory\"} 0.01\n"
                 "utilization_ratio{device=\"cuda:1\",engine=\"kernels\"} 0.02\n"
                 "utilization_ratio{device=\"cuda:1\",engine=\"memory\"} 0.01\n"
                 "temperature_celsius{device=\"cuda:0\"} 30\n");
}

/* Errors are the device's, not its worker's: they stay, and add up from worker to worker. */
Test(metrics_health, errors_stay_when_nothing_is_known_any_more)
{
    struct convoy_device_metrics *device = convoy_metrics_device(metrics, "cuda:0");
    struct convoy_device_health health = nothing();
    convoy_metrics_device_xids(device, 0);
    expect_lines("xid_errors_total{device=\"cuda:0\"} 0\n");
    health.values[CONVOY_HEALTH_POWER] = 1000;
    health.values[CONVOY_HEALTH_LAST_XID] = 79;
    convoy_metrics_device_health(device, &health);
    convoy_metrics_device_xids(device, 1);
    convoy_metrics_device_health(device, NULL);
    expect_lines("xid_errors_total{device=\"cuda:0\"} 1\nlast_xid{device=\"cuda:0\"} 79\n");
    health.values[CONVOY_HEALTH_LAST_XID] = CONVOY_HEALTH_UNKNOWN; /* of the next worker */
    convoy_metrics_device_health(device, &health);
    convoy_metrics_device_xids(device, 2);
    expect_lines("power_watts{device=\"cuda:0\"} 1\nxid_errors_total{device=\"cuda:0\"} 3\n"
                 "last_xid{device=\"cuda:0\"} 79\n");
    convoy_metrics_device_health(NULL, &health);
    convoy_metrics_device_xids(NULL, 1);
}

Test(metrics_health, totals_have_what_is_known)
{
    static const char *const no_route[] = {NULL};
    struct convoy_device_health health = nothing();
    struct convoy_json_writer json = {0};
    (void)convoy_metrics_device(metrics, "cpu");
    health.values[CONVOY_HEALTH_UTILIZATION] = 93;
    health.values[CONVOY_HEALTH_POWER] = 312451;
    convoy_metrics_device_health(convoy_metrics_device(metrics, "cuda:0"), &health);
    convoy_json_write_begin_object(&json);
    convoy_metrics_totals_write(metrics, no_route, &json);
    convoy_json_write_end_object(&json);
    char *written = strndup(json.bytes, json.length);
    cr_assert_not_null(written);
    cr_assert_not_null(strstr(written, "\"gpu\":{\"utilization_percent\":93,\"power_milliwatts\":312451}"),
                       "%s", written);
    cr_assert_not_null(strstr(written, "\"gpu\":{}"), "%s", written);
    free(written);
    convoy_json_writer_free(&json);
}
