/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of matrices, as stretches of elements.
 */
#include "libtrain/models/slice.h"

#include "libtrain/base/share.h"

/* Both matrices as lines of which each is divided: all of it by rows, or each row by columns. */
struct lines {
    size_t lines, own, all; /* elements of a line */
    size_t unit;            /* elements that stay together */
};

static struct lines lines_of(const struct lt_weight *own, const struct lt_weight *all)
{
    struct lines lines = {1, (size_t)(own->rows * own->columns), (size_t)(all->rows * all->columns),
                          (size_t)own->columns};
    if (own->columns == all->columns)
        return lines;
    return (struct lines){(size_t)own->rows, (size_t)own->columns, (size_t)all->columns, 1};
}

/* What is called for each stretch, and where the rank's next one begins: a line has all of them one
 * behind the other. */
struct walk {
    void (*run)(void *arg, size_t from, size_t to, size_t count);
    void *arg;
    size_t from;
};

/* The stretches of one line that begins at `to` in the whole array. */
static void walk_line(struct walk *walk, const struct lines *lines, size_t groups, size_t lead,
                      const struct lt_slice *slice, size_t to)
{
    for (size_t group = 0; group < groups; group++) {
        size_t size = (lines->all - lead) / groups + (group == 0 ? lead : 0), first = 0, end = size;
        if (lines->own < lines->all) {
            first = lines->unit * lt_share(size / lines->unit, slice->ranks, slice->rank);
            end = lines->unit * lt_share(size / lines->unit, slice->ranks, slice->rank + 1);
        }
        walk->run(walk->arg, walk->from, to + first, end - first);
        walk->from += end - first;
        to += size;
    }
}

void lt_slice_runs(const struct lt_weight *own, const struct lt_weight *all, int parts,
                   const struct lt_slice *slice,
                   void (*run)(void *arg, size_t from, size_t to, size_t count), void *arg)
{
    struct lines lines = lines_of(own, all);
    struct walk walk = {run, arg, own->first};
    size_t groups = parts > 1 ? (size_t)parts : 1, lead = (size_t)all->lead * lines.unit;
    size_t skip = all->repeat > 1 ? (size_t)slice->first : 0;
    size_t each = own->each > 1 ? (size_t)own->each : 1,
           all_each = all->each > 1 ? (size_t)all->each : 1,
           before = all_each > each ? (size_t)slice->part * each : 0;
    for (size_t matrix = 0; matrix < (size_t)own->repeat; matrix++) {
        size_t block = matrix / each, place = matrix;
        if (slice->each > 0)
            block =
                block / (size_t)slice->each * (size_t)slice->stride + block % (size_t)slice->each;
        if (own->repeat != all->repeat)
            place = (skip + block) * all_each + before + matrix % each;
        for (size_t line = 0; line < lines.lines; line++)
            walk_line(&walk, &lines, groups, lead, slice,
                      all->first + (place * lines.lines + line) * lines.all);
    }
}
