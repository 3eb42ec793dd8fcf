/* SPDX-License-Identifier: Apache-2.0
 *
 * The distinct stacks of a run: of ranges that nest (self time in ns: what no slice nested in it
 * covers), or of sampled call stacks (a sample counts as its period).
 */
#include <stdlib.h>
#include <string.h>

#include "store/export/stacks.h"

static uint32_t slot_of(const struct exp_stack_tree *tree, uint32_t parent, uint32_t name,
                        uint32_t track)
{
    uint64_t hash =
        ((uint64_t)parent << 32 | name) * 0x9e3779b97f4a7c15ull + track * 0xc2b2ae3d27d4eb4full;
    hash ^= hash >> 29;
    hash *= 0xbf58476d1ce4e5b9ull;
    for (uint32_t index = (uint32_t)(hash >> 32) & (tree->slots - 1);;
         index = (index + 1) & (tree->slots - 1)) {
        const struct exp_stack *node =
            tree->slot[index] ? &tree->node[tree->slot[index] - 1] : NULL;
        if (!node || (node->parent == parent && node->name == name && node->track == track))
            return index;
    }
}

static int grow(struct exp_stack_tree *tree)
{
    uint32_t cap = tree->cap ? 2 * tree->cap : 1024;
    struct exp_stack *node = cap < UINT32_MAX / 4 ? realloc(tree->node, cap * sizeof *node) : NULL;
    if (!node)
        return TACHO_ENOMEM;
    tree->node = node;
    uint32_t *slot = calloc(2 * (size_t)cap, sizeof *slot);
    if (!slot)
        return TACHO_ENOMEM;
    free(tree->slot);
    tree->cap = cap;
    tree->slot = slot;
    tree->slots = 2 * cap;
    for (uint32_t i = 0; i < tree->count; i++)
        tree->slot[slot_of(tree, tree->node[i].parent, tree->node[i].name, tree->node[i].track)] =
            i + 1;
    return 0;
}

/* Finds or adds the child of a node with a name. */
static int find(struct exp_stack_tree *tree, uint32_t parent, uint32_t name, uint32_t track,
                uint32_t *out)
{
    uint32_t depth = parent == EXP_NONE ? 0 : tree->node[parent].depth + 1;
    if (depth == EXP_STACK_MOST) {
        *out = parent;
        return 0;
    }
    if (tree->count == tree->cap && grow(tree))
        return TACHO_ENOMEM;
    uint32_t index = slot_of(tree, parent, name, track);
    if (!tree->slot[index]) {
        tree->node[tree->count] =
            (struct exp_stack){.parent = parent, .name = name, .track = track, .depth = depth};
        tree->slot[index] = ++tree->count;
    }
    *out = tree->slot[index] - 1;
    return 0;
}

/* Time of each slice inside the window goes to its stack and is taken from the one around it. A
 * slice that never ended is a frame without a time of its own. */
static int add_track(struct exp_stack_tree *tree, const struct exp_run *run,
                     const struct exp_track *track, uint32_t *node_of)
{
    struct exp_lanes lanes = {0};
    int code = 0;
    for (size_t i = track->first; !code && i < track->first + track->count; i++) {
        const struct exp_slice *slice = &run->slice[i];
        size_t parent;
        int64_t lane = exp_lane_put(&lanes, run, i, &parent);
        if (lane < 0) {
            code = (int)lane;
            break;
        }
        uint32_t above = parent == SIZE_MAX ? EXP_NONE : node_of[parent - track->first], node;
        code = find(tree, above, slice->name, (uint32_t)(track - run->track), &node);
        if (code)
            break;
        node_of[i - track->first] = node;
        if (slice->end == INT64_MAX)
            continue;
        int64_t start = slice->start > run->t0 ? slice->start : run->t0;
        int64_t end = slice->end < run->t1 ? slice->end : run->t1;
        int64_t dur = end > start ? end - start : 0;
        if (node == above) /* too deep: its time is that of the frame around it already */
            continue;
        tree->node[node].self += dur;
        if (above != EXP_NONE && run->slice[parent].end != INT64_MAX)
            tree->node[above].self -= dur;
    }
    exp_lanes_free(&lanes);
    return code;
}

size_t exp_stack_frames(const struct exp_stack_tree *tree, uint32_t stack,
                        uint32_t name[EXP_STACK_MOST])
{
    size_t depth = 0;
    for (uint32_t node = stack; node != EXP_NONE; node = tree->node[node].parent)
        name[depth++] = tree->node[node].name;
    return depth;
}

static int add_ranges(struct exp_stack_tree *tree, const struct exp_run *run)
{
    size_t most = 0;
    for (size_t i = 0; i < run->track_count; i++)
        most = run->track[i].count > most ? run->track[i].count : most;
    uint32_t *node_of = calloc(most ? most : 1, sizeof *node_of);
    int code = node_of ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; !code && i < run->track_count; i++)
        code = add_track(tree, run, &run->track[i], node_of);
    free(node_of);
    return code;
}

/* ---- sampled call stacks ------------------------------------------------------------------------------------------------------ */

struct samples {
    struct exp_run *run;
    struct exp_stack_tree *tree;
    uint32_t *frame, *parent; /* of stack id - 1; EXP_NONE: no name, the outermost */
    size_t count, cap;
    int64_t period;
    const char *kind; /* of the tracks */
    int code;
};

