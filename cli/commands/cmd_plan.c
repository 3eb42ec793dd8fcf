/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho plan: what a training run needs, how long it takes and what it costs, before it is started.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/message.h"
#include "cli/base/plan_input.h"
#include "cli/base/run_file.h"
#include "cli/commands/commands.h"
#include "cli/view/view.h"
#include "reports/plan/plan_write.h"

#define ENGINE_POSITIONS 128 /* of the recipe gpt2-tiny */

struct values {
    const char *gpu, *layout, *type, *from, *run, *run_model, *carbon, *compare, *check, *constants;
    const char *output, *color;
    int64_t gpus, batch, sequence, node, memory, width;
    double network, loader, tokens, budget_hours, budget_money, price, watts;
    double mtbf, checkpoint, restart;
    struct cli_view view;
    bool explain, json, markdown, html, no_color;
};

static const struct cli_option options[] = {
    CLI_TEXT_ROW("gpu", 0, CLI_TEXT, gpu, "NAME",
                 "the device: H100, A100, MI300X ... (H100); cpu: that of --from"),
    CLI_NUMBER_ROW("gpus", 0, CLI_INT, gpus, "N", "how many (8)", 1, 1000000),
    CLI_TEXT_ROW("layout", 0, CLI_TEXT, layout, "LIST",
                 "dp=8,tp=4,pp=2,... ; what is not given is chosen"),
    CLI_NUMBER_ROW("batch", 0, CLI_INT, batch, "N", "sequences per step (1 M tokens)", 1, 1e9),
    CLI_NUMBER_ROW("seq", 0, CLI_INT, sequence, "N", "tokens per sequence (4096)", 1, 1e8),
    CLI_TEXT_ROW("dtype", 0, CLI_CHOICE, type, "bf16|fp16|fp8|fp4|tf32|fp32",
                 "type of the GEMMs (bf16)"),
    CLI_TEXT_ROW("from", 0, CLI_TEXT, from, "RUN",
                 "calibrate with a measured run; with --check: 'nearest'"),
    CLI_TEXT_ROW("run", 0, CLI_TEXT, run, "LIST", "layout of that run, where it differs"),
    CLI_TEXT_ROW("run-model", 0, CLI_TEXT, run_model, "MODEL",
                 "model of that run, where it differs"),
    CLI_NUMBER_ROW("memory", 0, CLI_SIZE, memory, "BYTES", "memory of a device that may be used", 1,
                   1e15),
    CLI_NUMBER_ROW("network", 0, CLI_NUMBER, network, "BYTES/S",
                   "bandwidth of a device's network card, one direction", 1, 1e15),
    CLI_NUMBER_ROW("node", 0, CLI_INT, node, "N", "devices per machine", 1, 100000),
    CLI_NUMBER_ROW("loader", 0, CLI_NUMBER, loader, "N", "samples/s that the data loader delivers",
                   1e-9, 1e15),
    CLI_NUMBER_ROW("tokens", 0, CLI_NUMBER, tokens, "N", "tokens to train on (compute-optimal)", 1,
                   1e18),
    CLI_NUMBER_ROW("budget-hours", 0, CLI_NUMBER, budget_hours, "N", "exit 1 if it takes longer", 0,
                   1e9),
    CLI_NUMBER_ROW("budget-money", 0, CLI_NUMBER, budget_money, "N", "exit 1 if it costs more", 0,
                   1e15),
    CLI_NUMBER_ROW("price", 0, CLI_NUMBER, price, "N", "dollars per device hour", 0, 1e6),
    CLI_NUMBER_ROW("watts", 0, CLI_NUMBER, watts, "N", "power of a device under load", 0, 1e6),
    CLI_TEXT_ROW("carbon", 0, CLI_TEXT, carbon, "REGION",
                 "world, usa, eu, france ..., or grams of CO2 per kWh"),
    CLI_NUMBER_ROW("mtbf", 0, CLI_NUMBER, mtbf, "HOURS",
                   "mean time between failures of one device (50,677; 0: none)", 0, 1e12),
    CLI_NUMBER_ROW("checkpoint", 0, CLI_NUMBER, checkpoint, "S",
                   "seconds by which a checkpoint delays the job (30)", 0, 1e6),
    CLI_NUMBER_ROW("restart", 0, CLI_NUMBER, restart, "S",
                   "seconds from a failure to the next step (600)", 0, 1e7),
    CLI_TEXT_ROW("compare", 0, CLI_TEXT, compare, "NAMES",
                 "also plan for these devices: A100,MI300X"),
    CLI_FLAG_ROW("explain", 0, explain, "print each formula with its numbers"),
    CLI_TEXT_ROW("check", 0, CLI_TEXT, check, "CSV", "predict published runs and print the errors"),
    CLI_TEXT_ROW("constants", 0, CLI_TEXT, constants, "FILE",
                 "replace fitted constants; 'list' prints them"),
    CLI_FLAG_ROW("json", 'j', json, "print JSON (tacho-plan/1)"),
    CLI_FIELDS_ROW,
    CLI_LIMIT_ROW,
    CLI_FLAG_ROW("markdown", 0, markdown, "print Markdown"),
    CLI_FLAG_ROW("html", 0, html, "print HTML"),
    CLI_OUTPUT_ROW,
    CLI_WIDTH_ROW,
    CLI_COLOR_ROW,
    CLI_NO_COLOR_ROW,
    {0},
};

