/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of constants, and a file that replaces some of them.
 */
#include "planner/base/constants.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

const struct plan_constants plan_constants_fitted = {
#define PLAN_CONSTANT_VALUE(name, value, start, pull, text) .name = (value),
    PLAN_CONSTANT_MAP(PLAN_CONSTANT_VALUE)
#undef PLAN_CONSTANT_VALUE
};

static const struct row {
    const char *name;
    size_t offset;
    double pull;
    const char *text;
} rows[] = {
#define PLAN_CONSTANT_ROW(name, value, start, pull, text) \
    {#name, offsetof(struct plan_constants, name), pull, text},
    PLAN_CONSTANT_MAP(PLAN_CONSTANT_ROW)
#undef PLAN_CONSTANT_ROW
};
#define ROWS ((int)(sizeof rows / sizeof *rows))

struct plan_constant_row plan_constant_at(const struct plan_constants *of, int index)
{
    struct plan_constant_row out = {0};
    if (index < 0 || index >= ROWS)
        return out;
    out.name = rows[index].name;
    out.pull = rows[index].pull;
    out.text = rows[index].text;
    memcpy(&out.value, (const char *)of + rows[index].offset, sizeof out.value);
    return out;
}

static int set(struct plan_constants *constants, const char *name, double value)
{
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, name))
            continue;
        memcpy((char *)constants + rows[i].offset, &value, sizeof value);
        return 0;
    }
    return TACHO_EFORMAT;
}

int plan_constants_read(struct plan_constants *constants, const char *path, struct tacho_error *err)
{
    char line[256], name[64];
    double value;
    FILE *in = fopen(path, "r");
    if (!in)
        return tacho_fail(err, tacho_error_of_errno(errno), "check the path", "%s: %s", path,
                          strerror(errno));
    int rc = 0;
    for (int number = 1; !rc && fgets(line, sizeof line, in); number++) {
        if (*line == '#' || *line == '\n')
            continue;
        if (sscanf(line, "%63s %lf", name, &value) != 2 || !isfinite(value) || value < 0 ||
            set(constants, name, value))
            rc = tacho_fail(err, TACHO_EFORMAT,
                            "lines are NAME VALUE; 'tacho plan --constants list' prints the names",
                            "%s: line %d is no constant", path, number);
    }
    if (!rc && ferror(in))
        rc = tacho_fail(err, TACHO_EIO, NULL, "%s: could not be read", path);
    fclose(in);
    return rc;
}
