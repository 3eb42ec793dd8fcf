/* SPDX-License-Identifier: Apache-2.0
 *
 * train bpe: learns byte-pair merges from text, or writes text as a shard of tokens.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libtrain/base/output.h"
#include "libtrain/data/bpe.h"
#include "libtrain/data/format.h"
#include "workloads/input.h"
#include "workloads/recipe.h"

static void print_help(void)
{
    printf("usage: train bpe [--data PATH]... [--vocab N] -o FILE\n"
           "       train bpe --encode [--tokenizer FILE] [--data PATH]... -o SHARD\n"
           "Learns byte-pair merges from text for train --tokenizer, or writes text as tokens (a "
           "shard as llm.c's) for train "
           "--data.\n\n"
           "  --data PATH       text file or folder; may be repeated (default: "
           "/usr/share/common-licenses)\n"
           "  --vocab N         tokens including the 256 bytes, at most %d (default 4096)\n"
           "  --encode          write tokens instead of learning\n"
           "  --tokenizer FILE  what to encode with (default: one token per byte)\n"
           "  -o, --output FILE where to\n",
           LT_BPE_VOCAB);
}

/* ---- encoding ------------------------------------------------------------------------------------------------------------ */

struct shard {
    FILE *file;
    const struct lt_bpe *bpe; /* NULL: a token a byte */
    const char *path;
    uint64_t tokens;
    int failed; /* errno */
};

/* Appends the tokens of one word to the shard, as little-endian 16-bit numbers. Called by
 * lt_bpe_words for each word of the text. */
static int write_word(void *arg, uint64_t offset, const unsigned char *word, size_t length,
                      struct tacho_error *err)
{
    struct shard *shard = arg;
    int32_t tokens[LT_BPE_WORD];
    unsigned char bytes[2 * LT_BPE_WORD];
    size_t count = length;
    (void)offset;
    for (size_t i = 0; i < length; i++)
        tokens[i] = word[i];
    if (shard->bpe)
        count = lt_bpe_encode_word(shard->bpe, word, length, tokens);
    for (size_t i = 0; i < count; i++) {
        bytes[2 * i] = (unsigned char)(tokens[i] & 255);
        bytes[2 * i + 1] = (unsigned char)(tokens[i] >> 8);
    }
    shard->tokens += count;
    if (shard->tokens > INT32_MAX)
        return tacho_fail(err, TACHO_EUSAGE, "write several shards, from part of the text each",
                          "%s: more than %d tokens do not fit a shard", shard->path, INT32_MAX);
    if (fwrite(bytes, 2, count, shard->file) == count)
        return 0;
    shard->failed = errno;
    return TACHO_EIO;
}

/* The header states how many tokens follow, which is known only at the end, so room is left for
 * it first. */
static int write_shard(struct shard *shard, const struct lt_dataset *data, struct tacho_error *err)
{
    unsigned char head[LT_SHARD_HEADER] = {0};
    if (fwrite(head, 1, sizeof head, shard->file) != sizeof head) {
        shard->failed = errno;
        return TACHO_EIO;
    }
    int rc = lt_bpe_words(data, write_word, shard, err);
    if (rc)
        return rc;
    lt_format_shard_header(head, shard->tokens);
    if (fseek(shard->file, 0, SEEK_SET) ||
        fwrite(head, 1, sizeof head, shard->file) != sizeof head || fflush(shard->file)) {
        shard->failed = errno;
        return TACHO_EIO;
    }
    return 0;
}

/* Writes the text as a shard of tokens, by the merges of --tokenizer or one token a byte, and
 * prints what came of it. */
static int encode(const struct lt_dataset *data, const struct options *options, const char *output,
                  struct tacho_error *err)
{
    struct lt_output out;
    struct shard shard = {.path = output};
    struct lt_bpe *bpe = NULL;
    int rc = options->tokenizer ? lt_bpe_load(&bpe, options->tokenizer, err) : 0;
    if (rc)
        return rc;
    shard.bpe = bpe;
    rc = lt_output_begin(&out, output, "-o", err);
    if (rc == 0) {
        shard.file = fdopen(dup(out.fd), "w");
        rc = shard.file ? write_shard(&shard, data, err) : (shard.failed = errno, TACHO_EIO);
        if (shard.file && fclose(shard.file) && rc == 0)
            shard.failed = errno;
        if (rc == 0 || shard.failed)
            rc = lt_output_end(&out, shard.failed, err);
        else
            lt_output_drop(&out);
    }
    if (rc == 0)
        printf("%s: %llu tokens of %lld from %llu bytes, %.2f bytes per token\n", output,
               (unsigned long long)shard.tokens, bpe ? (long long)lt_bpe_vocab(bpe) : 256ll,
               (unsigned long long)lt_dataset_bytes(data),
               (double)lt_dataset_bytes(data) / (double)shard.tokens);
    lt_bpe_destroy(bpe);
    return rc;
}

