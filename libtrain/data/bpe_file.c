/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of a tokenizer.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libtrain/base/output.h"
#include "libtrain/data/bpe.h"

int lt_bpe_save(const struct lt_bpe *bpe, const char *path, struct tacho_error *err)
{
    struct lt_output out;
    long merges = (long)lt_bpe_vocab(bpe) - LT_BPE_BYTES;
    int rc = lt_output_begin(&out, path, "-o", err);
    if (rc)
        return rc;
    FILE *file = fdopen(dup(out.fd), "w");
    if (!file)
        return lt_output_end(&out, errno, err);
    fprintf(file, "tacho-bpe 1 %ld\n", merges);
    for (long i = 0; i < merges; i++) {
        int32_t pair[2];
        lt_bpe_merge(bpe, (int32_t)i, pair);
        fprintf(file, "%ld %ld\n", (long)pair[0], (long)pair[1]);
    }
    fprintf(file, "sum %016" PRIx64 "\n", lt_bpe_identity(bpe));
    int failed = ferror(file) ? EIO : 0;
    if (fflush(file))
        failed = errno;
    if (fclose(file) && !failed)
        failed = errno;
    return lt_output_end(&out, failed, err);
}

/* The number that comes next in the text; -1 when something else does. */
static long number(const char **cursor)
{
    char *end;
    if (**cursor < '0' || **cursor > '9')
        return -1;
    errno = 0;
    long value = strtol(*cursor, &end, 10);
    *cursor = end;
    return errno ? -1 : value;
}

/* Steps over `text` if it comes next; 0 if something else does. */
static int is(const char **cursor, const char *text)
{
    size_t length = strlen(text);
    if (strncmp(*cursor, text, length) != 0)
        return 0;
    *cursor += length;
    return 1;
}

/* Reads the whole text of the file: version, number of merges, one line a merge, the sum. The sum
 * is recomputed from the merges, so any change of the file is found. */
static int parse(struct lt_bpe **out, const char *path, const char *text, struct tacho_error *err)
{
    static const char hint[] = "write it again with train bpe";
    const char *cursor = text;
    long version, merges, i;
    if (!is(&cursor, "tacho-bpe "))
        return tacho_fail(err, TACHO_EFORMAT, "give --tokenizer a file that train bpe wrote",
                          "%s: not a tokenizer", path);
    version = number(&cursor);
    if (version > 1)
        return tacho_fail(err, TACHO_EVERSION, "use the newer train",
                          "%s: tokenizer of version %ld", path, version);
    if (version != 1 || !is(&cursor, " ") || (merges = number(&cursor)) < 0 ||
        merges > LT_BPE_VOCAB - LT_BPE_BYTES || !is(&cursor, "\n"))
        return tacho_fail(err, TACHO_ECORRUPT, hint, "%s: damaged first line", path);
    int32_t *pairs = calloc(merges ? 2 * (size_t)merges : 1, sizeof *pairs);
    if (!pairs)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    for (i = 0; i < merges; i++) {
        long left = number(&cursor), right = is(&cursor, " ") ? number(&cursor) : -1;
        if (left < 0 || right < 0 || left >= LT_BPE_VOCAB || right >= LT_BPE_VOCAB ||
            !is(&cursor, "\n"))
            break;
        pairs[2 * i] = (int32_t)left;
        pairs[2 * i + 1] = (int32_t)right;
    }
    struct tacho_error why = {0};
    char sum[32];
    int rc = i < merges ? tacho_fail(&why, TACHO_ECORRUPT, NULL, "%ld merges, no merge in line %ld",
                                     merges, i + 2)
                        : lt_bpe_create(out, pairs, (size_t)merges, &why);
    free(pairs);
    if (rc)
        return tacho_fail(err, rc, rc == TACHO_ECORRUPT ? hint : NULL, "%s: %s", path, why.what);
    snprintf(sum, sizeof sum, "sum %016" PRIx64 "\n", lt_bpe_identity(*out));
    if (is(&cursor, sum) && *cursor == '\0')
        return 0;
    lt_bpe_destroy(*out);
    *out = NULL;
    return tacho_fail(err, TACHO_ECORRUPT, hint, "%s: damaged: wrong checksum", path);
}

#define FILE_CAP (LT_BPE_VOCAB * 14) /* no tokenizer is longer */

int lt_bpe_load(struct lt_bpe **out, const char *path, struct tacho_error *err)
{
    static const char hint[] = "give --tokenizer a file that train bpe wrote";
    FILE *file = fopen(path, "re");
    if (!file)
        return tacho_fail(err, errno == ENOENT ? TACHO_ENOTFOUND : TACHO_EIO, hint, "%s: %s", path,
                          strerror(errno));
    char *text = malloc(FILE_CAP + 1);
    size_t bytes = text ? fread(text, 1, FILE_CAP, file) : 0;
    int failed = ferror(file) ? errno : 0, more = bytes == FILE_CAP;
    fclose(file);
    int rc;
    if (!text)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    text[bytes] = '\0';
    if (failed)
        rc = tacho_fail(err, TACHO_EIO, hint, "%s: %s", path, strerror(failed));
    else if (more)
        rc = tacho_fail(err, TACHO_EFORMAT, hint, "%s: not a tokenizer", path);
    else
        rc = parse(out, path, text, err);
    free(text);
    return rc;
}
