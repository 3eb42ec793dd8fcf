/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: frames of Python as PyTorch's profiler writes them, "train.py(12): step".
 */
#ifndef ANALYZERS_FRAMES_H
#define ANALYZERS_FRAMES_H

#include <stdbool.h>

/* Is it a frame of the program, and not one of PyTorch, of Python's library or of an installed
 * package? */
bool an_frame_is_user(const char *frame);

#endif
