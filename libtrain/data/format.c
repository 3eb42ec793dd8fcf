/* SPDX-License-Identifier: Apache-2.0
 *
 * The headers of the data files that the engine reads: token shards as llm.c writes them, MNIST's
 * IDX, raw PGM and PPM. Everything that a header claims is checked against the size of the file
 * before anything is allocated by it.
 */
#include "libtrain/data/format.h"

#include <string.h>

#define SHARD_MAGIC_32 20240801 /* llm.c's shards of uint32 tokens */
#define SIDE_CAP       (1u << 16)

int lt_format_head(const struct lt_dataset *data, size_t index, unsigned char *head,
                   size_t *head_bytes, struct tacho_error *err)
{
    struct lt_dataset_file file = lt_dataset_file(data, index);
    *head_bytes = file.bytes < LT_FORMAT_HEAD ? (size_t)file.bytes : LT_FORMAT_HEAD;
    return lt_dataset_read(data, file.start, head, *head_bytes, err);
}

static uint32_t little(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static uint32_t big(const unsigned char *bytes)
{
    return (uint32_t)bytes[3] | (uint32_t)bytes[2] << 8 | (uint32_t)bytes[1] << 16 |
           (uint32_t)bytes[0] << 24;
}

/* ---- token shards -------------------------------------------------------------------------------------------------------- */

int lt_format_is_shard(const unsigned char *head, size_t head_bytes)
{
    return head_bytes >= 4 && (little(head) == LT_SHARD_MAGIC || little(head) == SHARD_MAGIC_32);
}

int lt_format_shard(const char *path, const unsigned char *head, size_t head_bytes, uint64_t bytes,
                    uint64_t *tokens, struct tacho_error *err)
{
    static const char hint[] = "write it again, for instance with train bpe --encode";
    if (head_bytes >= 4 && little(head) == SHARD_MAGIC_32)
        return tacho_fail(err, TACHO_EFORMAT, "only uint16 shards (magic 20240520) are read",
                          "%s: a shard of 32-bit tokens (magic %d)", path, SHARD_MAGIC_32);
    if (!lt_format_is_shard(head, head_bytes))
        return tacho_fail(
            err, TACHO_EFORMAT, "give --data shards as llm.c or train bpe --encode write them",
            "%s: not a token shard (it does not start with %d)", path, LT_SHARD_MAGIC);
    if (bytes < LT_SHARD_HEADER || head_bytes < 12)
        return tacho_fail(err, TACHO_ECORRUPT, hint, "%s: ends inside its header, after %llu bytes",
                          path, (unsigned long long)bytes);
    if (little(head + 4) != LT_SHARD_VERSION)
        return tacho_fail(err, TACHO_EVERSION, "only version 1 is read", "%s: shard of version %lu",
                          path, (unsigned long)little(head + 4));
    uint64_t count = little(head + 8), payload = bytes - LT_SHARD_HEADER;
    if (count > INT32_MAX || payload != 2 * count)
        return tacho_fail(err, TACHO_ECORRUPT, hint,
                          "%s: says %llu tokens of 2 bytes, but has %llu bytes for them", path,
                          (unsigned long long)count, (unsigned long long)payload);
    if (count == 0)
        return tacho_fail(err, TACHO_EFORMAT, hint, "%s: has no tokens", path);
    *tokens = count;
    return 0;
}

void lt_format_shard_header(unsigned char *head, uint64_t tokens)
{
    const uint32_t words[] = {LT_SHARD_MAGIC, LT_SHARD_VERSION, (uint32_t)tokens};
    memset(head, 0, LT_SHARD_HEADER);
    for (size_t i = 0; i < 12; i++)
        head[i] = (unsigned char)(words[i / 4] >> (i % 4 * 8));
}

/* ---- IDX ----------------------------------------------------------------------------------------------------------------- */

int lt_format_is_idx(const unsigned char *head, size_t head_bytes)
{
    return head_bytes >= 4 && head[0] == 0 && head[1] == 0 && head[2] >= 8 && head[2] <= 14 &&
           head[3] >= 1 && head[3] <= 8;
}

int lt_format_idx(const char *path, const unsigned char *head, size_t head_bytes, uint64_t bytes,
                  struct lt_idx *out, struct tacho_error *err)
{
    static const char hint[] = "fetch the file again";
    if (head_bytes >= 2 && head[0] == 0x1f && head[1] == 0x8b)
        return tacho_fail(err, TACHO_EFORMAT, "gunzip it first", "%s: compressed", path);
    if (!lt_format_is_idx(head, head_bytes))
        return tacho_fail(err, TACHO_EFORMAT,
                          "give --data an images and a labels file in IDX format, as MNIST's",
                          "%s: not an IDX file", path);
    if (head[2] != 8)
        return tacho_fail(err, TACHO_EFORMAT, "only bytes (type 8) are read",
                          "%s: values of IDX type %d", path, head[2]);
    *out = (struct lt_idx){.dimensions = head[3], .each = 1, .offset = 4 + 4 * (size_t)head[3]};
    if (head_bytes < out->offset)
        return tacho_fail(err, TACHO_ECORRUPT, hint, "%s: ends inside its header, after %llu bytes",
                          path, (unsigned long long)bytes);
    out->count = big(head + 4);
    for (int i = 1; i < out->dimensions; i++) {
        uint64_t side = big(head + 4 + 4 * i);
        if (side == 0 || side > SIDE_CAP || out->each * side > SIDE_CAP * (uint64_t)SIDE_CAP / 16)
            return tacho_fail(err, TACHO_ECORRUPT, hint, "%s: dimension %d is %llu", path, i + 1,
                              (unsigned long long)side);
        out->each *= side;
        if (out->dimensions == 3)
            out->side[i - 1] = side;
    }
    if (out->count == 0)
        return tacho_fail(err, TACHO_EFORMAT, hint, "%s: has no samples", path);
    if (bytes - out->offset != out->count * out->each)
        return tacho_fail(err, TACHO_ECORRUPT, hint,
                          "%s: says %llu samples of %llu bytes, but has %llu bytes for them", path,
                          (unsigned long long)out->count, (unsigned long long)out->each,
                          (unsigned long long)(bytes - out->offset));
    return 0;
}

/* ---- PGM, PPM ------------------------------------------------------------------------------------------------------------ */

int lt_format_is_pnm(const unsigned char *head, size_t head_bytes)
{
    return head_bytes >= 3 && head[0] == 'P' && (head[1] == '5' || head[1] == '6') &&
           strchr(" \t\r\n#", head[2]) && head[2];
}

static void skip_blanks(const unsigned char *head, size_t head_bytes, size_t *cursor)
{
    while (*cursor < head_bytes && head[*cursor] && strchr(" \t\r\n\v\f#", head[*cursor])) {
        if (head[*cursor] == '#')
            while (*cursor < head_bytes && head[*cursor] != '\n')
                ++*cursor;
        *cursor += *cursor < head_bytes;
    }
}

/* A number after blanks and comments; 0 when it is missing or too large. */
static uint32_t number(const unsigned char *head, size_t head_bytes, size_t *cursor)
{
    uint32_t value = 0;
    skip_blanks(head, head_bytes, cursor);
    while (*cursor < head_bytes && head[*cursor] >= '0' && head[*cursor] <= '9' &&
           value <= SIDE_CAP)
        value = value * 10 + (uint32_t)(head[(*cursor)++] - '0');
    return value <= SIDE_CAP ? value : 0;
}

int lt_format_pnm(const char *path, const unsigned char *head, size_t head_bytes, uint64_t bytes,
                  struct lt_pnm *out, struct tacho_error *err)
{
    static const char hint[] = "convert the images to JPEG, PNG, raw PGM (P5) or PPM (P6)";
    size_t cursor = 2;
    if (!lt_format_is_pnm(head, head_bytes))
        return tacho_fail(err, TACHO_EFORMAT, hint, "%s: not a raw PGM or PPM image", path);
    *out = (struct lt_pnm){.channels = head[1] == '6' ? 3 : 1};
    out->width = number(head, head_bytes, &cursor);
    out->height = number(head, head_bytes, &cursor);
    out->highest = number(head, head_bytes, &cursor);
    if (out->width == 0 || out->height == 0 || out->highest == 0 || out->highest > 65535 ||
        cursor >= head_bytes || !strchr(" \t\r\n\v\f", head[cursor]) || !head[cursor])
        return tacho_fail(err, TACHO_ECORRUPT, hint, "%s: damaged header of a PGM or PPM image",
                          path);
    out->offset = cursor + 1;
    out->value_bytes = out->highest > 255 ? 2 : 1;
    uint64_t need =
        (uint64_t)out->width * out->height * (uint64_t)(out->channels * out->value_bytes);
    if (bytes - out->offset != need)
        return tacho_fail(err, TACHO_ECORRUPT, hint,
                          "%s: %lu x %lu pixels need %llu bytes, it has %llu", path,
                          (unsigned long)out->width, (unsigned long)out->height,
                          (unsigned long long)need, (unsigned long long)(bytes - out->offset));
    return 0;
}