/* Keeps a call stack: its frame and its parent. Ids are dense from 1; what is not is damage. */
static int on_stack(void *ctx, const struct store_stack *stack)
{
    struct samples *samples = ctx;
    if (stack->id != (int64_t)samples->count + 1 || samples->count >= EXP_NONE - 1)
        return 0;
    if (samples->count == samples->cap) {
        size_t cap = samples->cap ? 2 * samples->cap : 1024;
        uint32_t *frame = realloc(samples->frame, cap * sizeof *frame), *parent = NULL;
        samples->frame = frame ? frame : samples->frame;
        parent = frame ? realloc(samples->parent, cap * sizeof *parent) : NULL;
        if (!parent)
            return samples->code = TACHO_ENOMEM;
        samples->parent = parent;
        samples->cap = cap;
    }
    samples->frame[samples->count] =
        stack->frame >= 0 && stack->frame < (int64_t)samples->run->text_count
            ? (uint32_t)stack->frame
            : EXP_NONE;
    samples->parent[samples->count++] =
        stack->parent >= 1 && stack->parent < stack->id ? (uint32_t)(stack->parent - 1) : EXP_NONE;
    return 0;
}

/* Adds the time of a sample to the node of its stack. */
static int on_sample(void *ctx, const struct store_sample *sample)
{
    struct samples *samples = ctx;
    uint32_t path[EXP_STACK_MOST], depth = 0, track = exp_track_at(samples->run, sample->track),
                                   node = EXP_NONE;
    if (sample->time < samples->run->t0 || sample->time >= samples->run->t1 || track == EXP_NONE ||
        sample->stack < 1 || (uint64_t)sample->stack > samples->count ||
        strcmp(samples->run->track[track].kind, samples->kind) != 0)
        return 0;
    for (uint32_t i = (uint32_t)(sample->stack - 1); i != EXP_NONE && depth < EXP_STACK_MOST;
         i = samples->parent[i])
        path[depth++] = i;
    while (depth && !samples->code)
        samples->code = find(samples->tree, node, samples->frame[path[--depth]], track, &node);
    if (!samples->code)
        samples->tree->node[node].self += samples->period;
    return samples->code;
}

/* ns that a sample stands for; 1 where the file does not say. */
static int64_t period_of(const struct exp_run *run, bool python)
{
    const char *text = exp_run_value(run, python ? "python.hz" : "stacks.period_ns");
    int64_t number = text ? strtoll(text, NULL, 10) : 0;
    if (python)
        return number > 0 && number <= 1000000000 ? 1000000000 / number : 1;
    return number > 0 && number <= 1000000000000 ? number : 1;
}

/* Why there is nothing to write, by the run key that says how it was sampled. */
static int nothing(const struct samples *samples, const char *key, struct tacho_error *err)
{
    const char *state = exp_run_value(samples->run, key);
    if (!state)
        return tacho_fail(err, TACHO_ENOTFOUND, "record with: tacho run --stacks -- COMMAND",
                          "no call stacks were sampled in this run");
    if (!strncmp(state, "sampled", 7))
        return tacho_fail(err, TACHO_ENOTFOUND,
                          "more samples: tacho run --stacks-hz 1000 -- COMMAND",
                          "the target used too little CPU time for a call stack");
    return tacho_fail(err, TACHO_ENOTFOUND, "'tacho doctor' shows what is missing",
                      "call stacks: %.300s", state);
}

/* Is there a track of the kind that is wanted? */
static bool has_track(const struct samples *samples)
{
    for (size_t i = 0; i < samples->run->track_count; i++)
        if (!strcmp(samples->run->track[i].kind, samples->kind))
            return true;
    return false;
}

/* Adds the samples of the CPU time, or the looks at Python. */
static int add_samples(struct exp_stack_tree *tree, struct exp_run *run, store_reader *reader,
                       bool python, struct tacho_error *err)
{
    struct samples samples = {.run = run, .tree = tree, .kind = "samples"};
    const char *key = "stacks";
    if (python)
        samples.kind = key = "python";
    samples.period = tree->period = period_of(run, python);
    int code = store_stack_each(reader, 1, on_stack, &samples);
    if (!code && !samples.code && (!samples.count || !has_track(&samples)))
        code = nothing(&samples, key, err);
    if (!code && !samples.code)
        code = store_sample_each(reader, 0, on_sample, &samples);
    free(samples.frame);
    free(samples.parent);
    return samples.code ? samples.code : code;
}

int exp_stacks_of(store_reader *reader, const struct store_export_options *options, FILE *out,
                  enum exp_stacks_kind kind, exp_stacks_print *print, struct tacho_error *err)
{
    struct exp_run run;
    struct exp_stack_tree tree = {0};
    int code = exp_run_load(reader, options, &run, err);
    if (code)
        return code;
    if (kind == EXP_STACKS_RANGES)
        code = add_ranges(&tree, &run);
    else
        code = add_samples(&tree, &run, reader, kind == EXP_STACKS_PYTHON, err);
    if (!code)
        code = print(out, &run, &tree);
    if (code && code != TACHO_ENOTFOUND)
        tacho_fail(err, code, NULL, "%s", tacho_error_text(code));
    free(tree.node);
    free(tree.slot);
    exp_run_free(&run);
    return exp_end(out, code, err);
}
