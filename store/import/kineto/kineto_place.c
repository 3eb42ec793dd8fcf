/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the process and the track of an event of a Kineto trace, and their names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/kineto/kineto_private.h"

#define DEVICES_MOST (1 << 20)
#define RANK_PIDS    100000000  /* from the pids of a rank to those of the next in a fused file */
#define PID_MOST     (1 << 22)  /* Linux has no larger ones */
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

/* A key of kineto->table. */
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

/* Reads a pid or tid. */
static struct place place_of(struct kj_span span)
{
    struct place place = {.number = 0};
    place.is_number = kineto_int(span, &place.number);
    place.text = kineto_inside(span);
    if (!place.is_number && place.text.text && place.text.bytes > 7 &&
        !memcmp(place.text.text, "stream ", 7))
        place.is_number =
            kineto_int((struct kj_span){place.text.text + 7, place.text.bytes - 7}, &place.number);
    return place;
}

const struct kj_arg *kineto_arg_of(const struct kj_event *event, enum kineto_arg wanted)
{
    for (size_t i = 0; i < event->arg_count; i++)
        if (event->arg[i].id == wanted)
            return &event->arg[i];
    return NULL;
}

int64_t kineto_int_arg(const struct kj_event *event, enum kineto_arg wanted)
{
    int64_t value;
    const struct kj_arg *arg = kineto_arg_of(event, wanted);
    return arg && kineto_int(arg->value, &value) ? value : STORE_ABSENT;
}

/* Number of the main process, or of another one with this pid. What is no pid (0, -1, "Traces")
 * means the main process. `may_be_main`: the first pid that is asked for is that of the main
 * process. */
static uint32_t process_find(struct kineto *kineto, struct place pid, bool may_be_main)
{
    if (!pid.is_number || pid.number <= 0)
        return 0;
    if (kineto->process[0].pid == pid.number)
        return 0;
    struct kineto_key key = {(uint64_t)OF_PROCESS << 56, (uint64_t)pid.number};
    uint32_t found = kineto_table_get(&kineto->table, key);
    if (!found && kineto->process[0].pid == STORE_ABSENT && may_be_main) {
        kineto->process[0].pid = pid.number;
        return 0;
    }
    if (!found) {
        if (kineto->processes == kineto->process_cap) {
            size_t cap = 2 * kineto->process_cap;
            struct kineto_process *process = realloc(kineto->process, cap * sizeof *process);
            if (!process) {
                kineto_no_memory(kineto);
                return 0;
            }
            kineto->process = process;
            kineto->process_cap = cap;
        }
        struct kineto_def *def = kineto_batch_def(kineto->batch, KINETO_DEF_PROCESS);
        if (!def) {
            kineto_no_memory(kineto);
            return 0;
        }
        def->id = pid.number;
        kineto->process[kineto->processes].pid = pid.number;
        found = (uint32_t)++kineto->processes;
        if (kineto_table_set(&kineto->table, key, found))
            kineto_no_memory(kineto);
    }
    return found - 1;
}

/* A new track, zeroed; NULL: out of memory. */
static struct kineto_track *track_new(struct kineto *kineto)
{
    if (kineto->tracks == kineto->track_cap) {
        size_t cap = kineto->track_cap ? 2 * kineto->track_cap : 64;
        struct kineto_track *track = realloc(kineto->track, cap * sizeof *track);
        if (!track)
            return NULL;
        kineto->track = track;
        kineto->track_cap = cap;
    }
    struct kineto_track *track = &kineto->track[kineto->tracks++];
    memset(track, 0, sizeof *track);
    track->last_batch = UINT64_MAX;
    return track;
}

/* Makes the track of a key, with the fields of `like` and `like_def`. Its name is `name`, else that
 * of a metadata event. Returns its number; 0 without memory. */
static uint32_t track_make(struct kineto *kineto, struct kineto_key key,
                           const struct kineto_track *like, const struct kineto_def *like_def,
                           struct kj_span name)
{
    struct kineto_track *track = track_new(kineto);
    struct kineto_def *def = track ? kineto_batch_def(kineto->batch, KINETO_DEF_TRACK) : NULL;
    if (!def) {
        kineto_no_memory(kineto);
        return 0;
    }
    *track = *like;
    track->process = like_def->process;
    track->last_batch = UINT64_MAX;
    *def = *like_def;
    def->kind = KINETO_DEF_TRACK;
    if (name.text && name.bytes) {
        kineto->scratch.bytes = 0;
        kineto_unescape(&kineto->scratch, name);
        def->text = kineto_batch_text(kineto->batch, kineto->scratch.data, kineto->scratch.bytes);
    } else {
        const char *known = kineto_track_name(kineto, kineto->tracks - 1);
        def->text = known ? kineto_batch_text(kineto->batch, known, strlen(known)) : 0;
    }
    if (kineto_table_set(&kineto->table, key, (uint32_t)kineto->tracks))
        kineto_no_memory(kineto);
    return (uint32_t)kineto->tracks - 1;
}

