/* SPDX-License-Identifier: Apache-2.0
 *
 * Where an event of a Kineto trace belongs: processes, tracks, and what they are called.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/kineto/kineto.h"

#define LAUNCHES_MAX (1u << 20) /* launches of other than the main process that are remembered */

/* ---- places ------------------------------------------------------------------------------------------------------------ */

/* What a key of k->table is of. */
enum key_of {
    OF_DEVICE = 1,
    OF_LAUNCH,
    OF_THREAD,
    OF_TEXT_THREAD,
    OF_COUNTER,
    OF_PROCESS,
    OF_THREAD_NAME,
    OF_PROCESS_NAME
};

static struct kineto_key key_in(enum key_of of, int64_t pid, uint64_t rest)
{
    return (struct kineto_key){(uint64_t)of << 56 | ((uint64_t)pid & (UINT64_MAX >> 8)), rest};
}

/* A pid or tid: a number, or text. "stream 7" is 7. */
struct place {
    int64_t number;
    bool is_number;
    struct kj_span text;
};

static struct place place_of(struct kj_span s)
{
    struct place p = {.number = 0};
    p.is_number = kineto_int(s, &p.number);
    p.text = kineto_inside(s);
    if (!p.is_number && p.text.p && p.text.n > 7 && !memcmp(p.text.p, "stream ", 7))
        p.is_number = kineto_int((struct kj_span){p.text.p + 7, p.text.n - 7}, &p.number);
    return p;
}

const struct kj_arg *kineto_arg_of(const struct kj_event *e, enum kineto_arg a)
{
    for (size_t i = 0; i < e->arg_count; i++)
        if (e->arg[i].id == a)
            return &e->arg[i];
    return NULL;
}

int64_t kineto_int_arg(const struct kj_event *e, enum kineto_arg a)
{
    int64_t v;
    const struct kj_arg *arg = kineto_arg_of(e, a);
    return arg && kineto_int(arg->value, &v) ? v : STORE_ABSENT;
}

/* Number of the main process, or of another one of this pid. A pid that is none (0, -1, "Traces")
 * is of the main process. */
static uint32_t process_find(struct kineto *k, struct place pid)
{
    if (!pid.is_number || pid.number <= 0)
        return 0;
    if (k->process[0].pid == STORE_ABSENT) {
        k->process[0].pid = pid.number;
        return 0;
    }
    if (k->process[0].pid == pid.number)
        return 0;
    struct kineto_key key = {(uint64_t)OF_PROCESS << 56, (uint64_t)pid.number};
    uint32_t found = kineto_table_get(&k->table, key);
    if (!found) {
        if (k->processes == k->process_cap) {
            size_t cap = 2 * k->process_cap;
            struct kineto_process *p = realloc(k->process, cap * sizeof *p);
            if (!p) {
                kineto_no_memory(k);
                return 0;
            }
            k->process = p;
            k->process_cap = cap;
        }
        struct kineto_def *d = kineto_batch_def(k->batch, KINETO_DEF_PROCESS);
        if (!d) {
            kineto_no_memory(k);
            return 0;
        }
        d->id = pid.number;
        k->process[k->processes].pid = pid.number;
        found = (uint32_t)++k->processes;
        if (kineto_table_set(&k->table, key, found))
            kineto_no_memory(k);
    }
    return found - 1;
}

/* A new track, zeroed; NULL: out of memory. */
static struct kineto_track *track_new(struct kineto *k)
{
    if (k->tracks == k->track_cap) {
        size_t cap = k->track_cap ? 2 * k->track_cap : 64;
        struct kineto_track *t = realloc(k->track, cap * sizeof *t);
        if (!t)
            return NULL;
        k->track = t;
        k->track_cap = cap;
    }
    struct kineto_track *t = &k->track[k->tracks++];
    memset(t, 0, sizeof *t);
    t->last_batch = UINT64_MAX;
    return t;
}

