/* SPDX-License-Identifier: Apache-2.0
 *
 * What the planner reads: a table of published runs, a config.json, dimensions, constants. The
 * first byte says which.
 */
#include <string.h>

#include "fuzz.h"
#include "planner/plan.h"

static void table(const char *path)
{
    struct plan_check check;
    if (!plan_check_file(path, &plan_constants_fitted, &check, NULL))
        plan_check_free(&check);
}

/* A model that was accepted can be planned with. */
static void use(const struct plan_model *model)
{
    struct plan_parameters parameters;
    struct plan_case at = {.model = *model, .constants = &plan_constants_fitted};
    struct plan_time time;
    struct plan_memory memory;
    if (plan_machine_of("H100", "bf16", &at.machine, NULL))
        abort();
    at.layout = (struct plan_layout){
        8, 8, 1, 1, 1, 1, 1, 1, 8, 2048, 1, true, PLAN_RECOMPUTE_NONE, true, PLAN_SCHEDULE_1F1B, 0};
    plan_parameters_of(model, &parameters);
    plan_time_of(&at, 0, &time);
    plan_memory_of(&at, &memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plan_model model;
    struct plan_constants constants = plan_constants_fitted;
    if (size < 2)
        return 0;
    char path[64];
    int file = fuzz_file(data + 1, size - 1, path);
    switch (data[0] % 4) {
    case 0:
        table(path);
        break;
    case 1:
        if (!plan_model_config(path, &model, NULL))
            use(&model);
        break;
    case 2: {
        char text[256];
        snprintf(text, sizeof text, "%.*s", (int)(size - 1), (const char *)data + 1);
        if (!plan_model_dimensions(text, &model, NULL))
            use(&model);
        break;
    }
    default:
        plan_constants_read(&constants, path, NULL);
    }
    close(file);
    return 0;
}
