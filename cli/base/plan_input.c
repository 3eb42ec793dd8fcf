/* SPDX-License-Identifier: Apache-2.0
 *
 * Models, layouts and runs for the planner.
 */
#include "cli/base/plan_input.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "cli/base/options.h"

#define LARGEST 1000000 /* of any number in a layout */

int cli_plan_model(const char *text, struct plan_model *out)
{
    struct tacho_error err = {0};
    int rc;
    if (strchr(text, '='))
        rc = plan_model_dimensions(text, out, &err);
    else if (strchr(text, '/') || cli_has_suffix(text, ".json") || !access(text, F_OK))
        rc = plan_model_config(text, out, &err);
    else
        rc = plan_model_preset(text, out, &err);
    return rc ? cli_fail(&err) : 0;
}

/* Members of a layout by their words. */
static const struct member {
    const char *word;
    size_t offset;
} members[] = {{"gpus", offsetof(struct plan_layout, devices)},
               {"dp", offsetof(struct plan_layout, data)},
               {"tp", offsetof(struct plan_layout, tensor)},
               {"pp", offsetof(struct plan_layout, pipeline)},
               {"vpp", offsetof(struct plan_layout, chunks)},
               {"cp", offsetof(struct plan_layout, context)},
               {"ep", offsetof(struct plan_layout, expert)},
               {"mbs", offsetof(struct plan_layout, micro_batch)},
               {"batch", offsetof(struct plan_layout, global_batch)},
               {"seq", offsetof(struct plan_layout, sequence)}};

/* Sets a member that is a number. false: no member has this word, or the number is none. */
static bool set_number(struct plan_layout *layout, const char *word, const char *text)
{
    double value;
    if (!cli_parse_scaled(text, 1000, &value) || value < 0 || value > LARGEST ||
        value != floor(value))
        return false;
    if (!strcmp(word, "zero") && value <= 3) {
        layout->zero = (int)value;
        return true;
    }
    if (!strcmp(word, "sp") && value <= 1) {
        layout->sequence_parallel = value > 0;
        return true;
    }
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (!strcmp(members[i].word, word) && value >= 1) {
            *(int64_t *)(void *)((char *)layout + members[i].offset) = (int64_t)value;
            return true;
        }
    return false;
}

static bool set_word(struct plan_layout *layout, const char *word, const char *text)
{
    int value;
    if (!strcmp(word, "recompute") && (value = plan_recompute_of(text)) >= 0) {
        layout->recompute = (enum plan_recompute)value;
        layout->recompute_given = true;
        return true;
    }
    if (!strcmp(word, "schedule") && (value = plan_schedule_of(text)) >= 0) {
        layout->schedule = (enum plan_schedule)value;
        return true;
    }
    if (!strcmp(word, "context") && (value = plan_context_of(text)) >= 0) {
        layout->attention = (enum plan_context)value;
        return true;
    }
    return set_number(layout, word, text);
}

/* Is there a "word=" in the list before `end`? */
static bool is_among(const char *list, const char *end, const char *word)
{
    size_t length = strlen(word);
    for (; list < end; list += strcspn(list, ",") + 1)
        if (!strncmp(list, word, length) && list[length] == '=')
            return true;
    return false;
}

int cli_plan_layout(const char *option, const char *text, struct plan_layout *out)
{
    const char *whole = text;
    char word[24], value[24];
    int used;
    while (*text) {
        used = 0;
        bool read = sscanf(text, "%23[a-z_]=%23[A-Za-z0-9.-]%n", word, value, &used) == 2 &&
                    (!text[used] || text[used] == ',');
        if (read && is_among(whole, text, word))
            return cli_usage("plan", "give it once", "--%s: %s is given twice", option, word);
        if (!read || !set_word(out, word, value))
            return cli_usage("plan",
                             "NAME=VALUE,... of gpus dp tp pp vpp cp ep mbs batch seq (1 or more), "
                             "zero (0 to 3), sp, recompute (none selective block full), schedule "
                             "(1f1b gpipe zb-h1)",
                             "--%s: '%.40s' is not a setting of a layout", option, text);
        text += used + (text[used] == ',');
    }
    return 0;
}

