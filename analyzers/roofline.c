/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/analyzer.h"

static void absent(struct an_context *c, const char *reason)
{
    c->r->roofline.reason = reason;
}

static int run(struct an_context *c)
{
    absent(c, "not computed yet");
    return 0;
}

const struct an_analyzer an_roofline = {
    .name = "roofline", .help = "", .needs = AN_INPUT_DEVICES, .run = run, .absent = absent};
