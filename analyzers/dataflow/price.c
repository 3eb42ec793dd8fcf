/* SPDX-License-Identifier: Apache-2.0
 *
 * What a byte costs: bandwidths and caches that were measured (calibration) or are on the data
 * sheet.
 */
#include "analyzers/dataflow/price.h"

#include <math.h>

#include "analyzers/base/words.h"
#include "analyzers/work/ceilings.h"

#define MEMORY_BOUND 0.5 /* of the bandwidth: an operator that reaches it is limited by memory */
#define MEMORY_UP_TO 2.0 /* times what its bytes take: fewer threads than were measured with */
#define HIDDEN_FROM  3   /* times what its bytes take: something else limits the operator */
#define CACHED_ABOVE 1.1 /* times the roof of the memory: not all bytes came from there */
#define FAST_CACHE   1.6 /* times the bandwidth of memory: a cache this fast is worth its name */
/* Every GPU of a data center since 2018 has an L2 of 4 MB or more (T4: 4 MB, V100: 6 MB). */
#define DEVICE_CACHE (4.0 * 1024 * 1024)

static double ceiling_of(const struct an_context *context, const char *resource)
{
    const struct an_ceiling_row *row = an_ceiling_find(context, "cpu", resource, "");
    return row ? row->value : 0;
}

static double or_else(double value, double other)
{
    return value > 0 ? value : other;
}

static struct flow_price price_of_cpu(struct an_context *context)
{
    struct flow_price price = {.bandwidth = ceiling_of(context, "bandwidth")};
    struct an_memory_level level[AN_MEMORY_LEVELS];
    size_t levels = an_memory_levels(context, "cpu", level);
    price.overhead_ns = 1e9 * ceiling_of(context, "op_overhead");
    price.near = ceiling_of(context, "cache_l2");
    price.roof = levels ? level[0].row->value : 0;
    price.read = or_else(ceiling_of(context, "bandwidth_read"), price.bandwidth);
    price.write = or_else(ceiling_of(context, "bandwidth_write"), price.bandwidth);
    if (ceiling_of(context, "bandwidth_l3") >= FAST_CACHE * price.bandwidth)
        price.far = ceiling_of(context, "cache_l3");
    if (price.bandwidth <= 0)
        price.reason = "the bandwidth of the memory was not measured: " AN_CALIBRATE;
    return price;
}

static struct flow_price price_of_device(struct an_context *context, uint32_t device)
{
    double bandwidth = an_device_bandwidth(context, context->gpu->device[device].name);
    struct flow_price price = {.bandwidth = bandwidth, .roof = bandwidth, .near = DEVICE_CACHE};
    if (bandwidth <= 0)
        price.reason = "the bandwidth of the device is not known";
    return price;
}

struct flow_price flow_price_of(const struct flow *flow)
{
    struct an_context *context = flow->context;
    uint32_t device = context->lane[flow->step->lane].device;
    struct flow_price price =
        device == AN_NONE ? price_of_cpu(context) : price_of_device(context, device);
    if (device != AN_NONE && !flow->on_device)
        price.reason = "the times of the operators are those of the host, not of their kernels";
    if (!price.reason)
        price.words = an_arena_format(context->arena, "%s GB/s%s",
                                      an_number_words(context->arena, price.bandwidth / 1e9, 3),
                                      device == AN_NONE ? " (measured)" : "");
    return price;
}

bool flow_in_cache(const struct flow_price *price, const struct flow_op *from,
                   const struct flow_op *to, bool on_device)
{
    double apart = fmax((double)flow_bytes(from), (double)flow_bytes(to));
    if (apart <= price->near || price->reason)
        return apart <= price->near;
    double rate = to->kind == FLOW_PRODUCT ? 0 : flow_rate(to);
    return rate > CACHED_ABOVE * price->roof ||
           (!on_device && apart <= price->far && rate > price->bandwidth);
}

/* [low, expected, high] on a device, whose bandwidth is that of the data sheet. */
static void device_ns(const struct flow_price *price, double rate, double bytes, double out[3])
{
    out[0] = 0;
    out[1] = out[2] = bytes / price->bandwidth * 1e9;
    if (rate < MEMORY_BOUND * price->bandwidth)
        return;
    out[0] = out[1];
    out[1] = out[2] = fmax(out[1], bytes / rate * 1e9);
}

/* Time of bytes by the measured rates. A plain store fetches what it writes over. */
static double plain_ns(const struct flow_price *price, double read, double written)
{
    return 1e9 * ((read + written) / price->read + written / price->write);
}

void flow_byte_ns(const struct flow_price *price, const struct flow_op *op, double bytes,
                  bool writes, double out[3])
{
    double rate = flow_rate(op);
    if (price->read <= 0) {
        device_ns(price, rate, bytes, out);
        return;
    }
    double all = plain_ns(price, op->read > 0 ? (double)op->read : 0,
                          op->written > 0 ? (double)op->written : 0),
           plain = plain_ns(price, writes ? 0 : bytes, writes ? bytes : 0),
           share = all > 0 ? plain * (double)op->ns / all : plain;
    double slower = plain > 0 ? share / plain : 1;
    out[1] = share;
    if (slower > MEMORY_UP_TO) /* the slower, the less likely by the memory */
        out[1] =
            plain * (1 + fmax(0, 2 * MEMORY_UP_TO - slower) * (MEMORY_UP_TO - 1) / MEMORY_UP_TO);
    out[2] = share;
    out[0] = share > HIDDEN_FROM * plain ? 0 : fmin(bytes / price->roof * 1e9, out[1]);
}

/* The expected time of bytes in `there` less that in `here`; 0 if it is not more. */
static double longer_ns(const struct flow_price *price, const struct flow_op *there,
                        const struct flow_op *here, double bytes, bool writes)
{
    double new[3], old[3];
    flow_byte_ns(price, there, bytes, writes, new);
    flow_byte_ns(price, here, bytes, writes, old);
    return bytes > 0 ? fmax(0, new[1] - old[1]) : 0;
}

double flow_turns_ns(const struct flow_price *price, const struct flow_op *reduction,
                     const struct flow_op *op, double read, double written)
{
    return longer_ns(price, reduction, op, read, false) +
           longer_ns(price, reduction, op, written, true);
}
