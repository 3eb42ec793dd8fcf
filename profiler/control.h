/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to profiler/: how the two ends of the file `control` (struct wire_control) hand a capture
 * window over: a sequence lock. Any process of the run may read while the collector writes.
 */
#ifndef TACHO_CONTROL_H
#define TACHO_CONTROL_H

#include <stdbool.h>

#include "profiler/wire.h"

/* What is asked for: the fields of struct wire_control. */
struct control_window {
    uint32_t mode; /* enum wire_capture */
    int64_t from, to, every, until;
};

/* Replaces the window. One writer at a time. Each field is stored with release order, which keeps
 * it behind the odd number: release order of the addition alone would not, and a processor with
 * weak order could show a new field beside the old number. */
static inline void control_write(struct wire_control *control, const struct control_window *window)
{
    atomic_fetch_add_explicit(&control->sequence, 1, memory_order_relaxed);
    atomic_store_explicit(&control->mode, window->mode, memory_order_release);
    atomic_store_explicit(&control->from, window->from, memory_order_release);
    atomic_store_explicit(&control->to, window->to, memory_order_release);
    atomic_store_explicit(&control->every, window->every, memory_order_release);
    atomic_store_explicit(&control->until, window->until, memory_order_release);
    atomic_fetch_add_explicit(&control->sequence, 1, memory_order_release);
}

/* Copies the window as one consistent whole: the number is even, and the same before and after.
 * Each load has acquire order: a field that is new brings the odd number with it, and the second
 * look at the number comes last. False: it was being written all the time. */
static inline bool control_read(const struct wire_control *control, struct control_window *window)
{
    for (int i = 0; i < 100; i++) {
        uint32_t before = atomic_load_explicit(&control->sequence, memory_order_acquire);
        window->mode = atomic_load_explicit(&control->mode, memory_order_acquire);
        window->from = atomic_load_explicit(&control->from, memory_order_acquire);
        window->to = atomic_load_explicit(&control->to, memory_order_acquire);
        window->every = atomic_load_explicit(&control->every, memory_order_acquire);
        window->until = atomic_load_explicit(&control->until, memory_order_acquire);
        if (!(before & 1) &&
            atomic_load_explicit(&control->sequence, memory_order_relaxed) == before)
            return true;
    }
    return false;
}

#endif
