/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of --inject as a configuration of the training loop.
 */
#include "workloads/injection.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int parse_value(struct lt_injection *out, const char *text, float value)
{
    char name[40];
    long long step;
    int layer, end = 0, op;
    if (sscanf(text, "%lld:%d:%39[a-z0-9.-]%n", &step, &layer, name, &end) != 3 || text[end])
        return -1;
    op = lt_op_find(name);
    if (op < 0 || step < 0 || layer < -1)
        return -1;
    *out = (struct lt_injection){
        .kind = LT_INJECT_VALUE,
        .step = step,
        .fault = {.op = (enum lt_op_id)op, .layer = layer + 1, .value = value}};
    return 0;
}

static int parse_rate(struct lt_injection *out, const char *text)
{
    long long step;
    double rate;
    int end = 0;
    if (sscanf(text, "%lld:%lf%n", &step, &rate, &end) != 2 || text[end] || step < 0 ||
        !isfinite(rate) || rate < 0)
        return -1;
    *out = (struct lt_injection){.kind = LT_INJECT_RATE, .step = step, .rate = rate};
    return 0;
}

static int parse_call(struct lt_injection *out, const char *text, enum lt_call_fault fault)
{
    long long step, call;
    int rank, end = 0;
    if (sscanf(text, "%lld:%d:%lld%n", &step, &rank, &call, &end) != 3 || text[end] || step < 0 ||
        rank < 0 || call < 0)
        return -1;
    *out = (struct lt_injection){
        .kind = LT_INJECT_CALL,
        .call = {.fault = fault, .step = step, .rank = rank, .call = (uint64_t)call}};
    return 0;
}

int injection_parse(struct lt_injection *out, const char *text, struct tacho_error *err)
{
    int rc = -1;
    *out = (struct lt_injection){.kind = LT_INJECT_NONE};
    if (!text)
        return 0;
    if (!strncmp(text, "nan=", 4))
        rc = parse_value(out, text + 4, (float)NAN);
    else if (!strncmp(text, "inf=", 4))
        rc = parse_value(out, text + 4, (float)INFINITY);
    else if (!strncmp(text, "rate=", 5))
        rc = parse_rate(out, text + 5);
    else if (!strncmp(text, "skip=", 5))
        rc = parse_call(out, text + 5, LT_CALL_SKIP);
    else if (!strncmp(text, "halve=", 6))
        rc = parse_call(out, text + 6, LT_CALL_SHRINK);
    return rc ? tacho_fail(err, TACHO_EUSAGE,
                           "nan=STEP:LAYER:OPERATION, inf=STEP:LAYER:OPERATION, rate=STEP:FACTOR, "
                           "skip=STEP:RANK:CALL or halve=STEP:RANK:CALL; "
                           "operations have the names of their ranges, as in nan=40:2:gelu.forward",
                           "--inject %s: not a fault", text)
              : 0;
}
