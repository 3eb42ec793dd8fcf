/* SPDX-License-Identifier: Apache-2.0 */
#include "workloads/input.h"

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

int input_loader(struct lt_loader_options *out, const struct options *o, struct tacho_error *err)
{
    *out = (struct lt_loader_options){.workers = (int)o->workers, .prefetch = (int)o->prefetch, .in_order = o->no_shuffle};
    if (strcmp(o->worker_kind, "threads") != 0)
        return tacho_fail(err, TACHO_EUSAGE, "threads", "--worker-kind %s: unknown", o->worker_kind);
    return 0;
}
