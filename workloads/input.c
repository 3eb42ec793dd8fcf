/* SPDX-License-Identifier: Apache-2.0 */
#include "workloads/input.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LICENCES "/usr/share/common-licenses"

static int open_text(struct lt_source **source, const struct options *o, int64_t seq, struct tacho_error *err)
{
    static const char *const licences[] = {LICENCES};
    struct lt_dataset *data = NULL;
    int rc;
    if (o->data.count)
        rc = lt_dataset_open(&data, o->data.text, o->data.count, err);
    else if (access(LICENCES, R_OK))
        rc = tacho_fail(err, TACHO_EUSAGE, "name some text: --data FILE or --data FOLDER", LICENCES ": not on this machine");
    else
        rc = lt_dataset_open(&data, licences, 1, err);
    return rc ? rc : lt_source_open_text(source, data, seq, err);
}

int input_open(struct input *in, const struct options *o, int64_t seq, struct tacho_error *err)
{
    *in = (struct input){0};
    int rc = open_text(&in->source, o, seq, err);
    if (rc)
        return rc;
    in->train = lt_source_whole(in->source);
    in->has_held_out = o->eval_every > 0;
    return in->has_held_out ? lt_source_split(in->source, o->eval_share, &in->train, &in->held_out, err) : 0;
}

void input_close(struct input *in)
{
    lt_source_close(in->source);
}

/* "decode=0.02": adds to the delay of that stage. */
static int add_delay(struct lt_loader_options *out, const char *text, struct tacho_error *err)
{
    static const char *const stages[LT_STAGE_COUNT] = {"read", "decode", "collate"};
    const char *value = strchr(text, '=');
    char *end = NULL;
    double seconds = value ? strtod(value + 1, &end) : -1;
    for (size_t i = 0; i < LT_STAGE_COUNT; i++)
        if (value && strlen(stages[i]) == (size_t)(value - text) && strncmp(stages[i], text, (size_t)(value - text)) == 0 &&
            end != value + 1 && *end == '\0' && seconds >= 0 && seconds <= 3600) {
            out->slow[i] += seconds;
            return 0;
        }
    return tacho_fail(err, TACHO_EUSAGE, "for instance --slow decode=0.02; stages are read, decode and collate",
                      "--slow %s: no such stage, or not a number of seconds from 0 to 3600", text);
}

int input_loader(struct lt_loader_options *out, const struct options *o, struct tacho_error *err)
{
    int rc = 0, processes = strcmp(o->worker_kind, "processes") == 0;
    *out = (struct lt_loader_options){.workers = (int)o->workers,
                                      .prefetch = (int)o->prefetch,
                                      .kind = processes ? LT_WORKERS_PROCESSES : LT_WORKERS_THREADS,
                                      .in_order = o->no_shuffle,
                                      .pin = o->pin};
    if (!processes && strcmp(o->worker_kind, "threads") != 0)
        return tacho_fail(err, TACHO_EUSAGE, "threads or processes", "--worker-kind %s: unknown", o->worker_kind);
    for (size_t i = 0; i < o->slow.count && rc == 0; i++)
        rc = add_delay(out, o->slow.text[i], err);
    return rc;
}
