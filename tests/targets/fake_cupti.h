/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the substitute libcupti share: its state, its clock, the faults that it was
 * asked for, and the log of what it wrote. fake_cupti.c says what it does.
 */
#ifndef FAKE_CUPTI_H
#define FAKE_CUPTI_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fake_gpu.h"

#define EXPORT  __attribute__((visibility("default")))
#define THREADS 256
#define FULL    64 /* buffers with work that has not ended; more come back at once */

typedef void (*request_fn)(uint8_t **buffer, size_t *size, size_t *max);
typedef void (*complete_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                            size_t valid);
typedef void (*callback_fn)(void *user, int domain, uint32_t cbid, const void *data);

struct fake_cupti {
    pthread_mutex_t lock;
    request_fn request;
    complete_fn complete;
    _Atomic(callback_fn) callback;
    void *user;
    bool subscribed, several, shared, quiet_queries;
    unsigned session; /* times that recording began with no kind enabled */
    _Atomic uint64_t kinds;
    _Atomic bool muted[1024], driver[1024], callbacks[1024];
    struct slot {
        uint8_t *at;
        size_t size, used;
        uint64_t busy; /* until its work has ended, CLOCK_REALTIME ns */
        pid_t tid;
    } slot[THREADS], full[FULL];
    uint32_t correlation, event_record;
    unsigned kernels, dropped;
    int log;
    double rate; /* of CUPTI's clock, ticks a ns; 0: it is its own */
    bool foreign, no_single_calls;
};
extern struct fake_cupti fake;

/* $FAKE_CUPTI_VERSION, the newest without it. */
unsigned fake_version(void);

/* What follows "WORD=" in $FAKE_CUPTI, "1" for the word alone, NULL without it; as a number, 0
 * without it. */
const char *fake_fault(const char *word);
int fake_fault_number(const char *word);

/* CLOCK_REALTIME in ns, and the clock that the stand-in for torch.profiler makes CUPTI's, which
 * counts otherwise. From fake_change_clock() on CUPTI's times are of the latter, for good. */
uint64_t fake_now(void);
uint64_t fake_ticks(void);
void fake_change_clock(void);

/* The time of a record for a CLOCK_REALTIME. */
uint64_t fake_stamp(uint64_t real);

/* The bytes of a record of that kind in the version's layout. */
size_t fake_record_bytes(uint32_t kind);

/* Adds a line to $FAKE_LOG that is no record. */
void fake_log_note(const char *who, unsigned long long a, const char *b);

/* Hands a buffer to the tool; the full ones whose work has ended, or all of them. */
void fake_give_back(struct slot *s);
void fake_give_back_full(bool all);

/* Writes the records of one call of the program; and those of the device, its context and its
 * stream, which CUPTI writes when their kind is enabled. */
void fake_on_call(struct fake_call *c);
void fake_put_objects(void);

/* The interface, in CUPTI's own words. */
#define DECLARE(name, ...) EXPORT int name(__VA_ARGS__)
DECLARE(cuptiGetVersion, uint32_t *v);
DECLARE(cuptiGetTimestamp, uint64_t *t);
DECLARE(cuptiGetCallbackName, int domain, uint32_t cbid, const char **name);
DECLARE(cuptiSubscribe, void **s, callback_fn f, void *user);
DECLARE(cuptiUnsubscribe, void *s);
DECLARE(cuptiEnableCallback, uint32_t on, void *s, int domain, uint32_t cbid);
DECLARE(cuptiSetThreadIdType, int type);
DECLARE(cuptiActivityEnable, int kind);
DECLARE(cuptiActivityDisable, int kind);
DECLARE(cuptiActivityRegisterCallbacks, request_fn request, complete_fn complete);
DECLARE(cuptiActivityGetNextRecord, uint8_t *buffer, size_t valid, uint8_t **at);
DECLARE(cuptiActivityGetNumDroppedRecords, void *context, uint32_t stream, size_t *n);
DECLARE(cuptiActivityFlushAll, uint32_t flag);
DECLARE(cuptiActivitySetAttribute, int attribute, size_t *size, void *value);
DECLARE(cuptiActivityEnableRuntimeApi, uint32_t cbid, uint8_t on);
DECLARE(cuptiActivityEnableDriverApi, uint32_t cbid, uint8_t on);
DECLARE(cuptiActivityGetAttribute, int attribute, size_t *size, void *value);
DECLARE(cuptiActivityEnableAllSyncRecords, uint8_t on);
DECLARE(cuptiActivityPushExternalCorrelationId, int kind, uint64_t id);
DECLARE(cuptiActivityPopExternalCorrelationId, int kind, uint64_t *id);
EXPORT int cuptiSubscribe_v2(void **s, callback_fn f, void *user, void *params);
EXPORT void fake_kineto(int begin);
EXPORT int fake_records(int kind);

#endif
