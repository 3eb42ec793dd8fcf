/* SPDX-License-Identifier: Apache-2.0
 *
 * That libtrain/cuda/nccl.h declares of NCCL what its own header declares. Compiled, not run.
 */
#include <nccl.h>

#include "libtrain/cuda/nccl.h"

static_assert(NCCL_FP32 == ncclFloat32 && NCCL_FP64 == ncclFloat64, "types of elements");
static_assert(NCCL_SUM == ncclSum, "operations");
static_assert(sizeof(struct nccl_id) == sizeof(ncclUniqueId), "identity");

/* The same number of parameters, each as large. */
template <class R, class... P> constexpr size_t shape(R (*)(P...))
{
    size_t sum = sizeof(R), sizes[] = {sizeof(P)..., 0};
    for (size_t size : sizes)
        sum = 31 * sum + size;
    return sum;
}
#define SAME(type, name, parameters) \
    static_assert(shape((decltype(&nccl##name))nullptr) == shape((decltype(nccl::name))nullptr), \
                  #name);
NCCL_MAP(SAME)
