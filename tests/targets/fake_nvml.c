/* SPDX-License-Identifier: Apache-2.0
 *
 * A substitute libnvidia-ml.so.1: two GPUs, of which the second is an older one that lacks much.
 * $FAKE_NVML: "denied" refuses power, "dead" does not start.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

struct device {
    int index;
};
static struct device device[2] = {{0}, {1}};

static int fault(const char *word)
{
    const char *text = getenv("FAKE_NVML");
    return text && strstr(text, word) != NULL;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

#define DECLARE(name, ...) \
    EXPORT int name(__VA_ARGS__); \
    int name(__VA_ARGS__)

DECLARE(nvmlInit_v2, void)
{
    return fault("dead") ? 9 : 0;
}

DECLARE(nvmlShutdown, void)
{
    return 0;
}

DECLARE(nvmlDeviceGetCount_v2, unsigned *n)
{
    *n = 2;
    return 0;
}

DECLARE(nvmlDeviceGetHandleByIndex_v2, unsigned i, void **d)
{
    *d = &device[i];
    return 0;
}

DECLARE(nvmlDeviceGetHandleByPciBusId_v2, const char *bus, void **d)
{
    (void)bus;
    *d = &device[0];
    return 0;
}

DECLARE(nvmlDeviceGetName, struct device *d, char *text, unsigned size)
{
    snprintf(text, size, "Substitute GPU %d", d->index);
    return 0;
}

DECLARE(nvmlDeviceGetUUID, struct device *d, char *text, unsigned size)
{
    snprintf(text, size, "GPU-00112233-4455-6677-8899-aabbccddeef%c", d->index ? 'e' : 'f');
    return 0;
}

DECLARE(nvmlDeviceGetPowerUsage, struct device *d, unsigned *mw)
{
    *mw = 250000u + 1000u * (unsigned)d->index;
    return fault("denied") ? 4 : 0;
}

/* 300 W since the machine was started */
DECLARE(nvmlDeviceGetTotalEnergyConsumption, struct device *d, unsigned long long *mj)
{
    *mj = (unsigned long long)(seconds() * 300e3);
    return d->index ? 3 : 0;
}

DECLARE(nvmlDeviceGetClockInfo, struct device *d, int which, unsigned *mhz)
{
    (void)d;
    *mhz = which == 1 ? 1980 : 2619;
    return 0;
}

/* as drivers before 535 call it */
DECLARE(nvmlDeviceGetCurrentClocksThrottleReasons, struct device *d, unsigned long long *bits)
{
    (void)d;
    *bits = 4;
    return 0;
}

DECLARE(nvmlDeviceGetTemperature, struct device *d, int sensor, unsigned *c)
{
    *c = 50u + (unsigned)d->index;
    return sensor ? 2 : 0;
}

DECLARE(nvmlDeviceGetMemoryInfo, struct device *d, unsigned long long *m)
{
    (void)d;
    m[0] = 80ull << 30;
    m[1] = 70ull << 30;
    m[2] = 10ull << 30;
    return 0;
}

struct pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char text[32];
};

DECLARE(nvmlDeviceGetPciInfo_v3, struct device *d, struct pci *pci)
{
    memset(pci, 0, sizeof *pci);
    pci->bus = d->index ? 0xc1 : 0x3b;
    return 0;
}

/* 12 links of 18, of the first one; the second one has none */
DECLARE(nvmlDeviceGetNvLinkState, struct device *d, unsigned link, unsigned *on)
{
    *on = link < 12;
    return d->index ? 3 : 0;
}

DECLARE(nvmlDeviceGetTotalEccErrors, struct device *d, int type, int counter,
        unsigned long long *errors)
{
    *errors = type == 1 && counter == 0 ? 2 : 99;
    return d->index ? 3 : 0;
}

DECLARE(nvmlDeviceGetRemappedRows, struct device *d, unsigned *corrected, unsigned *uncorrected,
        unsigned *pending, unsigned *failed)
{
    *corrected = 1;
    *uncorrected = 2;
    *pending = 1;
    *failed = 0;
    return d->index ? 3 : 0;
}

struct field {
    unsigned id, scope;
    long long time, latency;
    unsigned type;
    int result;
    unsigned long long value;
};

DECLARE(nvmlDeviceGetFieldValues, struct device *d, int n, struct field *f)
{
    for (int i = 0; i < n; i++) {
        f[i].result = d->index ? 3 : 0;
        f[i].type = 3;
        f[i].value = f[i].id == 82 ? 61 : 1000;
    }
    return 0;
}

/* GPM, of the first one */
DECLARE(nvmlGpmQueryDeviceSupport, struct device *d, unsigned *s)
{
    s[1] = d->index == 0;
    return 0;
}

DECLARE(nvmlGpmSampleAlloc, void **sample)
{
    *sample = calloc(1, sizeof(double));
    return 0;
}

DECLARE(nvmlGpmSampleFree, void *sample)
{
    free(sample);
    return 0;
}

DECLARE(nvmlGpmSampleGet, struct device *d, void *sample)
{
    double now = seconds();
    (void)d;
    memcpy(sample, &now, sizeof now);
    return 0;
}

struct metrics {
    unsigned version, count;
    void *before, *after;
    struct {
        unsigned id;
        int result;
        double value;
        const char *texts[3];
    } metric[];
};

DECLARE(nvmlGpmMetricsGet, struct metrics *m)
{
    double before, after;
    memcpy(&before, m->before, sizeof before);
    memcpy(&after, m->after, sizeof after);
    if (m->version != 1 || after <= before)
        return 2;
    for (unsigned i = 0; i < m->count; i++) {
        m->metric[i].result = m->metric[i].id == 11 ? 3 : 0;
        m->metric[i].value = m->metric[i].id * 5.0;
    }
    return 0;
}
