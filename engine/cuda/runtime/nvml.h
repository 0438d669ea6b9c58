/* NVML, the library of NVIDIA's driver that tells of a GPU's health. It is opened at run time: it comes with
 * the driver, not with CUDA's toolkit, and where it is not there only this is missing.
 *
 * A call may take milliseconds, and with a broken driver it may never return: only the thread of health.h
 * makes them. What the installed library lacks, or a GPU does not tell, is CONVOY_HEALTH_UNKNOWN. */
#ifndef CONVOY_ENGINE_CUDA_NVML_H
#define CONVOY_ENGINE_CUDA_NVML_H

#include "engine/base/device_health.h"
#include "engine/base/error.h"

#include <stdbool.h>

#define CONVOY_NVML_LIBRARY "libnvidia-ml.so.1"

/* The types of nvml.h, whose layouts NVIDIA keeps from version to version. */
typedef struct convoy_nvml_device *convoy_nvml_device;
typedef struct convoy_nvml_events *convoy_nvml_events;

struct convoy_nvml_utilization {
    unsigned gpu, memory;
};

struct convoy_nvml_memory {
    unsigned long long total, free, used;
};

struct convoy_nvml_temperature {
    unsigned version, sensor;
    int celsius;
};

struct convoy_nvml_event {
    convoy_nvml_device device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

struct convoy_nvml {
    void *library;
    convoy_nvml_device device;
    convoy_nvml_events events; /* NULL: errors are not reported */
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int code);
    int (*by_bus)(const char *bus, convoy_nvml_device *device);
    /* NULL: the library lacks it */
    int (*utilization)(convoy_nvml_device device, struct convoy_nvml_utilization *percent);
    int (*jpeg)(convoy_nvml_device device, unsigned *percent, unsigned *period_us);
    int (*memory)(convoy_nvml_device device, struct convoy_nvml_memory *bytes);
    int (*temperature)(convoy_nvml_device device, unsigned sensor, unsigned *celsius);
    int (*temperature_later)(convoy_nvml_device device, struct convoy_nvml_temperature *temperature);
    int (*power)(convoy_nvml_device device, unsigned *milliwatts);
    int (*power_limit)(convoy_nvml_device device, unsigned *milliwatts);
    int (*throttle)(convoy_nvml_device device, unsigned long long *reasons);
    int (*ecc)(convoy_nvml_device device, unsigned type, unsigned counter, unsigned long long *errors);
    int (*make_events)(convoy_nvml_events *events);
    int (*free_events)(convoy_nvml_events events);
    int (*watch)(convoy_nvml_device device, unsigned long long types, convoy_nvml_events events);
    int (*wait)(convoy_nvml_events events, struct convoy_nvml_event *event, unsigned milliseconds);
};

/* Opens the library and connects it to the driver. nvml is filled in; close it also after an error. -ENOENT:
 * there is no library; -ENOSYS: it lacks what is needed; -EIO: the driver refuses. */
int convoy_nvml_open(struct convoy_nvml *nvml, struct convoy_error *error);

/* Finds the GPU by its place on the PCI bus, "00000000:1b:00.0": numbers differ from CUDA's where
 * CUDA_VISIBLE_DEVICES is set. -ENODEV. */
int convoy_nvml_find(struct convoy_nvml *nvml, const char *bus, struct convoy_error *error);
/* Asks for reports of its errors from now on, where that is possible. */
void convoy_nvml_watch_errors(struct convoy_nvml *nvml);

/* Fills in all values but those of Xids. */
void convoy_nvml_sample(const struct convoy_nvml *nvml, uint64_t values[CONVOY_HEALTH_VALUES]);

/* Waits for an error of the GPU. 1 with its Xid; 0 when none came in time; -ENOSYS: none are reported, or not
 * any more, and this returned at once. */
int convoy_nvml_wait(struct convoy_nvml *nvml, unsigned milliseconds, uint64_t *xid);

void convoy_nvml_close(struct convoy_nvml *nvml);

#endif
