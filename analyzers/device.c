/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/analyzer.h"

int an_devices_build(struct an_context *c)
{
    c->gpu = NULL;
    return 0;
}
