/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of what a plan is made of, the machine of a device, layouts that can run.
 */
#include "planner/base/types.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const recomputes[] = {
#define PLAN_RECOMPUTE_NAME(name, key, text) key,
    PLAN_RECOMPUTE_MAP(PLAN_RECOMPUTE_NAME)};
static const char *const schedules[] = {
#define PLAN_SCHEDULE_NAME(name, key, text) key,
    PLAN_SCHEDULE_MAP(PLAN_SCHEDULE_NAME)};
static const char *const contexts[] = {
#define PLAN_CONTEXT_NAME(name, key) key,
    PLAN_CONTEXT_MAP(PLAN_CONTEXT_NAME)};

const char *plan_recompute_name(enum plan_recompute recompute)
{
    return recomputes[recompute];
}

const char *plan_schedule_name(enum plan_schedule schedule)
{
    return schedules[schedule];
}

const char *plan_context_name(enum plan_context context)
{
    return contexts[context];
}

static int index_of(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(names[i], name))
            return i;
    return -1;
}

int plan_recompute_of(const char *name)
{
    return index_of(recomputes, PLAN_RECOMPUTES, name);
}

int plan_schedule_of(const char *name)
{
    return index_of(schedules, PLAN_SCHEDULES, name);
}

int plan_context_of(const char *name)
{
    return index_of(contexts, PLAN_CONTEXTS, name);
}

int64_t plan_turners(const struct plan_case *of)
{
    enum plan_context kind = of->layout.attention;
    bool turns =
        kind == PLAN_CONTEXT_ULYSSES || (kind == PLAN_CONTEXT_USUAL && of->machine.software.engine);
    return turns ? of->layout.context : 1;
}

int64_t plan_sequence_parts(const struct plan_case *of)
{
    bool folds = of->machine.software.engine && of->layout.context > plan_turners(of);
    return folds ? 2 * of->layout.context : of->layout.context;
}

/* GB/s of the network card that such a device usually has for itself: 200 Gbit/s with Ampere,
 * 400 with Hopper and CDNA 3, 800 with Blackwell Ultra's successors; 100 with what is older. */
static double usual_network(const struct an_accelerator *device)
{
    if (!strcmp(device->family, "ampere") || !strcmp(device->family, "ascend"))
        return 25e9;
    if (!strcmp(device->family, "hopper") || !strcmp(device->family, "blackwell"))
        return 50e9;
    if (!strcmp(device->family, "tpu"))
        return device->link_bytes_per_s;
    return device->bytes > 150e9 ? 50e9 : 12.5e9;
}

/* Writes up to six names of the table that begin like `name` (all, if none does). */
static void suggest(const char *name, char *hint, size_t bytes)
{
    struct an_accelerator row;
    size_t used = 0, found = 0;
    for (int exact = 1; exact >= 0 && !found; exact--)
        for (size_t i = 0; an_accelerator_at(i, &row) && found < 6; i++) {
            if (exact && strncasecmp(row.name, name, 1 + (strlen(name) > 1)))
                continue;
            int length = snprintf(hint + used, bytes - used, "%s%s",
                                  found++ ? ", " : "known are for example ", row.name);
            used += length > 0 && used + (size_t)length < bytes ? (size_t)length : 0;
        }
}

int plan_machine_of(const char *device, const char *type, struct plan_machine *out,
                    struct tacho_error *err)
{
    char hint[200] = "";
    *out = (struct plan_machine){.type = type, .software = {true, true, true, false, 4}};
    if (!an_accelerator_find(device, &out->device)) {
        suggest(device, hint, sizeof hint);
        return tacho_fail(err, TACHO_EUSAGE, hint,
                          "%.80s: no such device in the table of accelerators", device);
    }
    double peak = an_accelerator_peak(&out->device, type);
    if (!(peak > 0))
        return tacho_fail(err, TACHO_EUSAGE, "choose another type with --dtype",
                          "%s: the data sheet has no peak for %s", out->device.name, type);
    out->node = out->device.domain > 1 && out->device.domain < 8 ? (int64_t)out->device.domain : 8;
    if (!strncmp(out->device.name, "GB", 2))
        out->node = (int64_t)out->device.domain;
    if (!strcmp(out->device.family, "tpu"))
        out->node = (int64_t)out->device.domain;
    out->network_bytes_per_s = usual_network(&out->device);
    return 0;
}

