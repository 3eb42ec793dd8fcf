/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of a choice; compress.c measures.
 */
#include "libtrain/parallel/adapt.h"

int lt_adapt_add(struct lt_adapt *adapt, const struct lt_codec *codec)
{
    if (adapt->choices == LT_ADAPT_CHOICES)
        return -1;
    adapt->choice[adapt->choices++] = (struct lt_adapt_choice){.codec = *codec};
    return 0;
}

int lt_adapt_link(struct lt_adapt *adapt, double small_seconds, double small_bytes,
                  double large_seconds, double large_bytes)
{
    if (large_bytes <= small_bytes || large_seconds <= small_seconds)
        return 0;
    adapt->byte_seconds = (large_seconds - small_seconds) / (large_bytes - small_bytes);
    adapt->message_seconds = small_seconds - adapt->byte_seconds * small_bytes;
    if (adapt->message_seconds < 0)
        adapt->message_seconds = 0;
    return 1;
}

double lt_adapt_seconds(const struct lt_adapt *adapt, const struct lt_adapt_choice *choice)
{
    return adapt->message_seconds * choice->messages + adapt->byte_seconds * choice->bytes +
           choice->processor;
}

void lt_adapt_choose(struct lt_adapt *adapt)
{
    adapt->chosen = 0;
    for (int i = 1; i < adapt->choices; i++)
        if (adapt->choice[i].predicted < adapt->choice[adapt->chosen].predicted)
            adapt->chosen = i;
}