const struct cli_spec cli_plan_spec = {
    .help = "estimate memory, time and cost of a training run before it is started",
    .usage = "[OPTION]... MODEL",
    .about =
        "Says whether a model fits, how long a step takes and what the training costs, and "
        "chooses the layout where it is\n"
        "not given. MODEL is a name (llama-3-8b, gpt3-175b, deepseek-v3 ...), a config.json of "
        "Hugging Face, or dimensions:\n"
        "layers=32,width=4096,heads=32,kv=8,ff=14336,vocab=128256[,gated=0,tied=1,experts=8,"
        "active=2].\n"
        "LIST has dp tp pp vpp (chunks of a stage) cp ep mbs (micro-batch) zero (0 to 3) sp "
        "(sequence parallel) recompute\n"
        "(none selective block full) schedule (1f1b gpipe zb-h1) context (of cp: ring ulysses); "
        "that of --run also gpus,\n"
        "batch, seq.\n"
        "Times have 90 % intervals. With --from they are scaled by a measured run.",
    .options = options,
    .examples =
        "  tacho plan llama-3-70b --gpu H100 --gpus 64 --seq 8192 --batch 512\n"
        "  tacho plan config.json --gpus 16 --layout tp=2,zero=1 --explain\n"
        "  tacho plan llama-3-8b --gpus 256 --from run.tacho --run gpus=8,batch=64\n"
        "  tacho plan gpt3-175b --gpus 1024 --compare A100,MI300X,TPUv5p --html -o plan.html\n"
        "  tacho plan --check published-runs.csv",
    .most = 1,
};

/* ---- what was asked for ------------------------------------------------------------------------ */

static int load_constants(const struct values *values, struct plan_constants *constants)
{
    struct tacho_error err = {0};
    *constants = plan_constants_fitted;
    if (!values->constants || !strcmp(values->constants, "list"))
        return 0;
    return plan_constants_read(constants, values->constants, &err) ? cli_fail(&err) : 0;
}

static int write_constants(const void *constants, FILE *out)
{
    return rep_plan_constants_json(constants, out);
}

static int list_constants(const struct values *values, const struct plan_constants *constants)
{
    struct cli_output out;
    int rc = 0, code = cli_output_open(&out, values->output, NULL);
    if (code)
        return code;
    if (values->json)
        rc = cli_view_write("plan", &values->view, write_constants, constants, out.file);
    for (int i = 0; !values->json && plan_constant_at(constants, i).name; i++) {
        struct plan_constant_row row = plan_constant_at(constants, i);
        fprintf(out.file, "%-16s %-9.4g %s\n", row.name, row.value, row.text);
    }
    return cli_output_end(&out, rc, values->constants, "table of constants");
}

/* Fills the batch and the sequence where they are not given: 1 M tokens a step, a multiple of the
 * devices. */
