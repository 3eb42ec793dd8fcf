/* SPDX-License-Identifier: Apache-2.0
 *
 * Where in a timeline a finding is seen: of one that speaks of a class of time the longest
 * innermost event of that class in the typical step, by its name where the finding is about some of
 * them; of one that speaks of ranks the step of the rank that holds the others back.
 */
#include <string.h>

#include "analyzers/pictures/events_private.h"

#define OF_RANKS AN_CLASS_COUNT /* not a class: the finding is about a rank */

/* What a finding is about, by its id: a class of time and, where only some events of that class are
 * meant, two words of which their names have one. */
static const struct subject {
    const char *id;
    int what;
    const char *word, *other;
} subjects[] = {
    {"INPUT_STALL", AN_CLASS_INPUT, NULL, NULL},
    {"EXPOSED_COMM", AN_CLASS_COMM, NULL, NULL},
    {"DDP_SYNC_EACH_MICROSTEP", AN_CLASS_COMM, NULL, NULL},
    {"EXPERT_IMBALANCE", AN_CLASS_COMM, NULL, NULL},
    {"EXPOSED_COPY", AN_CLASS_COPY, NULL, NULL},
    {"PAGEABLE_COPY", AN_CLASS_COPY, NULL, NULL},
    {"LOW_PRECISION", AN_CLASS_COMPUTE, "gemm", "matmul"},
    {"LOW_EFFICIENCY_GEMM", AN_CLASS_COMPUTE, "gemm", "matmul"},
    {"LOW_INTENSITY", AN_CLASS_COMPUTE, NULL, NULL},
    {"UNFUSED_ATTENTION", AN_CLASS_COMPUTE, "softmax", "attention"},
    {"FUSION", AN_CLASS_COMPUTE, "elementwise", "layer_norm"},
    {"IDLE_CORES", AN_CLASS_COMPUTE, NULL, NULL},
    {"SMALL_BATCH", AN_CLASS_COMPUTE, NULL, NULL},
    {"SMALL_BATCH_HOST", AN_CLASS_COMPUTE, NULL, NULL},
    {"SMALL_KERNELS", AN_CLASS_COMPUTE, NULL, NULL},
    {"LAUNCH_BOUND", AN_CLASS_HOST, "Launch", "Graph"},
    {"HOST_BOUND", AN_CLASS_HOST, NULL, NULL},
    {"PYTHON_HOST", AN_CLASS_HOST, NULL, NULL},
    {"SYNC_STALL", AN_CLASS_HOST, "Synchronize", "item"},
    {"SYNC_ITEM", AN_CLASS_HOST, "Synchronize", "item"},
    {"PIPELINE_IMBALANCE", AN_CLASS_BUBBLE, NULL, NULL},
    {"STRAGGLER", OF_RANKS, NULL, NULL},
    {"SLOW_STAGE", OF_RANKS, NULL, NULL},
    {"RANK_JITTER", OF_RANKS, NULL, NULL},
    {"UNEVEN_DATA", OF_RANKS, NULL, NULL},
};

static const struct subject *subject_of(const struct an_finding *finding)
{
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        if (!strcmp(finding->id, subjects[i].id))
            return &subjects[i];
    return NULL;
}

static bool is_meant(const struct an_events *events, const struct subject *subject,
                     const struct an_event *event)
{
    const char *name = events->kind[event->kind].name;
    return event->what == (uint32_t)subject->what &&
           (!subject->word || strstr(name, subject->word) || strstr(name, subject->other));
}

/* Has no event nested in it: the next one of its track begins after its end. */
static bool is_innermost(const struct an_event_track *track, size_t i)
{
    return i + 1 == track->count ||
           track->event[i + 1].start_ns >= track->event[i].start_ns + track->event[i].dur_ns;
}

/* Finds the longest innermost event that is meant in [from, to) of the window; false: there is
 * none. */
static bool mark_event(const struct an_events *events, const struct subject *subject, int64_t from,
                       int64_t to, struct an_event_mark *mark)
{
    mark->dur_ns = 0;
    for (size_t k = 0; k < events->track_count; k++) {
        const struct an_event_track *track = &events->track[k];
        for (size_t i = 0; i < track->count && track->event[i].start_ns < to; i++) {
            const struct an_event *event = &track->event[i];
            if (event->start_ns >= from && event->dur_ns > mark->dur_ns &&
                is_meant(events, subject, event) && is_innermost(track, i)) {
                mark->track = k;
                mark->start_ns = event->start_ns;
                mark->dur_ns = event->dur_ns;
            }
        }
    }
    return mark->dur_ns > 0;
}

/* The step of the first rank of the picture, the one that holds the others back, with the index of
 * the typical step. */
static bool mark_rank(const struct an_events_work *work, struct an_event_mark *mark)
{
    const struct an_events *events = &work->context->result->events;
    for (size_t i = 0; i < events->step_count && work->typical; i++)
        if (events->step[i].rank == work->rank[0].rank &&
            events->step[i].index == work->typical->index) {
            mark->track = 0;
            mark->start_ns = events->step[i].start_ns;
            mark->dur_ns = events->step[i].dur_ns;
            return true;
        }
    return false;
}

int an_events_marks(struct an_events_work *work)
{
    const struct an_result *result = work->context->result;
    struct an_events *events = &work->context->result->events;
    struct an_event_mark *out =
        an_arena_zero(work->context->arena, result->finding_count, sizeof *out);
    int64_t from = 0, to = events->window_ns;
    if (!out)
        return TACHO_ENOMEM;
    if (work->typical) {
        from = work->typical->start - work->t0;
        to = work->typical->end - work->t0;
    }
    for (size_t i = 0; i < result->finding_count; i++) {
        struct an_event_mark mark = {.finding = i};
        const struct subject *subject = subject_of(&result->findings[i]);
        if (subject && (subject->what == OF_RANKS ? mark_rank(work, &mark)
                                                  : mark_event(events, subject, from, to, &mark)))
            out[events->mark_count++] = mark;
    }
    events->mark = out;
    return 0;
}
