/* SPDX-License-Identifier: Apache-2.0
 *
 * Every layout that can run, each in microseconds, and the best of them.
 */
#include "planner/search/search.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define MICRO_MOST 64

struct search {
    struct plan_case at; /* the layout that is tried */
    const struct plan_layout *given;
    double memory, loader;
    struct plan_search *out;
};

static void keep_best(struct plan_search *out, const struct plan_found *found)
{
    size_t place = out->best_count;
    while (place > 0 && out->best[place - 1].time.seconds > found->time.seconds)
        place--;
    if (place >= PLAN_BEST)
        return;
    size_t moved = (out->best_count < PLAN_BEST ? out->best_count : PLAN_BEST - 1) - place;
    memmove(&out->best[place + 1], &out->best[place], moved * sizeof *found);
    out->best[place] = *found;
    out->best_count += out->best_count < PLAN_BEST;
}

/* The front holds plans that no other beats in time and memory; where it is full, the one closest
 * in memory to its neighbour goes. It is sorted by time. */
static void keep_front(struct plan_search *out, const struct plan_found *found)
{
    size_t kept = 0;
    for (size_t i = 0; i < out->front_count; i++)
        if (out->front[i].time.seconds <= found->time.seconds &&
            out->front[i].memory.needed <= found->memory.needed)
            return;
    for (size_t i = 0; i < out->front_count; i++)
        if (out->front[i].time.seconds < found->time.seconds ||
            out->front[i].memory.needed < found->memory.needed)
            out->front[kept++] = out->front[i];
    out->front_count = kept;
    if (kept == PLAN_BEST) {
        size_t closest = 1;
        double least = INFINITY;
        for (size_t i = 1; i + 1 < kept; i++) {
            double gap = out->front[i - 1].memory.needed / out->front[i].memory.needed;
            if (gap < least) {
                least = gap;
                closest = i;
            }
        }
        memmove(&out->front[closest], &out->front[closest + 1],
                (kept - closest - 1) * sizeof *found);
        kept = --out->front_count;
    }
    size_t place = kept;
    while (place > 0 && out->front[place - 1].time.seconds > found->time.seconds)
        place--;
    memmove(&out->front[place + 1], &out->front[place], (kept - place) * sizeof *found);
    out->front[place] = *found;
    out->front_count++;
}

/* One complete layout: memory first, because most of them do not fit. */
static void try_layout(struct search *search)
{
    struct plan_search *out = search->out;
    struct plan_found found = {.layout = search->at.layout};
    if (search->at.machine.software.engine && plan_layout_check(&search->at, NULL))
        return; /* not every layout is one of the engine */
    out->tried++;
    plan_memory_of(&search->at, &found.memory);
    bool smallest = !out->has_smallest || found.memory.needed < out->smallest.memory.needed;
    if (smallest) {
        out->has_smallest = true;
        out->smallest = found;
    }
    if (search->memory > 0 && found.memory.needed > search->memory)
        return;
    out->fitting++;
    plan_time_of(&search->at, search->loader, &found.time);
    keep_best(out, &found);
    keep_front(out, &found);
}

static void try_states(struct search *search)
{
    const struct plan_layout *given = search->given;
    struct plan_layout *layout = &search->at.layout;
    for (int zero = 0; zero <= 3; zero++) {
        if (given->zero >= 0 && given->zero != zero)
            continue;
        if (given->zero < 0 && (zero == 0 || (zero >= 2 && layout->pipeline > 1)))
            continue; /* sharding states costs nothing; ZeRO-2 and 3 repeat it each micro-batch */
        layout->zero = zero;
        for (int recompute = 0; recompute < PLAN_RECOMPUTES; recompute++) {
            if (given->recompute_given && (int)given->recompute != recompute)
                continue;
            if (!given->recompute_given && recompute == PLAN_RECOMPUTE_SELECTIVE &&
                search->at.machine.software.flash)
                continue; /* fused attention has nothing to recompute */
            layout->recompute = (enum plan_recompute)recompute;
            try_layout(search);
        }
    }
}

/* Micro-batches, and chunks of an interleaved pipeline. */
static void try_batches(struct search *search)
{
    const struct plan_layout *given = search->given;
    struct plan_layout *layout = &search->at.layout;
    for (int64_t micro = 1; micro <= MICRO_MOST; micro *= 2) {
        layout->micro_batch = given->micro_batch ? given->micro_batch : micro;
        if (layout->global_batch % (layout->data * layout->micro_batch) == 0)
            for (int64_t chunks = 1; chunks <= 8; chunks *= 2) {
                layout->chunks = given->chunks ? given->chunks : chunks;
                bool fits = layout->chunks == 1 ||
                            (layout->pipeline > 1 && layout->schedule == PLAN_SCHEDULE_1F1B &&
                             search->at.model.layers % (layout->pipeline * layout->chunks) == 0);
                if (fits)
                    try_states(search);
                if (given->chunks)
                    break;
            }
        if (given->micro_batch)
            break;
    }
}