static void default_batch(const struct values *values, const struct plan_model *model,
                          struct plan_layout *layout)
{
    int64_t usual = model->positions ? model->positions : 4096;
    layout->devices = values->gpus ? values->gpus : layout->devices;
    if (!layout->devices && !(layout->data && layout->tensor && layout->pipeline))
        layout->devices = 8;
    layout->sequence = values->sequence ? values->sequence : layout->sequence;
    layout->sequence = layout->sequence ? layout->sequence : usual;
    layout->global_batch = values->batch ? values->batch : layout->global_batch;
    int64_t devices = layout->devices ? layout->devices : layout->data;
    if (!layout->global_batch) {
        int64_t wanted = (1 << 20) / layout->sequence;
        layout->global_batch = devices * ((wanted + devices - 1) / devices);
        layout->global_batch = layout->global_batch ? layout->global_batch : devices;
    }
}

static int read_rates(const struct values *values, struct plan_request *request)
{
    static struct plan_grid own = {"--carbon", 0, "your own number"};
    struct plan_rates *rates = &request->rates;
    plan_rates_of(&request->of.machine, rates);
    if (values->price > 0)
        rates->price_low = rates->price_high = values->price;
    if (values->watts > 0)
        rates->watts = values->watts;
    if (!values->carbon)
        return 0;
    rates->grid = plan_grid_of(values->carbon);
    if (!rates->grid && cli_parse_scaled(values->carbon, 1000, &own.grams) && own.grams >= 0)
        rates->grid = &own;
    if (!rates->grid)
        return cli_usage("plan",
                         "world usa eu france germany uk sweden norway finland china india "
                         "japan canada australia, or grams a kWh",
                         "--carbon: no such region: %.40s", values->carbon);
    return 0;
}

/* Splits the names to compare with; `names` holds the copy they point into. */
static int read_devices(const struct values *values, char *names, size_t bytes,
                        struct plan_request *request)
{
    struct plan_machine machine;
    struct tacho_error err = {0};
    char *rest = names;
    snprintf(names, bytes, "%s", values->compare ? values->compare : "");
    for (char *name = strsep(&rest, ","); name; name = strsep(&rest, ",")) {
        if (!*name)
            continue;
        if (request->device_count == PLAN_DEVICES_MOST)
            return cli_usage("plan", NULL, "--compare: more than %d devices", PLAN_DEVICES_MOST);
        if (plan_machine_of(name, request->of.machine.type, &machine, &err))
            return cli_fail(&err);
        request->devices[request->device_count++] = name;
    }
    return 0;
}

static int find_machine(const struct values *values, const struct an_result *run,
                        struct plan_machine *machine)
{
    struct tacho_error err = {0};
    if (values->gpu && !strcmp(values->gpu, "cpu")) {
        if (!run)
            return cli_usage("plan", "--gpu cpu --from RUN, a run of the reference engine",
                             "--gpu cpu: the peak of the processor comes from a run");
        return cli_plan_cpu(run, values->type, values->gpus ? values->gpus : 1, machine);
    }
    if (plan_machine_of(values->gpu ? values->gpu : "H100", values->type, machine, &err))
        return cli_fail(&err);
    if (values->network > 0)
        machine->network_bytes_per_s = values->network;
    if (values->node)
        machine->node = values->node;
    return 0;
}

/* What is given by an option and in --layout must agree. */
static int check_twice(const char *option, int64_t value, int64_t in_layout)
{
    if (!value || !in_layout || value == in_layout)
        return 0;
    return cli_usage("plan", "give it once", "--%s: %" PRId64 ", but --layout says %" PRId64,
                     option, value, in_layout);
}

/* The machine; less of its memory, where --memory says so. */
static int read_machine(const struct values *values, const struct an_result *run,
                        struct plan_machine *machine)
{
    double memory = (double)values->memory;
    int code = find_machine(values, run, machine);
    if (!code && memory > 0 && !(machine->device.bytes > 0 && machine->device.bytes < memory))
        machine->device.bytes = memory;
    return code;
}

/* The engine's table of positions has a row for each token of a sequence, and at least those of the
 * recipe, which are gpt2-tiny's where the model does not say. */
static void learn_positions(struct plan_model *model, int64_t sequence)
{
    if (model->gated)
        return;
    if (!model->positions)
        model->positions = ENGINE_POSITIONS;
    if (model->positions < sequence)
        model->positions = sequence;
}

