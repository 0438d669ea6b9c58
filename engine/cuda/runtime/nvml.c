#include "engine/cuda/runtime/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

/* Of nvml.h */
#define SUCCESS             0
#define TIMEOUT             10
#define SENSOR_GPU          0
#define TEMPERATURE_VERSION ((unsigned)sizeof(struct convoy_nvml_temperature) | 1u << 24)
#define UNCORRECTED         1
#define ECC_VOLATILE        0
#define ECC_AGGREGATE       1
#define EVENT_XID           8ull

/* The functions, and where their addresses go. Of two lines for one place the first that is there counts. */
static const struct {
    const char *name;
    size_t place;
    bool needed;
} functions[] = {
    {"nvmlInit_v2", offsetof(struct convoy_nvml, init), true},
    {"nvmlShutdown", offsetof(struct convoy_nvml, shutdown), true},
    {"nvmlErrorString", offsetof(struct convoy_nvml, error_string), true},
    {"nvmlDeviceGetHandleByPciBusId_v2", offsetof(struct convoy_nvml, by_bus), true},
    {"nvmlDeviceGetUtilizationRates", offsetof(struct convoy_nvml, utilization), false},
    {"nvmlDeviceGetJpgUtilization", offsetof(struct convoy_nvml, jpeg), false},
    {"nvmlDeviceGetMemoryInfo", offsetof(struct convoy_nvml, memory), false},
    {"nvmlDeviceGetTemperature", offsetof(struct convoy_nvml, temperature), false},
    {"nvmlDeviceGetTemperatureV", offsetof(struct convoy_nvml, temperature_later), false},
    {"nvmlDeviceGetPowerUsage", offsetof(struct convoy_nvml, power), false},
    {"nvmlDeviceGetEnforcedPowerLimit", offsetof(struct convoy_nvml, power_limit), false},
    {"nvmlDeviceGetCurrentClocksEventReasons", offsetof(struct convoy_nvml, throttle), false},
    {"nvmlDeviceGetCurrentClocksThrottleReasons", offsetof(struct convoy_nvml, throttle), false},
    {"nvmlDeviceGetTotalEccErrors", offsetof(struct convoy_nvml, ecc), false},
    {"nvmlEventSetCreate", offsetof(struct convoy_nvml, make_events), false},
    {"nvmlEventSetFree", offsetof(struct convoy_nvml, free_events), false},
    {"nvmlDeviceRegisterEvents", offsetof(struct convoy_nvml, watch), false},
    {"nvmlEventSetWait_v2", offsetof(struct convoy_nvml, wait), false},
};

/* Its bits of reasons, and ours. That a GPU is idle is no reason to tell. */
static const struct {
    unsigned long long theirs;
    enum convoy_throttle ours;
} reasons[] = {
    {0x002, CONVOY_THROTTLE_CLOCKS_SETTING}, {0x100, CONVOY_THROTTLE_CLOCKS_SETTING},
    {0x004, CONVOY_THROTTLE_POWER_CAP},      {0x008, CONVOY_THROTTLE_HW_SLOWDOWN},
    {0x010, CONVOY_THROTTLE_SYNC_BOOST},     {0x020, CONVOY_THROTTLE_SW_THERMAL},
    {0x040, CONVOY_THROTTLE_HW_THERMAL},     {0x080, CONVOY_THROTTLE_HW_POWER_BRAKE},
};

int convoy_nvml_open(struct convoy_nvml *nvml, struct convoy_error *error)
{
    memset(nvml, 0, sizeof(*nvml));
    nvml->library = dlopen(CONVOY_NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (nvml->library == NULL)
        return convoy_fail(error, -ENOENT, "%s", dlerror());
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void **place = (void **)(void *)((char *)nvml + functions[i].place);
        if (*place == NULL)
            *place = dlsym(nvml->library, functions[i].name);
        if (*place == NULL && functions[i].needed) {
            nvml->init = NULL;
            return convoy_fail(error, -ENOSYS, "%s lacks %s()", CONVOY_NVML_LIBRARY, functions[i].name);
        }
    }
    int code = nvml->init();
    if (code != SUCCESS)
        nvml->init = NULL; /* nothing to shut down */
    return code == SUCCESS
               ? 0
               : convoy_fail(error, -EIO, "%s: %s", CONVOY_NVML_LIBRARY, nvml->error_string(code));
}

void convoy_nvml_watch_errors(struct convoy_nvml *nvml)
{
    if (nvml->make_events == NULL || nvml->free_events == NULL || nvml->watch == NULL || nvml->wait == NULL ||
        nvml->make_events(&nvml->events) != SUCCESS) {
        nvml->events = NULL;
        return;
    }
    if (nvml->watch(nvml->device, EVENT_XID, nvml->events) != SUCCESS) {
        nvml->free_events(nvml->events);
        nvml->events = NULL;
    }
}

