/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of collectives. Libraries write one collective in many ways (AllReduce, allreduce_,
 * all-reduce, _allgather_base, ncclDevKernel_ReduceScatter_Sum_f32); tacho writes it in one.
 */
#include <ctype.h>
#include <string.h>

#include "store/store.h"

/* A name in small letters, without what stands between its words. Longer ones first. */
static const struct collective {
    const char *letters, *name;
} collectives[] = {
    {"crossdevicereduce", "all_reduce"}, /* kernels of vLLM */
    {"reducescatter", "reduce_scatter"},
    {"allreduce", "all_reduce"},
    {"allgather", "all_gather"},
    {"alltoall", "all_to_all"},
    {"broadcast", "broadcast"},
    {"sendrecv", NULL}, /* kernels of NCCL, of pairs and of all-to-all alike */
    {"barrier", "barrier"},
    {"scatter", "scatter"},
    {"receive", "recv"},
    {"reduce", "reduce"},
    {"gather", "gather"},
    {"bcast", "broadcast"},
    {"send", "send"},
    {"recv", "recv"},
};

static bool is_between(char byte)
{
    return byte == '_' || byte == '-';
}

/* How many bytes of a text are the letters, with what may stand between them; 0: it begins
 * otherwise. */
static size_t begins_with(const char *text, size_t bytes, const char *letters)
{
    size_t i = 0;
    while (*letters && i < bytes) {
        if (tolower((unsigned char)text[i]) == *letters)
            letters++;
        else if (!is_between(text[i]))
            return 0;
        i++;
    }
    return *letters ? 0 : i;
}

/* The row of what a text begins with; *used: bytes of the text that say it. NULL: none. */
static const struct collective *row_at(const char *text, size_t bytes, size_t *used)
{
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++) {
        *used = begins_with(text, bytes, collectives[i].letters);
        if (*used)
            return &collectives[i];
    }
    return NULL;
}

const char *store_collective(const char *name, size_t bytes, size_t *used)
{
    size_t taken;
    const struct collective *row = row_at(name, bytes, &taken);
    if (row && used)
        *used = taken;
    return row ? row->name : NULL;
}

/* Does a word begin here: behind anything but a letter, or with a capital behind a small one? */
static bool begins_word(const char *text, size_t i)
{
    return i == 0 || !isalpha((unsigned char)text[i - 1]) ||
           (islower((unsigned char)text[i - 1]) && isupper((unsigned char)text[i]));
}

const char *store_collective_in(const char *text, size_t bytes)
{
    const struct collective *row = NULL;
    size_t used;
    for (size_t i = 0; i < bytes && !row; i++)
        if (begins_word(text, i) && !is_between(text[i]))
            row = row_at(text + i, bytes - i, &used);
    return row ? row->name : NULL;
}
