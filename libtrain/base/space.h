/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: memory that the host cannot read or write itself, that of a device. Whoever
 * has one makes arenas in it and moves what the host needs through these functions. NULL stands for
 * the host's own memory everywhere.
 */
#ifndef LT_SPACE_H
#define LT_SPACE_H

#include <stddef.h>

struct lt_space {
    /* Zeroed memory, aligned to 256 bytes; NULL: there is none left. */
    void *(*take)(struct lt_space *space, size_t bytes);
    void (*give)(struct lt_space *space, void *base);
    /* Copies from and to the host, done when they return. Earlier work on the device comes first.
     * NULL: nothing is kept there, of a device that only counts; values are not made. */
    void (*write)(struct lt_space *space, void *to, const void *from, size_t bytes);
    void (*read)(struct lt_space *space, void *to, const void *from, size_t bytes);
};

#endif