/* Device rows do not name their process. Nearly every file has only one; the correlations of
 * launches by other processes are remembered. */
void kineto_launch_note(struct kineto *kineto, const struct kineto_slice *slice)
{
    uint32_t process = kineto->track[slice->track].process;
    struct kineto_key key = {(uint64_t)OF_LAUNCH << 56, (uint64_t)slice->correlation};
    if (!process || slice->correlation == STORE_ABSENT ||
        kineto->launches_elsewhere >= LAUNCHES_MAX || kineto_table_get(&kineto->table, key))
        return;
    kineto->launches_elsewhere++;
    if (kineto_table_set(&kineto->table, key, process + 1))
        kineto_no_memory(kineto);
}

/* The process that launched device work, by its correlation; 0: the main one. */
static uint32_t launch_process(const struct kineto *kineto, const struct kj_event *event)
{
    int64_t correlation =
        kineto->launches_elsewhere ? kineto_int_arg(event, KINETO_ARG_CORRELATION) : STORE_ABSENT;
    if (correlation == STORE_ABSENT)
        return 0;
    uint32_t found = kineto_table_get(
        &kineto->table, (struct kineto_key){(uint64_t)OF_LAUNCH << 56, (uint64_t)correlation});
    return found ? found - 1 : 0;
}

/* The process of a device row: the one that launched it. Files that a tool made of those of several
 * ranks give each of them pids of its own, which are no numbers of devices: then each has its
 * devices, and what has the number of one belongs to the main process. */
static uint32_t device_process(struct kineto *kineto, const struct kj_event *event,
                               struct place pid, int64_t device)
{
    uint32_t process = launch_process(kineto, event);
    bool own = pid.is_number && pid.number >= RANK_PIDS && pid.number % RANK_PIDS < PID_MOST &&
               device != STORE_ABSENT && device >= 0 && device < DEVICES_MOST;
    return process || !own ? process : process_find(kineto, pid, false);
}

uint32_t kineto_track_device(struct kineto *kineto, const struct kj_event *event)
{
    struct place pid = place_of(event->field[KJ_PID]), tid = place_of(event->field[KJ_TID]);
    int64_t device = kineto_int_arg(event, KINETO_ARG_DEVICE),
            stream = kineto_int_arg(event, KINETO_ARG_STREAM);
    uint32_t process = device_process(kineto, event, pid, device);
    if (device == STORE_ABSENT || device < 0 || device >= DEVICES_MOST)
        device = pid.is_number && pid.number >= 0 && pid.number < 1 << 12 ? pid.number : 0;
    if (stream == STORE_ABSENT)
        stream = kineto_int_arg(event, KINETO_ARG_STREAM_ID);
    if (stream == STORE_ABSENT && tid.is_number)
        stream = tid.number;
    if (stream == -1 || stream == UINT32_MAX)
        stream = STORE_ABSENT;
    struct kineto_key key = {(uint64_t)OF_DEVICE << 56 | (uint64_t)process << 20 | (uint64_t)device,
                             (uint64_t)stream};
    uint32_t found = kineto_table_get(&kineto->table, key);
    if (found)
        return found - 1;
    struct kineto_track like = {.device = true, .pid = device, .tid = stream};
    if (pid.is_number)
        like.pid = pid.number;
    if (stream == STORE_ABSENT)
        like.tid = -1;
    struct kineto_def def = {.process = process, .id = stream, .track_kind = "stream"};
    snprintf(def.device, sizeof def.device, "gpu:%d", (int)device);
    return track_make(kineto, key, &like, &def, (struct kj_span){NULL, 0});
}

uint32_t kineto_track_host(struct kineto *kineto, const struct kj_event *event)
{
    struct place pid = place_of(event->field[KJ_PID]), tid = place_of(event->field[KJ_TID]);
    int64_t group = pid.is_number && pid.number > 0 ? pid.number : 0;
    struct kj_span name = {NULL, 0};
    struct kineto_key key = key_in(OF_THREAD, group, (uint64_t)tid.number);
    if (!tid.is_number) {
        name = (struct kj_span){"trace", 5};
        if (pid.text.text && pid.text.bytes)
            name = pid.text;
        if (tid.text.text && tid.text.bytes)
            name = tid.text;
        key = key_in(OF_TEXT_THREAD, group, kineto_string_json(kineto, name));
    }
    uint32_t found = kineto_table_get(&kineto->table, key);
    if (found)
        return found - 1;
    struct kineto_track like = {.tid = tid.is_number ? tid.number : -1};
    if (pid.is_number)
        like.pid = pid.number;
    struct kineto_def def = {.process = process_find(kineto, pid, true),
                             .id = tid.is_number ? tid.number : STORE_ABSENT,
                             .track_kind = "thread"};
    return track_make(kineto, key, &like, &def, name);
}

