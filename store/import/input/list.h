/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: lists that grow.
 */
#ifndef STORE_IMPORT_INPUT_LIST_H
#define STORE_IMPORT_INPUT_LIST_H

#include <stddef.h>

/* Makes room for one element more in a list that has `count` of `size` bytes, and room for *room.
 * What is new is zeroed. 0 or TACHO_ENOMEM, which leaves the list as it was. */
int imp_list_room(void **list, size_t *room, size_t count, size_t size);

#endif