/* The device that the run used: by name from the table; where the run has none, the plan's. */
static void find_device(const struct an_result *result, struct plan_machine *machine)
{
    struct plan_machine found;
    if (result->gpu_count && result->gpus[0].name && !machine->software.engine &&
        !plan_machine_of(result->gpus[0].name, machine->type, &found, NULL))
        *machine = found;
}

int cli_plan_cpu(const struct an_result *result, const char *type, int64_t ranks,
                 struct plan_machine *out)
{
    double memory =
        result->memory.capacity_bytes.valid ? (double)result->memory.capacity_bytes.value : 0;
    for (size_t i = 0; i < result->ceiling_count; i++) {
        const struct an_ceiling *ceiling = &result->ceilings[i];
        if (strcmp(ceiling->resource, "flops") || strcmp(ceiling->dtype, type) ||
            strcmp(ceiling->device, "cpu"))
            continue;
        int64_t cores = 1;
        if (result->run.cores.valid)
            cores = result->run.cores.value;
        plan_machine_of_cpu(type, ceiling->value, memory, cores, ranks, out);
        return 0;
    }
    return cli_error(TACHO_ENOTSUP, "'tacho report' lists the ceilings of a run",
                     "%s: no measured peak of the processor for %s", result->run.file, type);
}

/* The kind of work of an operation of the engine; NULL: it is none of those that compute. */
static double *kind_of(const struct an_op *op, struct plan_kinds *kinds)
{
    if (!strcmp(op->kind, "attention"))
        return &kinds->attention;
    if (!strcmp(op->pass, "optimizer"))
        return &kinds->update;
    if (!strcmp(op->kind, "matrix") || !strcmp(op->kind, "convolution"))
        return &kinds->products;
    return *op->pass && !strcmp(op->kind, "other") ? &kinds->elements : NULL;
}

/* Seconds of a median step by kind, the mean of the ranks, and how much steps vary. */
static void learn_steps(const struct an_result *result, struct plan_run *run)
{
    const struct an_steps *steps = &result->steps;
    if (!steps->mean_ms.valid || !(steps->mean_ms.value > 0) || steps->detailed <= 0)
        return;
    double typical = steps->median_ms.value / steps->mean_ms.value;
    for (size_t i = 0; i < result->op_count; i++) {
        double *kind = kind_of(&result->ops[i], &run->kinds);
        if (kind)
            *kind += typical * (double)result->ops[i].self_ns / 1e9 / (double)steps->detailed;
    }
    if (steps->sd_ms.valid)
        run->variation = steps->sd_ms.value / steps->mean_ms.value;
}

int cli_plan_run(const struct an_result *result, struct plan_request *request)
{
    struct plan_run *run = &request->run;
    const struct an_steps *steps = &result->steps;
    if (!steps->median_ms.valid)
        return cli_error(TACHO_ENOTSUP, "'tacho report' says which steps it found",
                         "%s: no step time to calibrate with", result->run.file);
    run->name = result->run.file;
    run->seconds = steps->median_ms.value / 1e3;
    find_device(result, &run->at.machine);
    struct plan_layout *layout = &run->at.layout;
    int64_t ranks = result->run.ranks > 0 ? result->run.ranks : 1;
    if (run->at.machine.software.engine)
        learn_steps(result, run);
    if (!layout->devices)
        layout->devices = result->gpu_count > (size_t)ranks ? (int64_t)result->gpu_count : ranks;
    if (!layout->global_batch && steps->tokens_per_step.valid && layout->sequence > 0)
        layout->global_batch = (int64_t)(steps->tokens_per_step.value / (double)layout->sequence);
    return 0;
}
