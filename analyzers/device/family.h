/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: what kind of work a kernel does, by its class and its name alone. It says
 * something where no recorded operator launched the kernel: replays of graphs, recordings without
 * operators.
 */
#ifndef ANALYZERS_FAMILY_H
#define ANALYZERS_FAMILY_H

#include "analyzers/device/device.h"
#include "analyzers/result/result.h"

/* The family of a kernel of this class. A name that shows nothing is of the family OTHER. */
enum an_family an_family_of(enum an_device_class class, const char *name);

#endif
