/* What a device's driver says of its health: how busy, warm and throttled it is, and which of its errors it
 * has counted. A backend fills it in (engine/backend.h), a worker sends it under these names, the front shows
 * it. */
#ifndef CONVOY_ENGINE_BASE_DEVICE_HEALTH_H
#define CONVOY_ENGINE_BASE_DEVICE_HEALTH_H

#include <stdint.h>

#define CONVOY_HEALTH_UNKNOWN UINT64_MAX

enum convoy_health_value {
    CONVOY_HEALTH_UTILIZATION,        /* percent of the time in which a kernel ran */
    CONVOY_HEALTH_MEMORY_UTILIZATION, /* percent of the time in which its memory was read or written */
    CONVOY_HEALTH_JPEG_UTILIZATION,   /* percent of the time in which its JPEG engines decoded */
    CONVOY_HEALTH_MEMORY_USED,        /* bytes, by all processes and the driver */
    CONVOY_HEALTH_MEMORY_TOTAL,       /* bytes */
    CONVOY_HEALTH_TEMPERATURE,        /* degrees Celsius; 0 below that */
    CONVOY_HEALTH_POWER,              /* milliwatts */
    CONVOY_HEALTH_POWER_LIMIT,        /* milliwatts */
    CONVOY_HEALTH_THROTTLED,          /* a bit for each enum convoy_throttle that holds its clocks down */
    CONVOY_HEALTH_ECC_VOLATILE,       /* errors of memory that were not corrected, since the driver started */
    CONVOY_HEALTH_ECC_AGGREGATE,      /* the same in the device's life */
    CONVOY_HEALTH_XIDS,               /* errors that the driver reported since the worker watches */
    CONVOY_HEALTH_LAST_XID,           /* the number of the last one; unknown before the first */
    CONVOY_HEALTH_VALUES
};

enum convoy_throttle {
    CONVOY_THROTTLE_CLOCKS_SETTING, /* an administrator set lower clocks */
    CONVOY_THROTTLE_POWER_CAP,
    CONVOY_THROTTLE_HW_SLOWDOWN, /* any reason of the hardware's own */
    CONVOY_THROTTLE_SYNC_BOOST,
    CONVOY_THROTTLE_SW_THERMAL,
    CONVOY_THROTTLE_HW_THERMAL,
    CONVOY_THROTTLE_HW_POWER_BRAKE,
    CONVOY_THROTTLES
};

struct convoy_device_health {
    uint64_t number; /* grows with each sample and each error that is reported */
    uint64_t values[CONVOY_HEALTH_VALUES];
};

/* "utilization", "memory_utilization", ...: in the worker's message. */
extern const char *const convoy_health_names[CONVOY_HEALTH_VALUES];
/* "clocks_setting", "power_cap", ...: in labels. */
extern const char *const convoy_throttle_names[CONVOY_THROTTLES];

#endif
