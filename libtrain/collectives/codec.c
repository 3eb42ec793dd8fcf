/* SPDX-License-Identifier: Apache-2.0
 *
 * The codecs: each is its size, its writing and its reading.
 */
#include "libtrain/collectives/codec.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "libtrain/base/dtype.h"

/* ---- none, bf16 ---------------------------------------------------------------------------------- */

static size_t none_bytes(const struct lt_codec *codec, size_t count)
{
    (void)codec;
    return count * sizeof(float);
}

static void none_encode(const struct lt_codec *codec, const float *x, size_t count, void *message,
                        void *scratch)
{
    (void)codec, (void)scratch;
    memcpy(message, x, count * sizeof *x);
}

static void none_decode(const struct lt_codec *codec, const void *message, size_t count, float *x)
{
    (void)codec;
    memcpy(x, message, count * sizeof *x);
}

static size_t bf16_bytes(const struct lt_codec *codec, size_t count)
{
    (void)codec;
    return count * sizeof(uint16_t);
}

static void bf16_encode(const struct lt_codec *codec, const float *x, size_t count, void *message,
                        void *scratch)
{
    uint16_t *out = message;
    (void)codec, (void)scratch;
    for (size_t i = 0; i < count; i++)
        out[i] = lt_bf16_round(x[i]);
}

static void bf16_decode(const struct lt_codec *codec, const void *message, size_t count, float *x)
{
    const uint16_t *in = message;
    (void)codec;
    for (size_t i = 0; i < count; i++)
        x[i] = lt_bf16_float(in[i]);
}

/* ---- int8 ---------------------------------------------------------------------------------------- */

static size_t int8_bytes(const struct lt_codec *codec, size_t count)
{
    (void)codec;
    return count ? sizeof(float) + count : 0;
}

static void int8_encode(const struct lt_codec *codec, const float *x, size_t count, void *message,
                        void *scratch)
{
    int8_t *out = (int8_t *)message + sizeof(float);
    float most = 0;
    (void)codec, (void)scratch;
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf(x[i]));
    float scale = most / 127, inverse = most > 0 ? 127 / most : 0;
    memcpy(message, &scale, count ? sizeof scale : 0);
    for (size_t i = 0; i < count; i++)
        out[i] = (int8_t)lrintf(x[i] * inverse);
}

static void int8_decode(const struct lt_codec *codec, const void *message, size_t count, float *x)
{
    const int8_t *in = (const int8_t *)message + sizeof(float);
    float scale = 0;
    (void)codec;
    memcpy(&scale, message, count ? sizeof scale : 0);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)in[i] * scale;
}

/* ---- one bit ------------------------------------------------------------------------------------- */

static size_t one_bit_bytes(const struct lt_codec *codec, size_t count)
{
    (void)codec;
    return count ? 2 * sizeof(float) + (count + 7) / 8 : 0;
}

/* The means minimize the squares of what is lost. */
static void one_bit_encode(const struct lt_codec *codec, const float *x, size_t count,
                           void *message, void *scratch)
{
    uint8_t *bits = (uint8_t *)message + 2 * sizeof(float);
    double sum[2] = {0, 0};
    size_t terms[2] = {0, 0};
    (void)codec, (void)scratch;
    if (!count)
        return;
    memset(bits, 0, (count + 7) / 8);
    for (size_t i = 0; i < count; i++) {
        int negative = x[i] < 0;
        sum[negative] += (double)x[i];
        terms[negative]++;
        bits[i / 8] = (uint8_t)(bits[i / 8] | (unsigned)negative << (i % 8));
    }
    for (size_t i = 0; i < 2; i++) {
        float mean = terms[i] ? (float)(sum[i] / (double)terms[i]) : 0;
        memcpy((char *)message + i * sizeof mean, &mean, sizeof mean);
    }
}

static void one_bit_decode(const struct lt_codec *codec, const void *message, size_t count,
                           float *x)
{
    const uint8_t *bits = (const uint8_t *)message + 2 * sizeof(float);
    float mean[2];
    (void)codec;
    if (!count)
        return;
    memcpy(mean, message, sizeof mean);
    for (size_t i = 0; i < count; i++)
        x[i] = mean[bits[i / 8] >> (i % 8) & 1];
}

/* ---- the largest --------------------------------------------------------------------------------- */

struct entry {
    uint32_t index;
    float value;
};

static size_t top_k_count(const struct lt_codec *codec, size_t count)
{
    double wanted = ceil(codec->density * (double)count);
    return wanted < (double)count ? (size_t)wanted : count;
}

static size_t top_k_bytes(const struct lt_codec *codec, size_t count)
{
    return top_k_count(codec, count) * sizeof(struct entry);
}

/* The value that is number `rank` from the largest on, counted from 0; reorders x (Hoare 1961). */
static float select_largest(float *x, size_t count, size_t rank)
{
    size_t low = 0, high = count - 1;
    while (low < high) {
        float pivot = x[low + (high - low) / 2];
        size_t i = low, j = high;
        for (;;) {
            while (x[i] > pivot)
                i++;
            while (x[j] < pivot)
                j--;
            if (i >= j)
                break;
            float kept = x[i];
            x[i++] = x[j];
            x[j--] = kept;
        }
        if (rank <= j)
            high = j;
        else
            low = j + 1;
    }
    return x[low];
}

