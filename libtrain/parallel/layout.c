/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts: their text, and the groups of ranks that follow from them.
 */
#include "libtrain/parallel/layout.h"

#include <stdlib.h>
#include <string.h>

/* One factor, "dp2"; *text moves behind it. False: it is none. */
static int read_factor(struct lt_layout *layout, const char **text)
{
    const char *name = *text;
    char *end = NULL;
    int *factor = NULL;
    if (strncmp(name, "dp", 2) == 0)
        factor = &layout->dp;
    else if (strncmp(name, "pp", 2) == 0)
        factor = &layout->pp;
    else if (strncmp(name, "tp", 2) == 0)
        factor = &layout->tp;
    else if (strncmp(name, "cp", 2) == 0)
        factor = &layout->cp;
    else if (strncmp(name, "ep", 2) == 0)
        factor = &layout->ep;
    if (!factor || *factor || name[2] < '1' || name[2] > '9')
        return 0;
    long value = strtol(name + 2, &end, 10);
    if (value > 4096 || (*end && *end != '.') || (*end == '.' && !end[1]))
        return 0;
    *factor = (int)value;
    *text = *end ? end + 1 : end;
    return 1;
}

int lt_context_find(const char *name)
{
    static const char *const names[LT_CONTEXT_COUNT] = {
#define ROW(id, name) [LT_CONTEXT_##id] = (name),
        LT_CONTEXT_MAP(ROW)
#undef ROW
    };
    for (int i = 0; i < LT_CONTEXT_COUNT; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

/* What divides experts does not go beside what divides sequences. */
static int check_beside(const struct lt_layout *layout, const char *text, struct tacho_error *err)
{
    if (layout->ep > 1 && layout->cp > 1)
        return tacho_fail(
            err, TACHO_EUSAGE, "use dp, tp and pp beside ep",
            "--layout %s: not ep with cp: capacity and balance loss of the experts need "
            "all rows of a micro-batch, and with cp no rank has them",
            text);
    return 0;
}

int lt_layout_parse(struct lt_layout *out, const char *text, int rank, int ranks,
                    struct tacho_error *err)
{
    const char *rest = text ? text : "";
    int sound = !text || *text;
    *out = (struct lt_layout){0};
    while (sound && *rest)
        sound = read_factor(out, &rest);
    if (!sound)
        return tacho_fail(
            err, TACHO_EUSAGE,
            "factors dp (replicas), tp (parts of layers), pp (stages), cp (parts "
            "of sequences) and ep (parts of the experts), joined by dots: dp2.tp2.pp2",
            "--layout %s: not understood", text);
    if (!text)
        out->dp = ranks;
    out->dp = out->dp ? out->dp : 1;
    out->pp = out->pp ? out->pp : 1;
    out->tp = out->tp ? out->tp : 1;
    out->cp = out->cp ? out->cp : 1;
    out->ep = out->ep ? out->ep : 1;
    int rc = check_beside(out, text, err);
    if (rc)
        return rc;
    int copy = rank / out->tp; /* and, from the second stage on, those of the stages before */
    out->part = rank % out->tp;
    out->expert = copy % out->ep;
    out->context = copy / out->ep % out->cp;
    out->replica = copy / out->ep / out->cp % out->dp;
    out->stage = copy / lt_layout_copies(out);
    int64_t needed = (int64_t)out->dp * out->pp * out->tp * out->cp * out->ep;
    if (needed == ranks)
        return 0;
    return tacho_fail(err, TACHO_EUSAGE, "the factors multiply to the ranks that mpirun -np starts",
                      "--layout %s: needs %lld rank%s, there %s %d", text, (long long)needed,
                      tacho_plural(needed), ranks == 1 ? "is" : "are", ranks);
}

struct lt_layout_blocks lt_layout_blocks(const struct lt_layout *layout, int stage, int64_t blocks)
{
    int64_t first = (int64_t)lt_group_chunk((size_t)blocks, layout->pp, stage),
            end = (int64_t)lt_group_chunk((size_t)blocks, layout->pp, stage + 1);
    return (struct lt_layout_blocks){first, end - first};
}

/* The exchange of a group whose ranks are neighbours in another one. */
static void exchange(void *arg, int to, const void *out, size_t out_bytes, int from, void *in,
                     size_t in_bytes)
{
    const struct lt_axis *axis = arg;
    if (to >= 0)
        to = axis->first + to * axis->stride;
    if (from >= 0)
        from = axis->first + from * axis->stride;
    axis->world->exchange(axis->world->arg, to, out, out_bytes, from, in, in_bytes);
}

struct lt_group lt_layout_replicas(const struct lt_layout *layout, const struct lt_group *world,
                                   struct lt_axis *axis)
{
    *axis =
        (struct lt_axis){world, lt_layout_rank(layout, layout->stage, 0, layout->part), layout->tp};
    return (struct lt_group){.rank = lt_layout_copy(layout),
                             .ranks = lt_layout_copies(layout),
                             .exchange = exchange,
                             .arg = axis};
}

struct lt_group lt_layout_parts(const struct lt_layout *layout, const struct lt_group *world,
                                struct lt_axis *axis)
{
    *axis = (struct lt_axis){world,
                             lt_layout_rank(layout, layout->stage, lt_layout_copy(layout), 0), 1};
    return (struct lt_group){
        .rank = layout->part, .ranks = layout->tp, .exchange = exchange, .arg = axis};
}

struct lt_group lt_layout_experts(const struct lt_layout *layout, const struct lt_group *world,
                                  struct lt_axis *axis)
{
    int first = lt_layout_copy(layout) - layout->expert;
    *axis = (struct lt_axis){world, lt_layout_rank(layout, layout->stage, first, layout->part),
                             layout->tp};
    return (struct lt_group){
        .rank = layout->expert, .ranks = layout->ep, .exchange = exchange, .arg = axis};
}

struct lt_group lt_layout_contexts(const struct lt_layout *layout, const struct lt_group *world,
                                   struct lt_axis *axis)
{
    int first = lt_layout_copy(layout) - layout->context;
    *axis = (struct lt_axis){world, lt_layout_rank(layout, layout->stage, first, layout->part),
                             layout->tp};
    return (struct lt_group){
        .rank = layout->context, .ranks = layout->cp, .exchange = exchange, .arg = axis};
}

struct lt_group lt_layout_owners(const struct lt_layout *layout, const struct lt_group *world,
                                 struct lt_axis *axis)
{
    *axis =
        (struct lt_axis){world, lt_layout_rank(layout, layout->stage, layout->expert, layout->part),
                         layout->ep * layout->tp};
    return (struct lt_group){
        .rank = layout->replica, .ranks = layout->dp, .exchange = exchange, .arg = axis};
}
