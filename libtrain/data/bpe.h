/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: byte-level byte-pair encoding (Gage 1994; for language models Sennrich, Haddow, Birch
 * 2016, over bytes as GPT-2 has it).
 *
 * Tokens 0..255 are the bytes. Token 256 + i stands for the i-th merge: two tokens that follow one
 * another. Text is cut into words first, so that no token spans two: a word is a run of letters
 * (bytes above 127 are letters), of digits, or of other signs, with one blank before it if there is
 * one, or a run of blanks; at most LT_BPE_WORD bytes. Where a word ends depends on nothing before
 * it. Any bytes can be encoded, and decoding gives them back.
 */
#ifndef LT_BPE_H
#define LT_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/data/source.h"
#include "tacho_error.h"

#define LT_BPE_WORD  128
#define LT_BPE_BYTES 256
#define LT_BPE_VOCAB 65536 /* most tokens: they fit uint16 */

struct lt_bpe;

/* Learns up to `vocab` tokens from all of the data: the pair that occurs most often is merged, of
 * equal ones the smaller; pairs that occur once are not. The result depends on the text alone.
 * Frees with lt_bpe_destroy. TACHO_EIO, TACHO_ENOMEM, TACHO_EUSAGE (vocab not in
 * LT_BPE_BYTES..LT_BPE_VOCAB), with words in *err. */
int lt_bpe_train(struct lt_bpe **out, const struct lt_dataset *data, int64_t vocab,
                 struct tacho_error *err);

/* The same from merges: pairs[2 i], pairs[2 i + 1] are what token 256 + i stands for.
 * TACHO_ECORRUPT when a pair names a token that does not exist yet, comes twice, or makes a token
 * longer than a word; TACHO_ENOMEM; words in *err, without a file name. */
int lt_bpe_create(struct lt_bpe **out, const int32_t *pairs, size_t merges,
                  struct tacho_error *err);

/* Text files: a line "tacho-bpe 1 MERGES", a line for each merge, a line with a sum over them.
 * lt_bpe_save is atomic. TACHO_EIO, TACHO_ENOSPACE; loading: TACHO_ENOTFOUND, TACHO_EIO,
 * TACHO_EFORMAT, TACHO_EVERSION, TACHO_ECORRUPT, TACHO_ENOMEM.
 */
int lt_bpe_save(const struct lt_bpe *bpe, const char *path, struct tacho_error *err);
int lt_bpe_load(struct lt_bpe **out, const char *path, struct tacho_error *err);

/* Accepts NULL. */
void lt_bpe_destroy(struct lt_bpe *bpe);

int64_t lt_bpe_vocab(const struct lt_bpe *bpe);

/* What token 256 + i stands for; i < vocab - 256. */
void lt_bpe_merge(const struct lt_bpe *bpe, int32_t i, int32_t pair[2]);

/* Of the merges. */
uint64_t lt_bpe_identity(const struct lt_bpe *bpe);

/* Length of the word at `text`, from n > 0 bytes. It is that of the whole text if n > LT_BPE_WORD,
 * or if the text ends there.
 */
size_t lt_bpe_word(const unsigned char *text, size_t bytes);

/* Tokens of one word, at most n. n <= LT_BPE_WORD. Thread-safe. */
size_t lt_bpe_encode_word(const struct lt_bpe *bpe, const unsigned char *word, size_t length,
                          int32_t tokens[LT_BPE_WORD]);

/* Tokens of n bytes; `tokens` has room for n. Returns how many. Thread-safe. */
size_t lt_bpe_encode(const struct lt_bpe *bpe, const void *text, size_t bytes, int32_t *tokens);

/* The bytes of a token; NULL when there is no such token. Owned by the tokenizer. */
const unsigned char *lt_bpe_bytes(const struct lt_bpe *bpe, int32_t token, size_t *length);

/* Calls `word` with the offset and the bytes of each word of the data, in order, until it returns
 * other than 0. */
typedef int lt_bpe_each(void *arg, uint64_t at, const unsigned char *word, size_t n,
                        struct tacho_error *err);
int lt_bpe_words(const struct lt_dataset *data, lt_bpe_each *word, void *arg,
                 struct tacho_error *err);

/* Text that is encoded as it is read: samples are cut at tokens, not at bytes, so opening encodes
 * all of it once to know where each sample starts. Takes over `data`, also when it fails. `path`:
 * of the tokenizer. Errors of loading and of lt_source_open_text. */
int lt_source_open_bpe(struct lt_source **out, struct lt_dataset *data, const char *path, int64_t t,
                       struct tacho_error *err);

#endif