uint32_t kineto_track_counter(struct kineto *kineto, struct kj_span pid_span, struct kj_span name,
                              const char *device, const char *unit)
{
    struct place pid = place_of(pid_span);
    kineto->scratch.bytes = 0;
    kineto_text_put(&kineto->scratch, name.text, name.bytes);
    kineto_text_puts(&kineto->scratch, "\n"); /* no JSON string has it */
    kineto_text_puts(&kineto->scratch, device);
    int64_t group = pid.is_number && pid.number > 0 ? pid.number : 0;
    uint32_t number = kineto_string_number(kineto, kineto->scratch.data, kineto->scratch.bytes);
    struct kineto_key key = key_in(OF_COUNTER, group, number);
    uint32_t found = kineto_table_get(&kineto->table, key);
    if (found)
        return found - 1;
    struct kineto_track like = {.counter = true};
    struct kineto_def def = {.process = process_find(kineto, pid, true),
                             .id = STORE_ABSENT,
                             .track_kind = "counter",
                             .unit = unit};
    snprintf(def.device, sizeof def.device, "%s", device);
    return track_make(kineto, key, &like, &def, name);
}

/* ---- names of threads and processes ---------------------------------------------------------------------------------------- */

/* The key of the name of a thread or process. */
static struct kineto_key name_key(bool thread, int64_t pid, int64_t tid)
{
    return thread ? key_in(OF_THREAD_NAME, pid, (uint64_t)tid) : key_in(OF_PROCESS_NAME, pid, 0);
}

static const char *name_find(const struct kineto *kineto, bool thread, int64_t pid, int64_t tid)
{
    uint32_t found = kineto_table_get(&kineto->table, name_key(thread, pid, tid));
    return found ? kineto->name[found - 1].text : NULL;
}

const char *kineto_track_name(const struct kineto *kineto, size_t i)
{
    const struct kineto_track *track = &kineto->track[i];
    return track->counter || track->tid == -1 ? NULL
                                              : name_find(kineto, true, track->pid, track->tid);
}

const char *kineto_process_name(const struct kineto *kineto, size_t i)
{
    return kineto->process[i].pid == STORE_ABSENT
               ? NULL
               : name_find(kineto, false, kineto->process[i].pid, 0);
}

/* The rank in the name of a process, "RANK 3 - GPU"; STORE_ABSENT: it has none. */
static int64_t rank_of_name(const char *name)
{
    int rank = 0, used = 0;
    if (!name || sscanf(name, "RANK %7d - %n", &rank, &used) != 1 || !used || rank < 0)
        return STORE_ABSENT;
    return rank;
}

void kineto_find_ranks(struct kineto *kineto)
{
    for (size_t i = 0; i < kineto->processes; i++)
        kineto->process[i].rank = rank_of_name(kineto_process_name(kineto, i));
    for (size_t i = 0; i < kineto->tracks; i++) {
        const struct kineto_track *track = &kineto->track[i];
        struct kineto_process *process = &kineto->process[track->process];
        if (process->rank == STORE_ABSENT)
            process->rank = rank_of_name(name_find(kineto, false, track->pid, 0));
    }
}

int kineto_metadata(struct kineto *kineto, const struct kj_event *event)
{
    const struct kj_arg *text = kineto_arg_of(event, KINETO_ARG_META_NAME);
    bool thread = kineto_equals(event->field[KJ_NAME], "thread_name");
    struct place pid = place_of(event->field[KJ_PID]), tid = place_of(event->field[KJ_TID]);
    if (!text || (!thread && !kineto_equals(event->field[KJ_NAME], "process_name")) ||
        !pid.is_number || (thread && !tid.is_number))
        return 0;
    struct kineto_key key = name_key(thread, pid.number, tid.number);
    uint32_t found = kineto_table_get(&kineto->table, key);
    if (!found) {
        if (kineto->names == kineto->name_cap) {
            size_t cap = kineto->name_cap ? 2 * kineto->name_cap : 64;
            struct kineto_name *names = realloc(kineto->name, cap * sizeof *names);
            if (!names)
                return kineto_no_memory(kineto);
            kineto->name = names;
            kineto->name_cap = cap;
        }
        kineto->name[kineto->names].text = NULL;
        found = (uint32_t)++kineto->names;
        if (kineto_table_set(&kineto->table, key, found))
            return kineto_no_memory(kineto);
    }
    char *new = kineto_dup(kineto, text->value);
    if (!new)
        return kineto->code;
    for (size_t length = strlen(new); length && new[length - 1] == ' ';) /* "stream 7 " */
        new[--length] = 0;
    free(kineto->name[found - 1].text);
    kineto->name[found - 1].text = new;
    return 0;
}