/* Messages between processes of a machine are copies in memory: 4 GB/s is what MPI reaches on one
 * or two cores, 12 GB/s what element-wise kernels do. A run corrects both. */
void plan_machine_of_cpu(const char *type, double peak, double memory, int64_t cores, int64_t ranks,
                         struct plan_machine *out)
{
    double share = 1 / (double)(ranks > 0 ? ranks : 1);
    *out = (struct plan_machine){.type = type, .node = ranks, .network_bytes_per_s = 4e9};
    out->threads = 1;
    if (ranks > 0 && cores > ranks)
        out->threads = cores / ranks;
    out->device.bytes_per_s = 12e9 * share;
    out->software = (struct plan_software){true, true, true, true, 4};
    snprintf(out->device.name, sizeof out->device.name, "CPU");
    snprintf(out->device.family, sizeof out->device.family, "cpu");
    snprintf(out->device.dated, sizeof out->device.dated, "measured");
    out->device.source = "measured ceilings of the run";
    out->device.source_length = (int)strlen(out->device.source);
    for (size_t i = 0; i < AN_ACCELERATOR_TYPES; i++)
        out->device.flops[i] = peak * share;
    out->device.bytes = memory * share;
    out->device.link_bytes_per_s = 4e9;
    out->device.domain = (double)ranks;
}

int64_t plan_micro_batches(const struct plan_layout *layout)
{
    int64_t part = layout->data * layout->micro_batch;
    return part > 0 && layout->global_batch > part ? layout->global_batch / part : 1;
}

/* A member that has to divide another, in words. */
static int must_divide(int64_t part, int64_t whole, const char *part_words, const char *whole_words,
                       struct tacho_error *err)
{
    if (part > 0 && whole % part == 0)
        return 0;
    return tacho_fail(err, TACHO_EUSAGE, "change one of the two",
                      "%s (%" PRId64 ") does not divide %s (%" PRId64 ")", part_words, part,
                      whole_words, whole);
}

/* Chunks of a stage: where there are more, the schedule is the interleaved one. */
static int check_chunks(const struct plan_case *of, struct tacho_error *err)
{
    const struct plan_layout *layout = &of->layout;
    if (layout->chunks <= 1)
        return 0;
    if (layout->schedule != PLAN_SCHEDULE_1F1B)
        return tacho_fail(err, TACHO_EUSAGE, "leave one of the two out",
                          "vpp %" PRId64 ": %s has no chunks", layout->chunks,
                          plan_schedule_name(layout->schedule));
    if (layout->pipeline == 1)
        return tacho_fail(err, TACHO_EUSAGE, "give pp too",
                          "vpp %" PRId64 ": without a pipeline there are no chunks",
                          layout->chunks);
    return must_divide(layout->pipeline * layout->chunks, of->model.layers, "pp x vpp",
                       "the layers", err);
}

/* What must divide a sequence, in words. */
static const char *parts_words(const struct plan_case *of)
{
    return plan_sequence_parts(of) > of->layout.context ? "2 x cp" : "cp";
}

/* What the reference engine cannot divide: its models with gates are lists of operations. */
static int check_engine(const struct plan_case *of, struct tacho_error *err)
{
    const struct plan_layout *layout = &of->layout;
    int rc = 0;
    if (!of->machine.software.engine || !of->model.gated)
        return 0;
    if (layout->context > 1)
        rc = tacho_fail(err, TACHO_EUSAGE, "use dp, tp, pp and ep",
                        "cp %" PRId64
                        ": the engine does not divide the sequences of a model with gates",
                        layout->context);
    if (!rc && layout->pipeline > 1 &&
        (layout->chunks > 1 || layout->schedule == PLAN_SCHEDULE_ZERO))
        rc = tacho_fail(err, TACHO_EUSAGE, "use schedule 1f1b or gpipe without vpp",
                        "the engine's models with gates have neither chunks nor weights passes");
    if (!rc)
        rc = must_divide(layout->tensor, of->model.kv_heads, "tp", "the heads of keys and values",
                         err);
    if (!rc)
        rc = must_divide(layout->expert ? layout->expert : 1, layout->data, "ep",
                         "the replicas of a stage", err);
    return rc;
}

