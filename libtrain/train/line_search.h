/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/train: a step of L-BFGS that is too long is made shorter.
 */
#ifndef LT_LINE_SEARCH_H
#define LT_LINE_SEARCH_H

struct run;

/* After an update by L-BFGS: halves the step until the loss of the same batch has fallen by at
 * least 10^-4 of what its gradient promised (Armijo 1966), at most config->line_search times. Each
 * trial is a forward pass, marked as an evaluation. The gradient must be as backward left it. */
void lt_line_search(struct run *run);

#endif
