/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the search for secrets: what a script of a shell writes into a program that reads a
 * password, or into a file whose name says that it holds one.
 */
#ifndef COL_SECRET_PIPES_H
#define COL_SECRET_PIPES_H

#include "profiler/collector/run/secret_text.h"

void col_pipes_hide(struct col_text *in);

#endif
