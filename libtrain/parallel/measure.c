/* SPDX-License-Identifier: Apache-2.0
 *
 * The link is measured by exchanges with the ring's neighbours, all ranks at the same time. What a
 * codec takes in the processor is measured by its own reduction, on a group whose messages come
 * back to their sender.
 */
#include "libtrain/parallel/measure.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { ROWS = 8, EXCHANGES = 8, REPEATS = 5, SMALL = 64, LEAST = 16384, LARGEST = 1 << 20 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Seconds of an exchange of so many bytes with both neighbours, as the mean of several in a row:
 * one alone says little, because a rank that comes later finds its message there. */
static double row_seconds(struct lt_group *group, const void *out, void *in, size_t bytes)
{
    int next = (group->rank + 1) % group->ranks,
        before = (group->rank + group->ranks - 1) % group->ranks;
    double start = now();
    for (int i = 0; i < EXCHANGES; i++)
        lt_group_exchange(group, next, out, bytes, before, in, bytes);
    return (now() - start) / EXCHANGES;
}

/* The least of several rows, of small and of large messages in turn. */
static int measure_link(struct lt_group *group, struct lt_adapt *adapt, const void *out, void *in,
                        size_t large)
{
    double least[2] = {HUGE_VAL, HUGE_VAL};
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < 2; j++)
            least[j] = fmin(least[j], row_seconds(group, out, in, j ? large : SMALL));
    return lt_adapt_link(adapt, least[0], SMALL, least[1], (double)large);
}

/* What is sent comes back. */
static void echo(void *arg, int to, const void *out, size_t out_bytes, int from, void *in,
                 size_t in_bytes)
{
    size_t bytes = out_bytes < in_bytes ? out_bytes : in_bytes;
    (void)arg, (void)to, (void)from;
    if (in && out && bytes)
        memcpy(in, out, bytes);
}

struct work {
    struct lt_compress *compress;
    enum lt_all_reduce kind;
    int unit;
    size_t count; /* elements */
    const float *data;
    float *sum, *copy;
    void *scratch;
};

/* One reduction on a group of echoes. */
static void reduce(const struct work *work, struct lt_group *echoes, const struct lt_codec *codec)
{
    struct lt_compress *compress = work->compress;
    float *residual = compress->residual;
    if (residual && lt_codec_feeds_back(codec))
        residual += compress->packed[work->unit];
    else
        residual = NULL;
    memcpy(work->copy, work->data, work->count * sizeof *work->copy);
    if (codec->kind == LT_CODEC_POWER_SGD)
        lt_compress_reduce(compress, work->unit, work->copy, work->sum, 1, work->scratch);
    else if (lt_codec_codes(codec)) /* chunks of one size, so that each fits where it comes back */
        lt_group_reduce_coded(echoes, codec, &compress->packer, work->copy,
                              work->count / (size_t)echoes->ranks * (size_t)echoes->ranks, residual,
                              work->sum, 1, work->scratch);
    else
        lt_group_reduce_to(echoes, work->kind, LT_DTYPE_FP32, work->copy, work->count, work->sum, 1,
                           work->scratch);
}

/* Seconds of the processor for one unit: the least of several, because another program may take the
 * core in between; *ratio: what packing left of the messages. */
static double processor_seconds(const struct work *work, const struct lt_codec *codec,
                                double *ratio)
{
    struct lt_compress *compress = work->compress;
    struct lt_group *group = compress->group, echoes = *group;
    struct lt_packer packer = compress->packer;
    struct lt_codec own = compress->codec;
    double least = HUGE_VAL;
    echoes.exchange = echo;
    compress->group = &echoes;
    compress->codec = *codec;
    for (int i = 0; i < REPEATS; i++) {
        double start = now();
        reduce(work, &echoes, codec);
        least = fmin(least, now() - start);
    }
    *ratio = 1;
    if (compress->packer.before > packer.before)
        *ratio = (double)(compress->packer.after - packer.after) /
                 (double)(compress->packer.before - packer.before);
    lt_compress_forget(compress, work->unit);
    compress->packer = packer; /* its contexts are the same, its counts those of the run */
    compress->group = group;
    compress->codec = own;
    return least;
}