/* The whole request, but for the run. 0 or an exit code, after a message. */
static int read_request(const struct values *values, const char *model, const struct an_result *run,
                        char *names, size_t bytes, struct plan_request *request)
{
    struct plan_layout *layout = &request->of.layout;
    int code = cli_plan_model(model, &request->of.model);
    layout->zero = -1;
    layout->sequence_parallel = true;
    if (!code && values->layout)
        code = cli_plan_layout("layout", values->layout, layout);
    if (!code)
        code = check_twice("gpus", values->gpus, layout->devices);
    if (!code)
        code = check_twice("batch", values->batch, layout->global_batch);
    if (!code)
        code = check_twice("seq", values->sequence, layout->sequence);
    if (!code)
        code = read_machine(values, run, &request->of.machine);
    if (!code)
        code = read_rates(values, request);
    if (!code)
        code = read_devices(values, names, bytes, request);
    if (code)
        return code;
    default_batch(values, &request->of.model, layout);
    if (request->of.machine.software.engine)
        learn_positions(&request->of.model, layout->sequence);
    if (!request->of.model.experts && !layout->expert)
        layout->expert = 1;
    request->memory = (double)values->memory;
    if (request->memory > request->of.machine.device.bytes)
        request->memory = request->of.machine.device.bytes;
    request->loader = values->loader;
    request->tokens = values->tokens;
    request->budget_hours = values->budget_hours;
    request->budget_money = values->budget_money;
    request->failures = (struct plan_failures){.mtbf_s = values->mtbf * 3600,
                                               .checkpoint_s = values->checkpoint,
                                               .restart_s = values->restart};
    return 0;
}

/* ---- the plan ---------------------------------------------------------------------------------- */

/* Fills the members that --run does not give. */
static void fill_layout(struct plan_layout *layout, const struct plan_layout *like)
{
    struct plan_layout given = *layout;
    int64_t *const to[] = {&layout->pipeline, &layout->chunks,      &layout->context,
                           &layout->expert,   &layout->micro_batch, &layout->global_batch};
    const int64_t from[] = {given.pipeline, given.chunks,      given.context,
                            given.expert,   given.micro_batch, given.global_batch};
    *layout = *like;
    layout->sequence = given.sequence;
    for (size_t i = 0; i < sizeof to / sizeof *to; i++)
        if (from[i])
            *to[i] = from[i];
    if (given.zero >= 0)
        layout->zero = given.zero;
    if (given.recompute_given)
        layout->recompute = given.recompute;
    if (given.attention != PLAN_CONTEXT_USUAL)
        layout->attention = given.attention;
    int64_t parts = layout->tensor * layout->pipeline * layout->context;
    if (layout->devices % parts == 0)
        layout->data = layout->devices / parts;
}

/* Fills what --run leaves out: the plan's own layout where it can run on the run's devices, else
 * the layout that would be chosen for them. */
static int complete_run(struct plan_request *request, const struct plan_result *plan)
{
    struct plan_run *run = &request->run;
    struct plan_layout *layout = &run->at.layout;
    const struct plan_layout *like = &plan->found.layout;
    struct tacho_error err = {0};
    if (layout->devices == like->devices && !layout->data && !layout->tensor)
        fill_layout(layout, like);
    if (!layout->global_batch)
        layout->global_batch = like->global_batch * layout->devices / like->devices;
    struct plan_request alone = {.of = run->at, .rates = request->rates};
    alone.of.layout.expert = request->of.model.experts ? layout->expert : 1;
    struct plan_result found;
    if (plan_make(&alone, &found, &err)) {
        snprintf(err.hint, sizeof err.hint, "give the run's layout with --run gpus=8,batch=64,...");
        return cli_fail(&err);
    }
    *layout = found.found.layout;
    plan_result_free(&found);
    return 0;
}

static int load_run(const struct values *values, struct an_result **result)
{
    struct col_found found;
    struct an_options settings = {0};
    int code = cli_run_find(values->from, &found);
    return code ? code : cli_run_analyze(&found, &settings, result);
}

/* Makes the plan again, scaled by the run. */
static int calibrate(const struct values *values, struct plan_request *request,
                     const struct an_result *result, struct plan_result *plan)
{
    struct tacho_error err = {0};
    request->run.at = request->of;
    request->run.at.layout = (struct plan_layout){
        .zero = -1, .sequence_parallel = true, .sequence = plan->found.layout.sequence};
    int code = values->run ? cli_plan_layout("run", values->run, &request->run.at.layout) : 0;
    if (!code)
        code = cli_plan_run(result, request);
    if (!code && request->of.machine.software.engine)
        code = cli_plan_cpu(result, values->type, request->run.at.layout.devices,
                            &request->run.at.machine);
    if (!code && values->run_model)
        code = cli_plan_model(values->run_model, &request->run.at.model);
    if (!code)
        code = complete_run(request, plan);
    if (code)
        return code;
    plan_result_free(plan);
    return plan_make(request, plan, &err) ? cli_fail(&err) : 0;
}