/* ---- learning ------------------------------------------------------------------------------------------------------------ */

/* Learns merges from all of the text and writes the tokenizer. */
static int learn(const struct lt_dataset *data, const struct options *options, const char *output,
                 struct tacho_error *err)
{
    struct lt_bpe *bpe = NULL;
    int64_t vocab = options->vocab ? options->vocab : 4096;
    int rc = lt_bpe_train(&bpe, data, vocab, err);
    if (rc == 0)
        rc = lt_bpe_save(bpe, output, err);
    if (rc == 0) {
        printf("%s: %lld tokens from %llu bytes of text\n", output, (long long)lt_bpe_vocab(bpe),
               (unsigned long long)lt_dataset_bytes(data));
        if (lt_bpe_vocab(bpe) < vocab)
            printf("fewer than %lld: no other pair occurs twice\n", (long long)vocab);
    }
    lt_bpe_destroy(bpe);
    return rc;
}

/* Nothing is worth keeping of a file that is not complete. */
static void on_signal(int signal)
{
    lt_output_abandon();
    raise(signal); /* reset to its default, and held back until the handler returns */
}

static void catch_signals(void)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGTERM};
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND}, old;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &act, NULL);
}

static int run(const struct options *options, const char *output, int encodes,
               struct tacho_error *err)
{
    struct lt_dataset *data = NULL;
    int rc = lt_output_check(output, "-o", err);
    if (rc)
        return rc;
    catch_signals();
    rc = input_open_dataset(&data, options, err);
    if (rc == 0 && encodes)
        rc = encode(data, options, output, err);
    else if (rc == 0)
        rc = learn(data, options, output, err);
    lt_dataset_close(data);
    return rc;
}
int bpe_command(int argc, char **argv, struct tacho_error *err)
{
    static const char hint[] = "train bpe --help lists the options";
    static const struct option table[] = {{"data", required_argument, NULL, 'd'},
                                          {"vocab", required_argument, NULL, 'v'},
                                          {"tokenizer", required_argument, NULL, 't'},
                                          {"encode", no_argument, NULL, 'e'},
                                          {"output", required_argument, NULL, 'o'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    struct options options = {.io = "mapped"};
    const char *output = NULL;
    char *end;
    int encodes = 0, c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":ho:", table, NULL)) != -1)
        switch (c) {
        case 'd':
            if (options.data.count == OPTIONS_LIST_CAP)
                return tacho_fail(err, TACHO_EUSAGE, "name a folder that holds the files",
                                  "--data: more than %d", OPTIONS_LIST_CAP);
            options.data.text[options.data.count++] = optarg;
            break;
        case 'v':
            options.vocab = strtoll(optarg, &end, 10);
            if (end == optarg || *end || options.vocab < LT_BPE_BYTES ||
                options.vocab > LT_BPE_VOCAB)
                return tacho_fail(err, TACHO_EUSAGE, hint,
                                  "--vocab %s: a whole number from %d to %d is needed", optarg,
                                  LT_BPE_BYTES, LT_BPE_VOCAB);
            break;
        case 't':
            options.tokenizer = optarg;
            break;
        case 'e':
            encodes = 1;
            break;
        case 'o':
            output = optarg;
            break;
        case 'h':
            print_help();
            return 0;
        default:
            return tacho_fail(err, TACHO_EUSAGE, hint,
                              c == ':' ? "bpe: %s needs a value" : "bpe: %s: unknown option",
                              argv[optind - 1]);
        }
    if (optind < argc)
        return tacho_fail(err, TACHO_EUSAGE, hint, "unexpected argument %s", argv[optind]);
    if (!output)
        return tacho_fail(err, TACHO_EUSAGE, hint, "bpe: no -o FILE");
    if (encodes && options.vocab)
        return tacho_fail(err, TACHO_EUSAGE, hint, "bpe: --vocab does not apply to --encode");
    if (!encodes && options.tokenizer)
        return tacho_fail(err, TACHO_EUSAGE, hint, "bpe: --tokenizer goes with --encode");
    return run(&options, output, encodes, err);
}
