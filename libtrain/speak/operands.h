/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/speak/trace.c: the texts by which a tool learns what operations read and
 * write. The tensors of a training stay where they are, so that few sets of operands occur, each
 * once a step: each is made a text at its first call, and found by a hash from then on.
 */
#ifndef LT_SPEAK_OPERANDS_H
#define LT_SPEAK_OPERANDS_H

#include "libtrain/speak/trace.h"
#include "tacho_nvtx.h"

struct lt_operands;

struct lt_operands *lt_operands_new(void); /* NULL: no memory */
void lt_operands_free(struct lt_operands *operands);

/* The registered text of a set of operands (struct tacho_operation has its form); NULL: there are
 * too many sets. From any thread; without a lock where the set is known. */
nvtxStringHandle_t lt_operands_text(struct lt_operands *operands, const struct tacho_nvtx *nvtx,
                                    const struct lt_operand *operand, size_t count);

#endif