/* The track of a key, made with `d` the first time. */
static uint32_t track_make(struct kineto *k, struct kineto_key key, const struct kineto_track *like,
                           const struct kineto_def *like_def, struct kj_span name)
{
    struct kineto_track *t = track_new(k);
    struct kineto_def *d = t ? kineto_batch_def(k->batch, KINETO_DEF_TRACK) : NULL;
    if (!d) {
        kineto_no_memory(k);
        return 0;
    }
    *t = *like;
    t->process = like_def->process;
    t->last_batch = UINT64_MAX;
    *d = *like_def;
    d->kind = KINETO_DEF_TRACK;
    if (name.p && name.n) {
        k->scratch.n = 0;
        kineto_unescape(&k->scratch, name);
        d->text = kineto_batch_text(k->batch, k->scratch.p, k->scratch.n);
    } else {
        const char *known = kineto_track_name(k, k->tracks - 1);
        d->text = known ? kineto_batch_text(k->batch, known, strlen(known)) : 0;
    }
    if (kineto_table_set(&k->table, key, (uint32_t)k->tracks))
        kineto_no_memory(k);
    return (uint32_t)k->tracks - 1;
}

/* Device rows do not name their process. Nearly every file has one; of others' launches the
 * correlation is remembered. */
void kineto_launch_note(struct kineto *k, const struct kineto_slice *s)
{
    uint32_t process = k->track[s->track].process;
    struct kineto_key key = {(uint64_t)OF_LAUNCH << 56, (uint64_t)s->correlation};
    if (!process || s->correlation == STORE_ABSENT || k->launches_elsewhere >= LAUNCHES_MAX ||
        kineto_table_get(&k->table, key))
        return;
    k->launches_elsewhere++;
    if (kineto_table_set(&k->table, key, process + 1))
        kineto_no_memory(k);
}

static uint32_t launch_process(const struct kineto *k, const struct kj_event *e)
{
    int64_t correlation =
        k->launches_elsewhere ? kineto_int_arg(e, KINETO_ARG_CORRELATION) : STORE_ABSENT;
    if (correlation == STORE_ABSENT)
        return 0;
    uint32_t found = kineto_table_get(
        &k->table, (struct kineto_key){(uint64_t)OF_LAUNCH << 56, (uint64_t)correlation});
    return found ? found - 1 : 0;
}

uint32_t kineto_track_device(struct kineto *k, const struct kj_event *e)
{
    struct place pid = place_of(e->field[KJ_PID]), tid = place_of(e->field[KJ_TID]);
    int64_t device = kineto_int_arg(e, KINETO_ARG_DEVICE),
            stream = kineto_int_arg(e, KINETO_ARG_STREAM);
    if (device == STORE_ABSENT || device < 0 || device >= 1 << 20)
        device = pid.is_number && pid.number >= 0 && pid.number < 1 << 12 ? pid.number : 0;
    if (stream == STORE_ABSENT && tid.is_number)
        stream = tid.number;
    if (stream == -1 || stream == UINT32_MAX)
        stream = STORE_ABSENT;
    uint32_t process = launch_process(k, e);
    struct kineto_key key = {(uint64_t)OF_DEVICE << 56 | (uint64_t)process << 20 | (uint64_t)device,
                             (uint64_t)stream};
    uint32_t found = kineto_table_get(&k->table, key);
    if (found)
        return found - 1;
    struct kineto_track like = {.device = true,
                                .pid = pid.is_number ? pid.number : device,
                                .tid = stream == STORE_ABSENT ? -1 : stream};
    struct kineto_def d = {.process = process, .id = stream, .track_kind = "stream"};
    snprintf(d.device, sizeof d.device, "gpu:%d", (int)device);
    return track_make(k, key, &like, &d, (struct kj_span){NULL, 0});
}

