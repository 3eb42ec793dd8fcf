/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/dataflow/: what a byte costs that need not be moved.
 */
#ifndef ANALYZERS_DATAFLOW_PRICE_H
#define ANALYZERS_DATAFLOW_PRICE_H

#include "analyzers/dataflow/flow.h"

struct flow_price {
    double bandwidth, roof; /* bytes/s: of a mix of reads and writes; the most that was measured */
    double read, write;     /* bytes/s of each alone; 0: of a device, not known */
    double near,
        far; /* bytes of the caches that surely, and perhaps, hold a result; 0: not known */
    double overhead_ns; /* of an operator that is not called; 0: not known */
    const char *reason; /* why nothing is known; NULL */
    const char *words;
};

/* Finds the bandwidths and caches of what the operators run on. */
struct flow_price flow_price_of(const struct flow *flow);

/* Does what `from` passes to `to` stay in a cache until it is read? By streaming order: between the
 * write and the read of one element at most the larger of both operators' bytes go by. */
bool flow_in_cache(const struct flow_price *price, const struct flow_op *from,
                   const struct flow_op *to, bool on_device);

/* Time that `bytes` take which an operator reads or writes: [low, expected, high] ns.
 *
 * On a processor: at the measured rate of reads, and of writes; plain stores fetch what they write
 * over, so a written byte is read too. An operator that is faster than all its bytes at these rates
 * takes their share of its time instead, a written byte more than one that is read. Where it is
 * slower, that share is `high`. Up to twice as slow the memory still limits it, because reads and
 * writes by turns, or by fewer threads than were measured with, are slower: then the share is
 * expected, too. The slower it is beyond that, the less of it, down to the measured rates at four
 * times. Where it is slower by far, something else may hide the bytes: `low` is nothing. On a
 * device: the share of the time of an operator that reaches half of the bandwidth; else at the
 * bandwidth, and at least nothing. */
void flow_byte_ns(const struct flow_price *price, const struct flow_op *op, double bytes,
                  bool writes, double out[3]);

/* How much longer `read` and `written` bytes of an operator of a processor take in one kernel with
 * a reduction: a reduction reads a row to its end before it writes the first element of it, so that
 * reads and writes take turns, and so does a kernel that takes in the operators around it. A byte
 * then costs what it costs the reduction, if that is more. */
double flow_turns_ns(const struct flow_price *price, const struct flow_op *reduction,
                     const struct flow_op *op, double read, double written);

#endif