static const char *format_of(const struct values *values)
{
    if (values->markdown)
        return "markdown";
    return values->html ? "html" : "text";
}

static int write_document(const void *plan, FILE *out)
{
    return rep_plan_json(plan, out);
}

/* Writes the plan. Exit code 1: it does not fit, or costs more than the budget. */
static int write_plan(const struct values *values, const struct plan_result *plan)
{
    struct cli_output out;
    struct rep_options settings = cli_report_options(
        values->width, values->no_color ? "never" : values->color, values->output);
    int code = cli_output_open(&out, values->output, NULL);
    if (code)
        return code;
    int rc = values->json
                 ? cli_view_write("plan", &values->view, write_document, plan, out.file)
                 : rep_plan_write(format_of(values), plan, values->explain, &settings, out.file);
    code = cli_output_end(&out, rc, plan->request.of.model.name, "plan");
    bool refused = plan->found.memory.fit == PLAN_DOES_NOT_FIT ||
                   (plan->request.memory > 0 && plan->found.memory.needed > plan->request.memory);
    return code ? code : refused || !plan->within_budget;
}

static int make_plan(const struct values *values, const char *model,
                     const struct plan_constants *constants)
{
    char names[1024];
    struct plan_request request = {.of.constants = constants};
    struct plan_result plan;
    struct an_result *result = NULL;
    struct tacho_error err = {0};
    int code = values->from ? load_run(values, &result) : 0;
    if (!code)
        code = read_request(values, model, result, names, sizeof names, &request);
    if (!code && plan_make(&request, &plan, &err))
        code = cli_fail(&err);
    if (code)
        goto done;
    if (values->from)
        code = calibrate(values, &request, result, &plan);
    if (!code)
        code = write_plan(values, &plan);
    plan_result_free(&plan);
done:
    an_result_free(result);
    return code;
}

/* ---- the check --------------------------------------------------------------------------------- */

struct checked {
    const struct plan_check *table;
    bool from_run;
};

static int write_check(const void *context, FILE *out)
{
    const struct checked *checked = context;
    return rep_plan_check_json(checked->table, checked->from_run, out);
}

static int check(const struct values *values, const struct plan_constants *constants)
{
    struct plan_check table;
    struct tacho_error err = {0};
    struct cli_output out;
    struct checked checked = {&table, values->from != NULL};
    if (checked.from_run && strcmp(values->from, "nearest"))
        return cli_usage("plan", "use --from nearest", "--check takes no run");
    if (plan_check_file(values->check, constants, &table, &err))
        return cli_fail(&err);
    char *inputs[] = {(char *)(uintptr_t)values->check, NULL};
    int code = cli_output_open(&out, values->output, inputs);
    if (!code) {
        struct rep_options settings = cli_report_options(
            values->width, values->no_color ? "never" : values->color, values->output);
        int rc = values->json
                     ? cli_view_write("plan", &values->view, write_check, &checked, out.file)
                     : rep_plan_check_text(&table, checked.from_run, &settings, out.file);
        code = cli_output_end(&out, rc, values->check, "check");
    }
    plan_check_free(&table);
    return code;
}

int cli_plan(int argc, char **argv)
{
    struct values values = {
        .type = "bf16", .mtbf = PLAN_DEVICE_MTBF_H, .checkpoint = 30, .restart = 600};
    struct plan_constants constants;
    int first, code = cli_parse(&cli_plan_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    code = cli_view_check("plan", &values.view, values.json);
    code = code ? code : load_constants(&values, &constants);
    if (code)
        return code;
    if (values.json + values.markdown + values.html > 1)
        return cli_usage("plan", NULL, "--json, --markdown and --html exclude each other");
    if (values.constants && !strcmp(values.constants, "list"))
        return list_constants(&values, &constants);
    if (values.check)
        return check(&values, &constants);
    if (first >= argc)
        return cli_usage("plan", "for example: tacho plan llama-3-8b --gpus 8", "which model?");
    return make_plan(&values, argv[first], &constants);
}
