/* SPDX-License-Identifier: Apache-2.0
 *
 * torch.profiler beside the substitute libcupti: another client of the activity interface in the
 * same process.
 */
#include <stdlib.h>
#include <string.h>

#include "fake_cupti.h"

/* $FAKE_KINETO: "" the one until August 2026, which subscribes at its first use, keeps the
 * subscription, and records no device work in this process if that fails; "new", which does not
 * subscribe; "jax", which subscribes for the time of a session. All but the last make the time
 * stamp counter CUPTI's clock, and leave it so. */
static struct {
    int state; /* 0 not used yet, 1 it works, -1 it was refused */
    unsigned long long kernels;
    void *subscriber;
    uint8_t *lent[64];
} kineto;

static void other_request(uint8_t **buffer, size_t *size, size_t *max)
{
    *max = *size = 0;
    *buffer = NULL;
    for (size_t i = 0; i < sizeof kineto.lent / sizeof *kineto.lent && !*buffer; i++)
        if (!kineto.lent[i])
            *buffer = kineto.lent[i] = calloc(1, *size = 1u << 20);
}

/* As Kineto: a buffer that it has not lent is an error in its log, and what is in it is lost. */
static void other_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                           size_t valid)
{
    uint8_t *at = NULL;
    (void)context;
    (void)stream;
    (void)size;
    for (size_t i = 0; i < sizeof kineto.lent / sizeof *kineto.lent; i++)
        if (kineto.lent[i] == buffer) {
            kineto.lent[i] = NULL;
            for (uint32_t kind; !cuptiActivityGetNextRecord(buffer, valid, &at);) {
                memcpy(&kind, at, sizeof kind);
                kineto.kernels += kind == 10;
            }
            free(buffer);
            return;
        }
    fake_log_note("kineto", 0, "unknown buffer");
}

static const int kineto_kinds[] = {1, 2, 4, 5, 10, 17, 38, 39};

static void other_callback(void *user, int domain, uint32_t cbid, const void *data)
{
    (void)user;
    (void)domain;
    (void)cbid;
    (void)data;
}

static void kineto_begin(const char *how)
{
    if (kineto.state == 0 || !strcmp(how, "jax"))
        kineto.state =
            !strcmp(how, "new") || !cuptiSubscribe(&kineto.subscriber, other_callback, NULL) ? 1
                                                                                             : -1;
    if (kineto.state < 0) {
        fake_log_note("kineto", 0, "refused");
        return;
    }
    uint64_t before = fake.kinds;
    if (strcmp(how, "jax") != 0)
        fake_change_clock();
    cuptiActivityRegisterCallbacks(other_request, other_complete);
    for (size_t i = 0; i < sizeof kineto_kinds / sizeof *kineto_kinds; i++)
        cuptiActivityEnable(kineto_kinds[i]);
    fake_log_note("kineto", before, "kinds that were on");
    cuptiActivityPushExternalCorrelationId(3, 1);
    pthread_mutex_lock(&fake.lock);
    fake.foreign = true;
    pthread_mutex_unlock(&fake.lock);
}

void fake_kineto(int begin)
{
    const char *how = getenv("FAKE_KINETO") ? getenv("FAKE_KINETO") : "";
    uint8_t off = 0;
    size_t one = 1;
    uint64_t id;
    if (begin) {
        kineto_begin(how);
        return;
    }
    if (kineto.state < 0)
        return;
    cuptiActivityPopExternalCorrelationId(3, &id);
    for (size_t i = 0; i < sizeof kineto_kinds / sizeof *kineto_kinds; i++)
        cuptiActivityDisable(kineto_kinds[i]);
    cuptiActivityFlushAll(1);
    cuptiActivitySetAttribute(9, &one, &off);
    if (!strcmp(how, "jax"))
        cuptiUnsubscribe(kineto.subscriber);
    fake.foreign = false;
    fake_log_note("kineto", kineto.kernels, "kernels");
}
