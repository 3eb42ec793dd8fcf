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

void lt_slice_runs(const struct lt_weight *own, const struct lt_weight *all, int parts,
                   const struct lt_slice *slice,
                   void (*run)(void *arg, size_t from, size_t to, size_t count), void *arg)
{
    struct lines lines = lines_of(own, all);
    size_t groups = parts > 1 ? (size_t)parts : 1;
    size_t skip = all->repeat > 1 ? (size_t)slice->first : 0;
    size_t each = own->each > 1 ? (size_t)own->each : 1,
           all_each = all->each > 1 ? (size_t)all->each : 1,
           before = all_each > each ? (size_t)slice->part * each : 0;
    size_t own_group = lines.own / groups, all_group = lines.all / groups, offset = 0;
    if (lines.own < lines.all)
        offset = lines.unit * lt_share(all_group / lines.unit, slice->ranks, slice->rank);
    for (size_t matrix = 0; matrix < (size_t)own->repeat; matrix++) {
        size_t block = matrix / each, place = matrix;
        if (slice->each > 0)
            block =
                block / (size_t)slice->each * (size_t)slice->stride + block % (size_t)slice->each;
        if (own->repeat != all->repeat)
            place = (skip + block) * all_each + before + matrix % each;
        for (size_t line = 0; line < lines.lines; line++)
            for (size_t group = 0; group < groups; group++)
                run(arg, own->first + (matrix * lines.lines + line) * lines.own + group * own_group,
                    all->first + (place * lines.lines + line) * lines.all + group * all_group +
                        offset,
                    own_group);
    }
}
