/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of Python from stacks of frames: whose a frame is, and which line of the program a stack
 * ends in.
 */
#include "analyzers/pictures/python_lines.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MOST 1024 /* frames of a stack that are followed */

bool an_python_label(struct an_context *context, const char *label, struct an_python_line *line)
{
    const char *colon = strrchr(label, ':'), *open = NULL;
    for (const char *at = strstr(label, " ("); at && !open; at = strstr(at + 1, " ("))
        open = at;
    if (!open || !colon || colon < open)
        return false;
    line->function = an_arena_format(context->arena, "%.*s", (int)(open - label), label);
    line->file = an_arena_format(context->arena, "%.*s", (int)(colon - open - 2), open + 2);
    line->line = strtoll(colon + 1, NULL, 10);
    return line->function && line->file && line->line >= 0 && line->line <= INT32_MAX;
}

/* Is the file of the program itself: none of Python's library, of an installed package, of tacho,
 * or without a name? */
static bool is_program(const char *label)
{
    static const char *const other[] = {"/site-packages/", "/dist-packages/", "/tacho-python/",
                                        " (<frozen",       " (<string>",      " (<attrs"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (strstr(label, other[i]))
            return false;
    const char *library = strstr(label, "/lib/python3");
    return strchr(label, '(') && !(library && strchr(library + 1, '/'));
}

/* Is the file of a framework whose operators compute? Time there is the model's, recorded or not:
 * between the ranges of the hook, and of modules that it leaves out. Logging is not. */
static bool is_framework(const char *label)
{
    if (strstr(label, "/torch/utils/tensorboard/"))
        return false;
    static const char *const package[] = {
        "/torch/", "/jax/", "/jaxlib/", "/tacho_hook/",
        /* loops around PyTorch and JAX, and their models */
        "/transformers/trainer", "/transformers/model", "/accelerate/", "/pytorch_lightning/",
        "/lightning/", "/lightning_fabric/", "/deepspeed/", "/torchtitan/", "/flax/", "/optax/"};
    const char *packages = strstr(label, "-packages");
    for (size_t i = 0; packages && i < sizeof package / sizeof *package; i++)
        if (!strncmp(packages + strlen("-packages"), package[i], strlen(package[i])))
            return true;
    return strstr(label, "/tacho-python/") != NULL;
}

int an_python_sums_make(struct an_python_sums *sums, size_t names)
{
    *sums = (struct an_python_sums){.line = calloc(names, sizeof *sums->line),
                                    .seen = calloc(names, sizeof *sums->seen),
                                    .kind = calloc(names, sizeof *sums->kind),
                                    .loss = calloc(names, sizeof *sums->loss)};
    return sums->line && sums->seen && sums->kind && sums->loss ? 0 : TACHO_ENOMEM;
}

void an_python_sums_free(struct an_python_sums *sums)
{
    free(sums->line);
    free(sums->seen);
    free(sums->kind);
    free(sums->loss);
}

/* Where a loader of PyTorch makes a batch, in whatever process: what lies inside is the data set's.
 */
#define FETCH "/torch/utils/data/_utils/fetch.py:"

enum an_python_kind an_python_kind(const struct an_trace *trace, struct an_python_sums *sums,
                                   uint32_t name)
{
    const char *label = an_trace_name(trace, name);
    if (sums->kind[name] == AN_PYTHON_NOT_KNOWN && strstr(label, FETCH))
        sums->kind[name] = AN_PYTHON_LOADER;
    else if (sums->kind[name] == AN_PYTHON_NOT_KNOWN && is_program(label))
        sums->kind[name] = AN_PYTHON_PROGRAM;
    else if (sums->kind[name] == AN_PYTHON_NOT_KNOWN)
        sums->kind[name] = is_framework(label) ? AN_PYTHON_FRAMEWORK : AN_PYTHON_OTHER;
    return (enum an_python_kind)sums->kind[name];
}

/* The file of a label: "/path/file.py:line)" with its length up to the line. */
static const char *file_of(const char *label, size_t *length)
{
    const char *open = strstr(label, " ("), *colon = strrchr(label, ':');
    *length = open && colon && colon > open ? (size_t)(colon - open) : 0;
    return open;
}

/* Is the frame a piece of the function that called it: a generator, a comprehension or a lambda of
 * the same file? */
static bool is_piece(const struct an_trace *trace, uint32_t stack)
{
    static const char *const piece[] = {"<genexpr> (", "<listcomp> (", "<dictcomp> (",
                                        "<setcomp> (", "<lambda> ("};
    uint32_t parent = trace->stack.parent[stack];
    const char *label = an_trace_name(trace, trace->stack.frame[stack]);
    bool found = false;
    for (size_t i = 0; i < sizeof piece / sizeof *piece && !found; i++)
        found = strstr(label, piece[i]) != NULL;
    if (!found || parent == AN_NONE)
        return false;
    size_t own, other;
    const char *file = file_of(label, &own);
    const char *around = file_of(an_trace_name(trace, trace->stack.frame[parent]), &other);
    return own && own == other && !strncmp(file, around, own);
}

void an_python_add_stack(const struct an_trace *trace, struct an_python_sums *sums, uint32_t stack,
                         const struct an_python_counts *counts, bool of_worker)
{
    const struct an_stacks *stacks = &trace->stack;
    struct an_python_line *inside = NULL; /* the program's line, until the loader is met */
    bool has_own = false, in_framework = false;
    int depth = 0;
    for (uint32_t at = stack; at != AN_NONE && depth < DEPTH_MOST; at = stacks->parent[at]) {
        uint32_t name = stacks->frame[at];
        if (name == AN_NONE)
            continue;
        struct an_python_line *line = &sums->line[name];
        if (!depth++)
            line->self += counts->all[stack];
        enum an_python_kind kind = an_python_kind(trace, sums, name);
        in_framework = in_framework || kind == AN_PYTHON_FRAMEWORK || kind == AN_PYTHON_LOADER;
        if (kind == AN_PYTHON_LOADER && inside) {
            inside->fetch += counts->fetch[stack];
            inside = NULL;
        }
        if (kind == AN_PYTHON_LOADER && of_worker)
            has_own = true;
        if (!has_own && kind == AN_PYTHON_PROGRAM && !is_piece(trace, at)) {
            has_own = true;
            inside = line;
            line->own += counts->all[stack];
            line->host += counts->host[stack];
            line->plain += in_framework ? 0 : counts->plain[stack];
            line->asleep += in_framework ? 0 : counts->asleep[stack];
            sums->loss[name] += in_framework ? 0 : counts->loss[stack];
        }
        if (sums->seen[name] == stack + 1)
            continue;
        sums->seen[name] = stack + 1;
        line->total += counts->all[stack];
        line->busy += counts->all[stack] - counts->host[stack];
    }
}
