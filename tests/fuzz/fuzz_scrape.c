/* SPDX-License-Identifier: Apache-2.0
 *
 * What another watch answers: samples as text. What is printed of them has no control characters.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "monitor/fleet/fleet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mon_fleet fleet = {.node = calloc(1, sizeof *fleet.node), .node_count = 1};
    char *text = calloc(1, size + 1), *table = NULL;
    size_t printed = 0;
    fleet.node[0].target = strdup("node");
    memcpy(text, data, size);
    mon_fleet_add(&fleet, 0, text);
    FILE *out = open_memstream(&table, &printed);
    mon_fleet_print(&fleet, out);
    fclose(out);
    for (size_t i = 0; i < printed; i++)
        if (((unsigned char)table[i] < ' ' && table[i] != '\n') || table[i] == 0x7f)
            abort();
    mon_fleet_free(&fleet);
    free(table);
    free(text);
    return 0;
}
