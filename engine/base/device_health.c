#include "engine/base/device_health.h"

const char *const convoy_health_names[CONVOY_HEALTH_VALUES] = {
    [CONVOY_HEALTH_UTILIZATION] = "utilization",
    [CONVOY_HEALTH_MEMORY_UTILIZATION] = "memory_utilization",
    [CONVOY_HEALTH_JPEG_UTILIZATION] = "jpeg_utilization",
    [CONVOY_HEALTH_MEMORY_USED] = "memory_used",
    [CONVOY_HEALTH_MEMORY_TOTAL] = "memory_total",
    [CONVOY_HEALTH_TEMPERATURE] = "temperature",
    [CONVOY_HEALTH_POWER] = "power",
    [CONVOY_HEALTH_POWER_LIMIT] = "power_limit",
    [CONVOY_HEALTH_THROTTLED] = "throttled",
    [CONVOY_HEALTH_ECC_VOLATILE] = "ecc_volatile",
    [CONVOY_HEALTH_ECC_AGGREGATE] = "ecc_aggregate",
    [CONVOY_HEALTH_XIDS] = "xids",
    [CONVOY_HEALTH_LAST_XID] = "last_xid",
};

const char *const convoy_throttle_names[CONVOY_THROTTLES] = {
    [CONVOY_THROTTLE_CLOCKS_SETTING] = "clocks_setting", [CONVOY_THROTTLE_POWER_CAP] = "power_cap",
    [CONVOY_THROTTLE_HW_SLOWDOWN] = "hw_slowdown",       [CONVOY_THROTTLE_SYNC_BOOST] = "sync_boost",
    [CONVOY_THROTTLE_SW_THERMAL] = "sw_thermal",         [CONVOY_THROTTLE_HW_THERMAL] = "hw_thermal",
    [CONVOY_THROTTLE_HW_POWER_BRAKE] = "hw_power_brake",
};
