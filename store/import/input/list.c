/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists that grow by doubling.
 */
#include "store/import/input/list.h"

#include <stdlib.h>
#include <string.h>

#include "tacho_error.h"

#define FIRST_ROOM 64 /* elements */

int imp_list_room(void **list, size_t *room, size_t count, size_t size)
{
    if (count < *room)
        return 0;
    size_t more = *room ? 2 * *room : FIRST_ROOM;
    char *bigger = realloc(*list, more * size);
    if (!bigger)
        return TACHO_ENOMEM;
    memset(bigger + *room * size, 0, (more - *room) * size);
    *list = bigger;
    *room = more;
    return 0;
}
