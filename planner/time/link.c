/* SPDX-License-Identifier: Apache-2.0
 *
 * Alpha-beta cost of collectives over the links of a node and the network between nodes.
 */
#include "planner/time/link.h"

#include <math.h>

#define LATENCY_INSIDE  4e-6  /* of a message inside a node, seconds (nccl-tests, small messages) */
#define LATENCY_BETWEEN 12e-6 /* between nodes */
#define TREE_DEPTH      2     /* a tree needs 2 log2(n) messages */

struct plan_group plan_group_of(const struct plan_machine *machine, double size, double stride)
{
    double places = fmax(floor((double)machine->node / stride), 1);
    return (struct plan_group){size, fmin(size, places)};
}

/* A ring between nodes crosses each network card once; with all rails the cards of the group's
 * devices in a node carry their part of it, and the link inside the node is the limit then. Without
 * them one card carries the ring, with the shares of all devices of the group that it belongs to.
 */
double plan_ring_bytes_per_s(const struct plan_case *of, struct plan_group group)
{
    const struct plan_machine *machine = &of->machine;
    double inside = machine->device.link_bytes_per_s * of->constants->link;
    if (group.size <= group.inside)
        return inside;
    double rails = group.inside;
    if (!machine->software.all_rails)
        rails = fmin(rails, fmax(machine->sharing, 1));
    return fmin(inside, rails * machine->network_bytes_per_s * of->constants->network);
}

double plan_ring_latency(struct plan_group group)
{
    double message = group.size > group.inside ? LATENCY_BETWEEN : LATENCY_INSIDE;
    double messages = fmin(2 * (group.size - 1), 8 * TREE_DEPTH * log2(group.size));
    return message * messages;
}

double plan_all_reduce(const struct plan_case *of, struct plan_group group, double bytes)
{
    if (group.size <= 1 || bytes <= 0)
        return 0;
    return 2 * (group.size - 1) / group.size * bytes / plan_ring_bytes_per_s(of, group) +
           plan_ring_latency(group);
}

double plan_all_to_all(const struct plan_case *of, struct plan_group group, double bytes)
{
    if (group.size <= 1 || bytes <= 0)
        return 0;
    const struct plan_machine *machine = &of->machine;
    double link = machine->device.link_bytes_per_s * of->constants->link;
    double network = machine->network_bytes_per_s * of->constants->network;
    double inside = bytes * (group.inside - 1) / group.size / link;
    double between = bytes * (group.size - group.inside) / group.size / network;
    return fmax(inside, between) + plan_ring_latency(group) / 2;
}

double plan_send(const struct plan_case *of, double bytes)
{
    return bytes / (of->machine.network_bytes_per_s * of->constants->network) + LATENCY_BETWEEN;
}
