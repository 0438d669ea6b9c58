/* A stand-in for NVML, the library by which NVIDIA's driver tells of a GPU's health: what convoyd uses of it,
 * of emulated GPUs at 00000000:10:00.0, 00000000:20:00.0, ... Its numbers follow from that place, so that a
 * test sees whether they are those of the right GPU.
 *
 * CONVOY_EMULATED_NVML=FILE: a line "FUNCTION CODE" of FILE makes that function return CODE, "FUNCTION hang"
 * keeps its callers while the line is there. CONVOY_EMULATED_XID=FILE: when FILE appears, an error of the
 * number in it is reported, and FILE is removed.
 *
 * Built with CONVOY_NVML_OLD, it lacks functions that came later or went. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS, NO_PERMISSION = 4, NOT_FOUND = 6, TIMEOUT = 10, UNINITIALIZED = 1, INVALID = 2 };

#define EXPORT  __attribute__((visibility("default")))
#define TICK_MS 5
#define BUSES   8

static struct device {
    unsigned bus;
} devices[BUSES];
static atomic_bool started;

static void tick(void)
{
    const struct timespec time = {.tv_nsec = TICK_MS * 1000000};
    nanosleep(&time, NULL);
}

/* What FILE says of a function: a code; -1: it hangs; 0: nothing. */
static int wish(const char *function)
{
    const char *path = getenv("CONVOY_EMULATED_NVML");
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    char name[64], what[16];
    int code = SUCCESS;
    while (file != NULL && code == SUCCESS && fscanf(file, "%63s %15s", name, what) == 2)
        if (strcmp(name, function) == 0)
            code = strcmp(what, "hang") == 0 ? -1 : atoi(what);
    if (file != NULL)
        fclose(file);
    return code;
}

static int begin(const char *function)
{
    int code;
    while ((code = wish(function)) < 0)
        tick();
    return code != SUCCESS ? code : started ? SUCCESS : UNINITIALIZED;
}

#define BEGIN                                                                                                \
    int code = begin(__func__);                                                                              \
    if (code != SUCCESS)                                                                                     \
    return code

/* As the real one, which asks a daemon: it needs a socket. */
EXPORT int nvmlInit_v2(void)
{
    int code, end;
    while ((code = wish(__func__)) < 0)
        tick();
    if (code != SUCCESS)
        return code;
    end = socket(AF_UNIX, SOCK_STREAM, 0);
    if (end < 0)
        return NO_PERMISSION;
    close(end);
    started = true;
    return SUCCESS;
}

EXPORT int nvmlShutdown(void)
{
    started = false;
    return SUCCESS;
}

EXPORT const char *nvmlErrorString(int code)
{
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "emulated error %d", code);
    return text;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *place, struct device **device)
{
    unsigned bus;
    char rest;
    BEGIN;
    if (sscanf(place, "00000000:%2x:00.0%c", &bus, &rest) != 1 || bus == 0 || bus % 0x10 != 0 ||
        bus / 0x10 > BUSES)
        return NOT_FOUND;
    *device = &devices[bus / 0x10 - 1];
    (*device)->bus = bus;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetUtilizationRates(const struct device *device, unsigned percent[2])
{
    BEGIN;
    percent[0] = device->bus;
    percent[1] = device->bus / 4;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo(const struct device *device, unsigned long long bytes[3])
{
    BEGIN;
    bytes[0] = 80ull << 30;
    bytes[2] = (unsigned long long)device->bus << 30;
    bytes[1] = bytes[0] - bytes[2];
    return SUCCESS;
}

EXPORT int nvmlDeviceGetPowerUsage(const struct device *device, unsigned *milliwatts)
{
    BEGIN;
    *milliwatts = device->bus * 1000 + 250;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetEnforcedPowerLimit(const struct device *device, unsigned *milliwatts)
{
    BEGIN;
    *milliwatts = 600000 + device->bus * 1000;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetTotalEccErrors(const struct device *device, unsigned type, unsigned counter,
                                       unsigned long long *errors)
{
    BEGIN;
    if (type != 1 || counter > 1)
        return INVALID;
    *errors = device->bus / 0x10 + 10 * counter;
    return SUCCESS;
}

/* Idle, and held down by its limit of power and by heat. */
static int reasons(unsigned long long *bits)
{
    *bits = 0x1 | 0x4 | 0x40;
    return SUCCESS;
}

struct temperature {
    unsigned version, sensor;
    int celsius;
};

EXPORT int nvmlDeviceGetTemperatureV(const struct device *device, struct temperature *temperature)
{
    BEGIN;
    if (temperature->version != (sizeof *temperature | 1u << 24) || temperature->sensor != 0)
        return INVALID;
    temperature->celsius = (int)device->bus + 20;
    return SUCCESS;
}

#ifdef CONVOY_NVML_OLD
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(const struct device *device, unsigned long long *bits)
{
    BEGIN;
    (void)device;
    return reasons(bits);
}
#else
EXPORT int nvmlDeviceGetCurrentClocksEventReasons(const struct device *device, unsigned long long *bits)
{
    BEGIN;
    (void)device;
    return reasons(bits);
}

EXPORT int nvmlDeviceGetTemperature(const struct device *device, unsigned sensor, unsigned *celsius)
{
    BEGIN;
    if (sensor != 0)
        return INVALID;
    *celsius = device->bus + 20;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetJpgUtilization(const struct device *device, unsigned *percent, unsigned *period_us)
{
    BEGIN;
    *percent = device->bus / 2;
    *period_us = 100000;
    return SUCCESS;
}

struct event {
    struct device *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

static struct device *watched;

/* For tests: how often nvmlEventSetWait_v2() was called. */
EXPORT atomic_uint convoy_emulated_nvml_waits;

EXPORT int nvmlEventSetCreate(struct device ***events)
{
    BEGIN;
    *events = &watched;
    return SUCCESS;
}

EXPORT int nvmlEventSetFree(struct device **events)
{
    *events = NULL;
    return SUCCESS;
}

EXPORT int nvmlDeviceRegisterEvents(struct device *device, unsigned long long types, struct device **events)
{
    BEGIN;
    if (types != 8)
        return INVALID;
    *events = device;
    if (getenv("CONVOY_EMULATED_XID") != NULL)
        unlink(getenv("CONVOY_EMULATED_XID")); /* of errors before nothing is heard */
    return SUCCESS;
}

EXPORT int nvmlEventSetWait_v2(struct device **events, struct event *event, unsigned milliseconds)
{
    const char *path = getenv("CONVOY_EMULATED_XID");
    atomic_fetch_add(&convoy_emulated_nvml_waits, 1);
    BEGIN;
    for (unsigned waited = 0; waited <= milliseconds; waited += TICK_MS) {
        FILE *file = path != NULL ? fopen(path, "r") : NULL;
        if (file != NULL) {
            *event = (struct event){.device = *events, .type = 8};
            int numbers = fscanf(file, "%llu", &event->data);
            fclose(file);
            /* Of several workers one hears of it, as if it were its own GPU's. */
            if (numbers == 1 && unlink(path) == 0)
                return SUCCESS;
        }
        tick();
    }
    return TIMEOUT;
}
#endif