/* What a rank sends in a reduction of all units. */
static void add_messages(const struct work *work, struct lt_adapt_choice *choice, double ratio)
{
    const struct lt_compress *compress = work->compress;
    const struct lt_group *group = compress->group;
    uint64_t others = (uint64_t)group->ranks - 1;
    for (int i = 0; i < compress->units->count; i++) {
        const struct lt_unit *unit = &compress->units->unit[i];
        struct lt_group_sent sent = {sizeof(float) * (unit->all.count - unit->own_count), others};
        double sizes = 0; /* bytes of messages that only say how large others are */
        if (lt_codec_codes(&choice->codec))
            sent = lt_compress_formula(&choice->codec, compress->parameters, compress->units, i,
                                       group->rank, group->ranks);
        if (choice->codec.level)
            sizes = (double)(others * sizeof(uint64_t));
        choice->bytes += ((double)sent.bytes - sizes) * ratio + sizes;
        choice->messages += (double)sent.messages;
    }
}

/* The slowest rank's seconds of each choice, and whether all could measure their link. */
static void agree(struct lt_group *group, struct lt_adapt *adapt, float *all)
{
    size_t each = (size_t)adapt->choices + 1;
    float *own = all + (size_t)group->rank * each;
    own[adapt->choices] = (float)adapt->measured;
    for (int i = 0; i < adapt->choices; i++)
        own[i] = (float)adapt->choice[i].predicted;
    lt_group_all_gather(group, LT_DTYPE_FP32, all, each * (size_t)group->ranks);
    for (int rank = 0; rank < group->ranks; rank++) {
        const float *theirs = all + (size_t)rank * each;
        adapt->measured = adapt->measured && theirs[adapt->choices] > 0;
        for (int i = 0; i < adapt->choices; i++)
            adapt->choice[i].predicted = fmax(adapt->choice[i].predicted, (double)theirs[i]);
    }
}

/* Seconds of all ranks in fp32, so that each compares the same numbers. */
static void round_predictions(struct lt_adapt *adapt)
{
    for (int i = 0; i < adapt->choices; i++)
        adapt->choice[i].predicted = (double)(float)lt_adapt_seconds(adapt, &adapt->choice[i]);
}

void lt_measure_choices(struct lt_compress *compress, struct lt_adapt *adapt,
                        enum lt_all_reduce kind, int unit, const float *data, float *sum,
                        void *scratch, size_t scratch_bytes)
{
    struct lt_group *group = compress->group;
    float *copy = (float *)(void *)((char *)scratch + scratch_bytes) - compress->units->largest;
    struct work work = {.compress = compress,
                        .kind = kind,
                        .unit = unit,
                        .count = compress->units->unit[unit].all.count,
                        .data = data,
                        .sum = sum,
                        .copy = copy,
                        .scratch = scratch};
    uint64_t bytes = group->bytes, messages = group->messages;
    size_t large = work.count * sizeof(float), elements = 0;
    adapt->done = 1;
    if (large < LEAST * (size_t)group->ranks)
        return; /* too little to measure, on all ranks */
    for (int i = 0; i < compress->units->count; i++)
        elements += compress->units->unit[i].all.count;
    if (large > LARGEST)
        large = LARGEST;
    adapt->measured = measure_link(group, adapt, data, copy, large);
    for (int i = 0; i < adapt->choices; i++) {
        struct lt_adapt_choice *choice = &adapt->choice[i];
        double ratio, seconds = processor_seconds(&work, &choice->codec, &ratio);
        choice->processor = seconds * (double)elements / (double)work.count;
        add_messages(&work, choice, ratio);
    }
    round_predictions(adapt);
    agree(group, adapt, copy);
    adapt->sent_bytes = group->bytes - bytes;
    adapt->sent_messages = group->messages - messages;
    if (adapt->measured)
        lt_adapt_choose(adapt);
}
