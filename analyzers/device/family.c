/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a kernel's name before its template arguments decides: the arguments name what is
 * computed, and an element-wise kernel may compute a part of anything. If several words of the
 * table are in a name, the first of them counts.
 */
#include "analyzers/device/family.h"

#include <ctype.h>
#include <string.h>

static const struct {
    const char *word; /* in lower case */
    enum an_family family;
} words[] = {{"triton_", AN_FAMILY_COMPILED},
             {"splitkreduce", AN_FAMILY_MATRIX},
             {"bgrad", AN_FAMILY_REDUCTION},
             {"adam", AN_FAMILY_OPTIMIZER},
             {"multi_tensor", AN_FAMILY_OPTIMIZER},
             {"sgd", AN_FAMILY_OPTIMIZER},
             {"optimizer", AN_FAMILY_OPTIMIZER},
             {"dot_do_o", AN_FAMILY_ATTENTION},
             {"convert_dq", AN_FAMILY_ATTENTION},
             {"layer_norm", AN_FAMILY_NORM},
             {"layernorm", AN_FAMILY_NORM},
             {"gammabeta", AN_FAMILY_NORM},
             {"rms_norm", AN_FAMILY_NORM},
             {"rmsnorm", AN_FAMILY_NORM},
             {"rowwisemoments", AN_FAMILY_NORM},
             {"batch_norm", AN_FAMILY_NORM},
             {"group_norm", AN_FAMILY_NORM},
             {"groupnorm", AN_FAMILY_NORM},
             {"softmax", AN_FAMILY_LOSS},
             {"nll_loss", AN_FAMILY_LOSS},
             {"cross_entropy", AN_FAMILY_LOSS},
             {"crossentropy", AN_FAMILY_LOSS},
             {"classifier", AN_FAMILY_LOSS},
             {"embedding", AN_FAMILY_INDEX},
             {"gather", AN_FAMILY_INDEX},
             {"scatter", AN_FAMILY_INDEX},
             {"compute_grad_weight", AN_FAMILY_INDEX},
             {"index_", AN_FAMILY_INDEX},
             {"sort", AN_FAMILY_INDEX},
             {"elementwise", AN_FAMILY_ELEMENTWISE},
             {"pointwise", AN_FAMILY_ELEMENTWISE},
             {"catarray", AN_FAMILY_ELEMENTWISE},
             {"copy", AN_FAMILY_ELEMENTWISE},
             {"fill", AN_FAMILY_ELEMENTWISE},
             {"cast", AN_FAMILY_ELEMENTWISE},
             {"gelu", AN_FAMILY_ELEMENTWISE},
             {"residual", AN_FAMILY_ELEMENTWISE},
             {"dropout", AN_FAMILY_ELEMENTWISE},
             {"reduce", AN_FAMILY_REDUCTION},
             {"column_", AN_FAMILY_REDUCTION},
             {"norm_partials", AN_FAMILY_REDUCTION},
             {"loop_", AN_FAMILY_COMPILED},
             {"_fusion", AN_FAMILY_COMPILED},
             {"wrapped_", AN_FAMILY_COMPILED}};

#define NAME_MOST 256

static enum an_family by_name(const char *name)
{
    char first[NAME_MOST];
    size_t length = strcspn(name, "<");
    length = length < NAME_MOST ? length : NAME_MOST - 1;
    for (size_t i = 0; i < length; i++)
        first[i] = (char)tolower((unsigned char)name[i]);
    first[length] = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(first, words[i].word))
            return words[i].family;
    return AN_FAMILY_OTHER;
}

enum an_family an_family_of(enum an_device_class class, const char *name)
{
    if (class == AN_DEVICE_MATRIX || class == AN_DEVICE_FUSED)
        return AN_FAMILY_MATRIX;
    if (class == AN_DEVICE_ATTENTION)
        return AN_FAMILY_ATTENTION;
    return class == AN_DEVICE_MEMSET ? AN_FAMILY_ELEMENTWISE : by_name(name);
}
