/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/ops/: what memory a call of an operation reads and writes.
 */
#ifndef LT_OPERANDS_H
#define LT_OPERANDS_H

#include "libtrain/ops/ops.h"
#include "libtrain/speak/trace.h"

/* Lists the operands of a call; returns how many. Pointers are those of `args`. The bytes that are
 * read and written are those of lt_op_work, but for tables that are looked up and for updates that
 * pass over their tensors twice. */
size_t lt_op_operands(enum lt_op_id op, const struct lt_context *context, const union lt_args *args,
                      struct lt_operand operand[LT_OPERANDS_MOST]);

#endif
