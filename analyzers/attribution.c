/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/analyzer.h"

static void absent(struct an_context *c, const char *reason)
{
    static const char *const by[] = {"op", "module", "line", "annotation"};
    for (int i = 0; i < 4; i++)
        c->r->attribution[i] = (struct an_attribution){.by = by[i], .reason = reason};
}

static int run(struct an_context *c)
{
    absent(c, "not computed yet");
    return 0;
}

const struct an_analyzer an_attribution = {
    .name = "attribution", .help = "", .needs = AN_INPUT_DEVICES, .run = run, .absent = absent};