int convoy_nvml_find(struct convoy_nvml *nvml, const char *bus, struct convoy_error *error)
{
    int code = nvml->by_bus(bus, &nvml->device);
    if (code != SUCCESS)
        return convoy_fail(error, -ENODEV, "%s finds no GPU %s: %s", CONVOY_NVML_LIBRARY, bus,
                           nvml->error_string(code));
    return 0;
}

static uint64_t bits_of(unsigned long long theirs)
{
    uint64_t ours = 0;
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (theirs & reasons[i].theirs)
            ours |= UINT64_C(1) << reasons[i].ours;
    return ours;
}

static void read_temperature(const struct convoy_nvml *nvml, uint64_t *value)
{
    struct convoy_nvml_temperature later = {.version = TEMPERATURE_VERSION, .sensor = SENSOR_GPU};
    unsigned celsius = 0;
    if (nvml->temperature != NULL && nvml->temperature(nvml->device, SENSOR_GPU, &celsius) == SUCCESS)
        *value = (int)celsius > 0 ? celsius : 0;
    else if (nvml->temperature_later != NULL && nvml->temperature_later(nvml->device, &later) == SUCCESS)
        *value = later.celsius > 0 ? (uint64_t)later.celsius : 0;
}

void convoy_nvml_sample(const struct convoy_nvml *nvml, uint64_t values[CONVOY_HEALTH_VALUES])
{
    const convoy_nvml_device device = nvml->device;
    struct convoy_nvml_utilization percent = {0};
    struct convoy_nvml_memory bytes = {0};
    unsigned narrow = 0, period_us = 0;
    unsigned long long wide = 0;
    for (int i = 0; i < CONVOY_HEALTH_XIDS; i++)
        values[i] = CONVOY_HEALTH_UNKNOWN;
    if (nvml->utilization != NULL && nvml->utilization(device, &percent) == SUCCESS) {
        values[CONVOY_HEALTH_UTILIZATION] = percent.gpu;
        values[CONVOY_HEALTH_MEMORY_UTILIZATION] = percent.memory;
    }
    if (nvml->jpeg != NULL && nvml->jpeg(device, &narrow, &period_us) == SUCCESS)
        values[CONVOY_HEALTH_JPEG_UTILIZATION] = narrow;
    if (nvml->memory != NULL && nvml->memory(device, &bytes) == SUCCESS) {
        values[CONVOY_HEALTH_MEMORY_USED] = bytes.used;
        values[CONVOY_HEALTH_MEMORY_TOTAL] = bytes.total;
    }
    read_temperature(nvml, &values[CONVOY_HEALTH_TEMPERATURE]);
    if (nvml->power != NULL && nvml->power(device, &narrow) == SUCCESS)
        values[CONVOY_HEALTH_POWER] = narrow;
    if (nvml->power_limit != NULL && nvml->power_limit(device, &narrow) == SUCCESS)
        values[CONVOY_HEALTH_POWER_LIMIT] = narrow;
    if (nvml->throttle != NULL && nvml->throttle(device, &wide) == SUCCESS)
        values[CONVOY_HEALTH_THROTTLED] = bits_of(wide);
    if (nvml->ecc != NULL && nvml->ecc(device, UNCORRECTED, ECC_VOLATILE, &wide) == SUCCESS)
        values[CONVOY_HEALTH_ECC_VOLATILE] = wide;
    if (nvml->ecc != NULL && nvml->ecc(device, UNCORRECTED, ECC_AGGREGATE, &wide) == SUCCESS)
        values[CONVOY_HEALTH_ECC_AGGREGATE] = wide;
}

int convoy_nvml_wait(struct convoy_nvml *nvml, unsigned milliseconds, uint64_t *xid)
{
    struct convoy_nvml_event event = {0};
    if (nvml->events == NULL)
        return -ENOSYS;
    int code = nvml->wait(nvml->events, &event, milliseconds);
    if (code == SUCCESS && event.type == EVENT_XID) {
        *xid = event.data;
        return 1;
    }
    if (code == SUCCESS || code == TIMEOUT)
        return 0;
    /* A GPU that is lost, say: asked again, it would answer at once for ever. */
    nvml->free_events(nvml->events);
    nvml->events = NULL;
    return -ENOSYS;
}

void convoy_nvml_close(struct convoy_nvml *nvml)
{
    if (nvml->events != NULL)
        nvml->free_events(nvml->events);
    if (nvml->init != NULL)
        nvml->shutdown();
    if (nvml->library != NULL)
        dlclose(nvml->library);
    memset(nvml, 0, sizeof(*nvml));
}