/* Divisors for the factors of the layout, from 1; `given` fixes one. */
static bool is_factor(int64_t factor, int64_t of, int64_t given)
{
    return given ? factor == given : of % factor == 0;
}

/* Can so many ranks divide each sequence beside so many that divide the layers? */
static bool fits_attention(const struct search *search, int64_t tensor, int64_t context)
{
    struct plan_case at = search->at;
    at.layout.context = context;
    return at.layout.sequence % plan_sequence_parts(&at) == 0 &&
           at.model.heads % (tensor * plan_turners(&at)) == 0;
}

/* Tensor, pipeline, context and expert parallelism; data parallelism is what is left. */
static void try_factors(struct search *search)
{
    const struct plan_layout *given = search->given;
    const struct plan_model *model = &search->at.model;
    struct plan_layout *layout = &search->at.layout;
    int64_t devices = layout->devices, most_tensor = search->at.machine.node;
    for (int64_t tensor = 1; tensor <= devices; tensor *= 2) {
        int64_t t = given->tensor ? given->tensor : tensor;
        if (devices % t == 0 && model->heads % t == 0 && (given->tensor || t <= most_tensor))
            for (int64_t pipeline = 1; pipeline <= devices / t && pipeline <= model->layers;
                 pipeline++)
                for (int64_t context = 1; context <= devices / t / pipeline; context *= 2) {
                    int64_t left = devices / t / pipeline;
                    if (!is_factor(pipeline, devices / t, given->pipeline) ||
                        !is_factor(context, left, given->context) || left % context ||
                        (devices / t) % pipeline || !fits_attention(search, t, context) ||
                        (!given->context && context > 1 && layout->sequence / context < 4096) ||
                        (given->data && left / context != given->data))
                        continue;
                    layout->tensor = t;
                    layout->pipeline = pipeline;
                    layout->context = context;
                    layout->data = left / context;
                    layout->sequence_parallel = given->sequence_parallel;
                    for (int64_t expert = 1; expert <= (model->experts ? model->experts : 1);
                         expert *= 2) {
                        layout->expert = given->expert ? given->expert : expert;
                        if (devices / pipeline % layout->expert == 0 &&
                            (model->experts || layout->expert == 1) &&
                            model->experts % layout->expert == 0)
                            try_batches(search);
                        if (given->expert)
                            break;
                    }
                }
        if (given->tensor)
            break;
    }
}

int plan_search_layouts(const struct plan_case *of, double memory, double loader,
                        struct plan_search *out, struct tacho_error *err)
{
    struct search search = {.at = *of, .given = &of->layout, .loader = loader, .out = out};
    *out = (struct plan_search){0};
    search.memory = memory > 0 ? memory : of->machine.device.bytes;
    try_factors(&search);
    if (!out->tried)
        return tacho_fail(err, TACHO_EUSAGE,
                          "dp x tp x pp x cp must be the devices, tp must divide the heads, dp x "
                          "micro-batch the global batch",
                          "no layout of %" PRId64 " devices can run this model with a global batch "
                          "of %" PRId64,
                          of->layout.devices, of->layout.global_batch);
    return 0;
}

struct plan_limit plan_limit_of(const struct plan_time *time)
{
    static const struct {
        enum plan_part part;
        const char *change;
    } rows[] = {
        {PLAN_PART_TENSOR, "a faster link inside the node, or less tensor parallelism"},
        {PLAN_PART_DATA, "a faster network, or a larger global batch"},
        {PLAN_PART_STAGE, "a faster network, or fewer chunks"},
        {PLAN_PART_BUBBLE, "a larger global batch, more chunks, or fewer stages"},
        {PLAN_PART_EXPERT, "a faster network, or experts inside the node"},
        {PLAN_PART_RECOMPUTE, "more memory: keep activations instead of computing them again"},
        {PLAN_PART_ELEMENTS, "faster memory, or fused kernels"},
        {PLAN_PART_UPDATE, "sharding the optimizer over more ranks"},
        {PLAN_PART_LOADER, "a faster loader"},
        {PLAN_PART_LAUNCH, "larger micro-batches, or CUDA graphs"},
        {PLAN_PART_WAITING, "fewer devices"}};
    struct plan_limit out = {.part = PLAN_PART_PRODUCTS,
                             .change = "a device with a higher peak, or fewer bits"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double share = time->part[rows[i].part] / time->seconds;
        if (share > out.share)
            out = (struct plan_limit){rows[i].part, share, rows[i].change, 0};
    }
    if (out.share < 0.02)
        out =
            (struct plan_limit){PLAN_PART_PRODUCTS, time->part[PLAN_PART_PRODUCTS] / time->seconds,
                                "a device with a higher peak, or fewer bits", 0};
    out.gain = 1 / (1 - out.share / 2) - 1;
    return out;
}