uint32_t kineto_track_host(struct kineto *k, const struct kj_event *e)
{
    struct place pid = place_of(e->field[KJ_PID]), tid = place_of(e->field[KJ_TID]);
    int64_t group = pid.is_number && pid.number > 0 ? pid.number : 0;
    struct kj_span name = {NULL, 0};
    struct kineto_key key = key_in(OF_THREAD, group, (uint64_t)tid.number);
    if (!tid.is_number) {
        name = tid.text.p && tid.text.n   ? tid.text
               : pid.text.p && pid.text.n ? pid.text
                                          : (struct kj_span){"trace", 5};
        key = key_in(OF_TEXT_THREAD, group, kineto_string_json(k, name));
    }
    uint32_t found = kineto_table_get(&k->table, key);
    if (found)
        return found - 1;
    struct kineto_track like = {.pid = pid.is_number ? pid.number : 0,
                                .tid = tid.is_number ? tid.number : -1};
    struct kineto_def d = {.process = process_find(k, pid),
                           .id = tid.is_number ? tid.number : STORE_ABSENT,
                           .track_kind = "thread"};
    return track_make(k, key, &like, &d, name);
}

uint32_t kineto_track_counter(struct kineto *k, struct kj_span pid_span, struct kj_span name,
                              const char *device, const char *unit)
{
    struct place pid = place_of(pid_span);
    k->scratch.n = 0;
    kineto_text_put(&k->scratch, name.p, name.n);
    kineto_text_puts(&k->scratch, "\n"); /* no JSON string has it */
    kineto_text_puts(&k->scratch, device);
    int64_t group = pid.is_number && pid.number > 0 ? pid.number : 0;
    uint32_t number = kineto_string_number(k, k->scratch.p, k->scratch.n);
    struct kineto_key key = key_in(OF_COUNTER, group, number);
    uint32_t found = kineto_table_get(&k->table, key);
    if (found)
        return found - 1;
    struct kineto_track like = {.counter = true};
    struct kineto_def d = {
        .process = process_find(k, pid), .id = STORE_ABSENT, .track_kind = "counter", .unit = unit};
    snprintf(d.device, sizeof d.device, "%s", device);
    return track_make(k, key, &like, &d, name);
}

/* ---- names of threads and processes ---------------------------------------------------------------------------------------- */

static struct kineto_key name_key(bool thread, int64_t pid, int64_t tid)
{
    return key_in(thread ? OF_THREAD_NAME : OF_PROCESS_NAME, pid, thread ? (uint64_t)tid : 0);
}

static const char *name_find(const struct kineto *k, bool thread, int64_t pid, int64_t tid)
{
    uint32_t found = kineto_table_get(&k->table, name_key(thread, pid, tid));
    return found ? k->name[found - 1].text : NULL;
}

const char *kineto_track_name(const struct kineto *k, size_t i)
{
    const struct kineto_track *t = &k->track[i];
    return t->counter || t->tid == -1 ? NULL : name_find(k, true, t->pid, t->tid);
}

const char *kineto_process_name(const struct kineto *k, size_t i)
{
    return k->process[i].pid == STORE_ABSENT ? NULL : name_find(k, false, k->process[i].pid, 0);
}

int kineto_metadata(struct kineto *k, const struct kj_event *e)
{
    const struct kj_arg *text = kineto_arg_of(e, KINETO_ARG_META_NAME);
    bool thread = kineto_equals(e->field[KJ_NAME], "thread_name");
    struct place pid = place_of(e->field[KJ_PID]), tid = place_of(e->field[KJ_TID]);
    if (!text || (!thread && !kineto_equals(e->field[KJ_NAME], "process_name")) || !pid.is_number ||
        (thread && !tid.is_number))
        return 0;
    struct kineto_key key = name_key(thread, pid.number, tid.number);
    uint32_t found = kineto_table_get(&k->table, key);
    if (!found) {
        if (k->names == k->name_cap) {
            size_t cap = k->name_cap ? 2 * k->name_cap : 64;
            struct kineto_name *n = realloc(k->name, cap * sizeof *n);
            if (!n)
                return kineto_no_memory(k);
            k->name = n;
            k->name_cap = cap;
        }
        k->name[k->names].text = NULL;
        found = (uint32_t)++k->names;
        if (kineto_table_set(&k->table, key, found))
            return kineto_no_memory(k);
    }
    char *new = kineto_dup(k, text->value);
    if (!new)
        return k->code;
    for (size_t n = strlen(new); n && new[n - 1] == ' ';) /* "stream 7 " */
        new[--n] = 0;
    free(k->name[found - 1].text);
    k->name[found - 1].text = new;
    return 0;
}
