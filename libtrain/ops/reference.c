/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference backend: the templates reference_*typed.h, once for each element type, and what
 * both backends do alike with the choices of a mixture of experts.
 */
#include <math.h>
#include <string.h>

#include "libtrain/ops/kernels.h"
#include "libtrain/ops/reference.h"
#include "libtrain/ops/typed.h"

void lt_route_choose(const struct lt_route *route, int64_t r, const float *logits)
{
    int32_t *slot = route->slot + r * route->k;
    for (int64_t j = 0; j < route->k; j++) {
        int64_t best = -1;
        for (int64_t e = 0; e < route->experts; e++) {
            int taken = 0;
            for (int64_t i = 0; i < j; i++)
                taken |= slot[i] == e;
            if (!taken && (best < 0 || logits[e] > logits[best]))
                best = e;
        }
        slot[j] = (int32_t)best;
    }
}

void lt_route_places(const struct lt_route *route)
{
    memset(route->load, 0, (size_t)route->experts * sizeof *route->load);
    for (int64_t j = 0; j < route->k; j++)
        for (int64_t r = 0; r < route->rows; r++) {
            int32_t *slot = &route->slot[r * route->k + j], expert = *slot;
            int64_t place = (int64_t)route->load[expert]++;
            *slot =
                place < route->capacity ? (int32_t)(expert * route->capacity + place) : -1 - expert;
        }
}

#define LT_TYPE fp32
#include "libtrain/ops/reference_typed.h"

#include "libtrain/ops/reference_experts_typed.h"
#include "libtrain/ops/reference_image_typed.h"
#include "libtrain/ops/reference_llama_typed.h"
#include "libtrain/ops/reference_part_typed.h"
#undef LT_TYPE
#define LT_TYPE bf16
#include "libtrain/ops/reference_typed.h"

#include "libtrain/ops/reference_experts_typed.h"
#include "libtrain/ops/reference_image_typed.h"
#include "libtrain/ops/reference_llama_typed.h"
#include "libtrain/ops/reference_part_typed.h"
#undef LT_TYPE
#define LT_TYPE fp16
#include "libtrain/ops/reference_typed.h"

#include "libtrain/ops/reference_experts_typed.h"
#include "libtrain/ops/reference_image_typed.h"
#include "libtrain/ops/reference_llama_typed.h"
#include "libtrain/ops/reference_part_typed.h"
