/* SPDX-License-Identifier: Apache-2.0
 *
 * Who holds the memory of a device at its peak: by place in the program, and by what it is for.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/allocator/allocator_private.h"

#define HOLDERS_MOST 10

/* ---- categories ------------------------------------------------------------------------------ */

static const char *const category_names[HISTORY_CATEGORIES] = {
    [HISTORY_OPTIMIZER] = "optimizer",
    [HISTORY_GRADIENTS] = "gradients",
    [HISTORY_ACTIVATIONS] = "activations",
    [HISTORY_PARAMETERS] = "parameters",
    [HISTORY_INPUT] = "input",
    [HISTORY_BEFORE] = "allocated before the history",
    [HISTORY_NO_STACK] = "no stack recorded",
    [HISTORY_OTHER] = "other"};

/* Words of a frame that say what it allocates for; of several rows the first that it has. A word
 * with '/' is part of a path of PyTorch, one with ':' begins or is in the name of a function, any
 * other one is part of the name of a file: folders of the program say nothing. */
static const struct {
    const char *words[7];
    enum history_category category;
} rules[] = {
    {{"/torch/optim/", "optimizer", "adamw", "): zero_grad", "): clip_grad"}, HISTORY_OPTIMIZER},
    {{"/torch/autograd/graph.py", "): backward", "): _engine_run_backward",
      "torch::autograd::Engine", "autograd::generated"},
     HISTORY_GRADIENTS},
    {{"/torch/nn/functional.py", "): forward", "): _call_impl"}, HISTORY_ACTIVATIONS},
    {{"/torch/nn/init.py", "): _apply", "): __init__", "): load_state_dict", "): reset_parameters"},
     HISTORY_PARAMETERS},
    {{"dataloader", "pin_memory", "): collate", "): pin_memory", "): get_batch"}, HISTORY_INPUT},
};
#define RULES (sizeof rules / sizeof *rules)
#define WORDS (sizeof rules[0].words / sizeof *rules[0].words)

/* Is the word in the part of the frame that it is about? Frames are "path/file.py(12): name", those
 * of C++ only a name. */
static bool frame_has(const char *frame, const char *word)
{
    const char *function = strstr(frame, "): "), *file = frame;
    if (strchr(word, ':'))
        return strstr(function ? function : frame, word);
    for (const char *at = frame; function && at < function && !strchr(word, '/'); at++)
        file = *at == '/' ? at + 1 : file;
    const char *found = strstr(file, word);
    return function && found && found < function;
}

static enum history_category category_of_frame(const char *frame)
{
    for (size_t rule = 0; rule < RULES; rule++)
        for (size_t i = 0; i < WORDS && rules[rule].words[i]; i++)
            if (frame_has(frame, rules[rule].words[i]))
                return rules[rule].category;
    return HISTORY_OTHER;
}

enum history_category history_category(const struct an_trace *trace,
                                       const struct history_life *life)
{
    enum history_category category = HISTORY_OTHER;
    int levels = AN_DEPTH_MAX;
    if (life->stack == AN_NONE)
        return life->given ? HISTORY_BEFORE : HISTORY_NO_STACK;
    for (uint32_t stack = life->stack;
         stack != AN_NONE && stack < trace->stack.count && category == HISTORY_OTHER && levels--;
         stack = trace->stack.parent[stack])
        category = category_of_frame(an_trace_name(trace, trace->stack.frame[stack]));
    return category;
}

/* ---- the peak -------------------------------------------------------------------------------- */

void history_peak(const struct history *history, struct an_allocator_device *out)
{
    int64_t now = 0, reserved = 0;
    for (size_t i = 0; i < history->event_count; i++) {
        const struct history_event *event = &history->event[i];
        if (event->kind == HISTORY_FAILED)
            continue;
        const struct history_life *life = &history->life[event->life];
        int64_t bytes = event->kind == HISTORY_END ? -life->bytes : life->bytes;
        if (life->segment)
            reserved += bytes;
        else
            now += bytes;
        if (reserved > out->reserved_peak)
            out->reserved_peak = reserved;
        if (now > out->requested_peak) {
            out->requested_peak = now;
            out->peak_time = life->given ? history->first : event->time;
        }
    }
    out->requested = now;
    out->reserved = reserved;
}

/* ---- holders --------------------------------------------------------------------------------- */

static int holder_order(const void *left, const void *right)
{
    const struct an_holder *first = left, *second = right;
    return AN_COMPARE(second->bytes, first->bytes);
}

struct an_holder *history_keep_holders(struct an_context *context, struct an_holder *holders,
                                       size_t *count, size_t most)
{
    qsort(holders, *count, sizeof *holders, holder_order);
    *count = *count < most ? *count : most;
    struct an_holder *kept = an_arena_copy(context->arena, holders, *count * sizeof *kept);
    for (size_t i = 0; kept && i < *count; i++)
        if (!(kept[i].name = an_arena_text(context->arena, holders[i].name)))
            return NULL;
    return kept;
}

/* What a place of the program holds for each purpose. */
struct place {
    int64_t blocks, bytes[HISTORY_CATEGORIES];
};

static bool at_peak(const struct history_life *life, const struct an_allocator_device *out)
{
    return !life->segment && (life->given || life->start <= out->peak_time) &&
           life->end > out->peak_time;
}

/* A holder of all bytes of a place, with the category that most of them are for. */
static struct an_holder holder_of(const char *name, const struct place *place)
{
    struct an_holder holder = {.name = name, .blocks = place->blocks};
    size_t most = 0;
    for (size_t i = 0; i < HISTORY_CATEGORIES; i++) {
        holder.bytes += place->bytes[i];
        most = place->bytes[i] > place->bytes[most] ? i : most;
    }
    holder.category = category_names[most];
    return holder;
}

int history_holders(struct an_context *context, const struct history *history,
                    struct an_allocator_device *out)
{
    const struct an_trace *trace = context->trace;
    struct place *places = calloc(trace->string_count + 1, sizeof *places);
    struct an_holder *holders = calloc(trace->string_count + 1, sizeof *holders);
    struct an_holder categories[HISTORY_CATEGORIES] = {{0}};
    for (size_t i = 0; places && holders && i < history->life_count; i++) {
        const struct history_life *life = &history->life[i];
        if (!at_peak(life, out) || life->name >= trace->string_count)
            continue;
        enum history_category category = history_category(trace, life);
        places[life->name].bytes[category] += life->bytes;
        places[life->name].blocks++;
        categories[category].bytes += life->bytes;
        categories[category].blocks++;
    }
    for (size_t i = 0; places && holders && i < trace->string_count; i++)
        if (places[i].blocks)
            holders[out->holder_count++] = holder_of(trace->string[i], &places[i]);
    for (size_t i = 0; i < HISTORY_CATEGORIES; i++) {
        categories[i].name = categories[i].category = category_names[i];
        if (categories[i].blocks)
            categories[out->category_count++] = categories[i];
    }
    if (places && holders) {
        out->holder = history_keep_holders(context, holders, &out->holder_count, HOLDERS_MOST);
        out->category =
            history_keep_holders(context, categories, &out->category_count, HISTORY_CATEGORIES);
    }
    free(places);
    free(holders);
    return out->holder && out->category ? 0 : TACHO_ENOMEM;
}