int plan_layout_check(const struct plan_case *of, struct tacho_error *err)
{
    const struct plan_layout *layout = &of->layout;
    const struct plan_model *model = &of->model;
    double inner = (double)layout->tensor * (double)layout->pipeline * (double)layout->context;
    double product = (double)layout->data * inner;
    if (!layout->data && inner >= 1 && layout->devices > 0)
        return tacho_fail(err, TACHO_EUSAGE, "dp x tp x pp x cp must be the number of devices",
                          "tp %" PRId64 " x pp %" PRId64 " x cp %" PRId64
                          " does not divide %" PRId64 " devices",
                          layout->tensor, layout->pipeline, layout->context, layout->devices);
    if (layout->data < 1 || layout->tensor < 1 || layout->pipeline < 1 || layout->context < 1 ||
        product != (double)layout->devices)
        return tacho_fail(err, TACHO_EUSAGE, "dp x tp x pp x cp must be the number of devices",
                          "dp %" PRId64 " x tp %" PRId64 " x pp %" PRId64 " x cp %" PRId64
                          " is not %" PRId64 " devices",
                          layout->data, layout->tensor, layout->pipeline, layout->context,
                          layout->devices);
    int rc = must_divide(layout->tensor, model->heads, "tp", "the attention heads", err);
    if (!rc && layout->pipeline > model->layers)
        rc = tacho_fail(err, TACHO_EUSAGE, "take fewer stages",
                        "pp %" PRId64 " is more than the %" PRId64 " layers", layout->pipeline,
                        model->layers);
    if (!rc)
        rc = check_chunks(of, err);
    if (!rc)
        rc = must_divide(layout->tensor * plan_turners(of), model->heads, "tp x cp",
                         "the attention heads", err);
    if (!rc)
        rc = must_divide(plan_sequence_parts(of), layout->sequence, parts_words(of),
                         "the sequence length", err);
    if (!rc && !model->experts && layout->expert > 1)
        rc = tacho_fail(err, TACHO_EUSAGE, "leave ep out, or give experts=N in the model",
                        "ep %" PRId64 ": the model has no experts", layout->expert);
    if (!rc && model->experts)
        rc = must_divide(layout->expert, model->experts, "ep", "the experts", err);
    if (!rc && model->experts)
        rc = must_divide(layout->expert, layout->devices / layout->pipeline, "ep",
                         "the devices of a stage", err);
    if (!rc)
        rc = check_engine(of, err);
    if (!rc)
        rc = must_divide(layout->data * layout->micro_batch, layout->global_batch,
                         "dp x micro-batch", "the global batch", err);
    return rc;
}

static double doublings(int64_t one, int64_t other)
{
    return one > 0 && other > 0 ? fabs(log2((double)one / (double)other)) : 4;
}

double plan_distance(const struct plan_case *one, const struct plan_case *other)
{
    const struct plan_layout *from = &one->layout, *to = &other->layout;
    double out = 2 * doublings(one->model.width, other->model.width);
    out += doublings(one->model.heads, other->model.heads);
    out += doublings(one->model.layers, other->model.layers);
    out += doublings(from->sequence, to->sequence);
    out += 2 * doublings(from->tensor, to->tensor);
    out += doublings(from->pipeline, to->pipeline);
    out += doublings(from->micro_batch, to->micro_batch);
    out += 0.5 * doublings(from->devices, to->devices);
    out += 0.5 * doublings(from->global_batch, to->global_batch);
    out += 3 * (from->recompute != to->recompute) + (from->zero != to->zero);
    out += 6 * (strcmp(one->machine.device.name, other->machine.device.name) != 0);
    out += 6 * (strcmp(one->machine.type, other->machine.type) != 0);
    return out;
}
