/* SPDX-License-Identifier: Apache-2.0
 *
 * The kinds of operations in a timeline of workers, and with whom they communicate.
 */
#include "store/import/workers/workers_private.h"

const struct workers_kind workers_kinds[] = {
    {"forward-compute", WITH_NOBODY, NULL, "forward", 0},
    {"backward-compute", WITH_NOBODY, NULL, "backward", 0},
    {"optimizer", WITH_NOBODY, NULL, "optimizer", 0},
    {"gc", WITH_NOBODY, NULL, NULL, 0},
    {"layernorm-grads-all-reduce", WITH_TENSOR, "all_reduce", NULL, 7},
    {"forward-send", WITH_NEXT, "send", NULL, 1},
    {"forward-recv", WITH_PREVIOUS, "recv", NULL, 1},
    {"backward-send", WITH_PREVIOUS, "send", NULL, 2},
    {"backward-recv", WITH_NEXT, "recv", NULL, 2},
    {"embedding-grads-all-reduce", WITH_ENDS, "all_reduce", NULL, 3},
    {"grads-reduce-scatter", WITH_PEERS, "reduce_scatter", NULL, 4},
    {"params-all-gather", WITH_PEERS, "all_gather", NULL, 5},
    {"optimizer-clip-main-grad", WITH_ALL, "all_reduce", NULL, 6},
};
const size_t workers_kind_count = sizeof workers_kinds / sizeof *workers_kinds;