/* All that are above the k-th largest, and of those that equal it as many as there is room for. */
static void top_k_encode(const struct lt_codec *codec, const float *x, size_t count, void *message,
                         void *scratch)
{
    struct entry *out = message;
    size_t wanted = top_k_count(codec, count), made = 0, equal = 0;
    float *magnitude = scratch;
    if (!wanted)
        return;
    for (size_t i = 0; i < count; i++)
        magnitude[i] = fabsf(x[i]);
    float limit = select_largest(magnitude, count, wanted - 1);
    for (size_t i = 0; i < count; i++)
        equal += fabsf(x[i]) > limit;
    equal = wanted - equal;
    for (size_t i = 0; i < count && made < wanted; i++) {
        int at_limit = fabsf(x[i]) == limit && equal > 0;
        if (fabsf(x[i]) > limit || at_limit)
            out[made++] = (struct entry){(uint32_t)i, x[i]};
        equal -= (size_t)at_limit;
    }
}

static void top_k_decode(const struct lt_codec *codec, const void *message, size_t count, float *x)
{
    const struct entry *in = message;
    memset(x, 0, count * sizeof *x);
    for (size_t i = 0; i < top_k_count(codec, count); i++)
        x[in[i].index] = in[i].value;
}

/* ---- random k ------------------------------------------------------------------------------------ */

static size_t random_k_bytes(const struct lt_codec *codec, size_t count)
{
    return count ? sizeof(uint64_t) + top_k_count(codec, count) * sizeof(float) : 0;
}

/* A number that differs for each key and place (splitmix64). */
static uint64_t mixed(uint64_t key, uint64_t place)
{
    uint64_t x = key + (place + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The element that is drawn from the stretch. */
static size_t drawn(uint64_t key, size_t count, size_t wanted, size_t stretch)
{
    size_t first = count * stretch / wanted, size = count * (stretch + 1) / wanted - first;
    return first + (size_t)(mixed(key, stretch) % size);
}

/* The key comes from the gradient's own bits, so a run can be repeated. */
static void random_k_encode(const struct lt_codec *codec, const float *x, size_t count,
                            void *message, void *scratch)
{
    size_t wanted = top_k_count(codec, count);
    uint64_t key = 0;
    float *out = (float *)(void *)((char *)message + sizeof key);
    (void)scratch;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        key = mixed(key, bits);
    }
    if (count)
        memcpy(message, &key, sizeof key);
    for (size_t i = 0; i < wanted; i++)
        out[i] = x[drawn(key, count, wanted, i)];
}

static void random_k_decode(const struct lt_codec *codec, const void *message, size_t count,
                            float *x)
{
    uint64_t key = 0;
    const float *in = (const float *)(const void *)((const char *)message + sizeof key);
    size_t wanted = top_k_count(codec, count);
    if (count)
        memcpy(&key, message, sizeof key);
    memset(x, 0, count * sizeof *x);
    for (size_t i = 0; i < wanted; i++)
        x[drawn(key, count, wanted, i)] = in[i];
}

/* ---- the table ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int feeds_back;
    size_t (*bytes)(const struct lt_codec *codec, size_t count);
    void (*encode)(const struct lt_codec *codec, const float *x, size_t count, void *message,
                   void *scratch);
    void (*decode)(const struct lt_codec *codec, const void *message, size_t count, float *x);
} codecs[LT_CODEC_COUNT] = {
#define ROW(id, function, text, feedback) \
    [LT_CODEC_##id] = {(text), (feedback), function##_bytes, function##_encode, function##_decode},
    LT_CODEC_MAP(ROW)
#undef ROW
};

#define POWER_SGD "powersgd"

int lt_codec_find(const char *name)
{
    for (int i = 0; i < LT_CODEC_COUNT; i++)
        if (strcmp(name, codecs[i].name) == 0)
            return i;
    return strcmp(name, POWER_SGD) == 0 ? LT_CODEC_POWER_SGD : -1;
}

const char *lt_codec_name(enum lt_codec_kind kind)
{
    return kind == LT_CODEC_POWER_SGD ? POWER_SGD : codecs[kind].name;
}

int lt_codec_feeds_back(const struct lt_codec *codec)
{
    return codec->kind == LT_CODEC_POWER_SGD || codecs[codec->kind].feeds_back;
}

int lt_codec_codes(const struct lt_codec *codec)
{
    return codec->kind != LT_CODEC_NONE || codec->level;
}

size_t lt_codec_bytes(const struct lt_codec *codec, size_t count)
{
    return codecs[codec->kind].bytes(codec, count);
}

size_t lt_codec_scratch(const struct lt_codec *codec, size_t count)
{
    return codec->kind == LT_CODEC_TOP_K ? count * sizeof(float) : 0;
}

void lt_codec_encode(const struct lt_codec *codec, const float *x, size_t count, void *message,
                     void *scratch)
{
    codecs[codec->kind].encode(codec, x, count, message, scratch);
}

void lt_codec_decode(const struct lt_codec *codec, const void *message, size_t count, float *x)
{
    codecs[codec->kind].decode(codec, message, count, x);
}
