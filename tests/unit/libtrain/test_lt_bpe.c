/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokenizer: what it learns against counting by brute force, any bytes there and back, its
 * file, and text that is encoded as it is read against the same text encoded at once.
 */
#include "lt_support.h"

#include "libtrain/data/bpe.h"

static char folder[256], text[300], file[300];

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s", scratch_folder());
    snprintf(text, sizeof text, "%s/text", folder);
    snprintf(file, sizeof file, "%s/tokens", folder);
    return 0;
}

static int teardown(void **state)
{
    unlink(text);
    unlink(file);
    assert_int_equal(rmdir(folder), 0); /* no temporary file was left */
    return pool_free(state);
}

static void write_bytes(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static struct lt_dataset *open_data(void)
{
    struct tacho_error err = {0};
    struct lt_dataset *d = NULL;
    const char *paths[] = {text};
    assert_int_equal(lt_dataset_open(&d, paths, 1, &err), 0);
    return d;
}

/* Words of a few letters, so that pairs repeat; kind 1 has long runs and all sorts of blanks; kind
 * 2 is any bytes. */
static unsigned char *make_text(size_t n, int kind, uint64_t key)
{
    static const char *const signs[] = {"abcab .,1", "aaaaaaab  \n\t 7\xc3\xa9"};
    unsigned char *p = pool_bytes(n);
    for (size_t i = 0; i < n; i++) {
        uint64_t r = lt_random_bits(key, i);
        if (kind == 2)
            p[i] = (unsigned char)r;
        else if (kind == 1 && i > 0 && r % 64)
            p[i] = p[i - 1];
        else
            p[i] = (unsigned char)signs[kind][r / 64 % strlen(signs[kind])];
    }
    return p;
}

static struct lt_bpe *train_on(const void *data, size_t n, int64_t vocab)
{
    struct tacho_error err = {0};
    struct lt_bpe *b = NULL;
    write_bytes(text, data, n);
    struct lt_dataset *d = open_data();
    if (lt_bpe_train(&b, d, vocab, &err))
        fail_msg("%s", err.what);
    lt_dataset_close(d);
    return b;
}

/* Where a word ends depends on nothing before it, and on nothing behind the word after it. */
static void words_stand_alone(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        size_t n = 3000, at = 0;
        unsigned char *p = make_text(n, kind, 3);
        while (at < n) {
            size_t length = lt_bpe_word(p + at, n - at);
            assert_in_range(length, 1, LT_BPE_WORD);
            assert_int_equal(lt_bpe_word(p + at, length), length);
            if (at + length < n) {
                size_t two = length + lt_bpe_word(p + at + length, n - at - length);
                assert_int_equal(lt_bpe_word(p + at, two), length);
            }
            at += length;
        }
        assert_int_equal(at, n);
    }
    assert_int_equal(lt_bpe_word((const unsigned char *)" word 12", 8), 5);
    assert_int_equal(lt_bpe_word((const unsigned char *)"word12", 6), 4);
    assert_int_equal(lt_bpe_word((const unsigned char *)"  \n  word", 9), 4);
    assert_int_equal(lt_bpe_word((const unsigned char *)"\nword", 5), 1);
    assert_int_equal(lt_bpe_word((const unsigned char *)"  ", 2), 2);
}

/* Counts all pairs of all words anew for each merge. */
static size_t brute_force(const unsigned char *p, size_t n, size_t cap, int32_t *merges)
{
    int32_t *s = pool_bytes(n * sizeof *s);
    size_t *end = pool_bytes(
        n *
        sizeof *end); /* of the word that symbol i belongs to; symbols are -1 when merged away */
    for (size_t at = 0; at < n;) {
        size_t length = lt_bpe_word(p + at, n - at);
        for (size_t i = 0; i < length; i++)
            end[at + i] = at + length;
        at += length;
    }
    for (size_t i = 0; i < n; i++)
        s[i] = p[i];
    for (size_t made = 0; made < cap; made++) {
        enum { SIDE = 400 };
        static int count[SIDE][SIDE];
        int best = 1, left = 0, right = 0;
        memset(count, 0, sizeof count);
        for (size_t i = 0; i < n; i++) {
            size_t j = i + 1;
            while (j < end[i] && s[j] < 0)
                j++;
            if (s[i] >= 0 && j < end[i])
                count[s[i]][s[j]]++;
        }
        for (int a = 0; a < SIDE; a++)
            for (int b = 0; b < SIDE; b++)
                if (count[a][b] > best) {
                    best = count[a][b];
                    left = a;
                    right = b;
                }
        if (best == 1)
            return made;
        merges[2 * made] = left;
        merges[2 * made + 1] = right;
        for (size_t i = 0; i < n; i++) {
            size_t j = i + 1;
            while (j < end[i] && s[j] < 0)
                j++;
            if (s[i] == left && j < end[i] && s[j] == right) {
                s[i] = (int32_t)(LT_BPE_BYTES + made);
                s[j] = -1;
            }
        }
    }
    return cap;
}

static void learns_what_counting_finds(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        int32_t merges[2 * 100];
        unsigned char *p = make_text(4000, kind, 9);
        size_t count = brute_force(p, 4000, 100, merges);
        struct lt_bpe *b = train_on(p, 4000, LT_BPE_BYTES + 100);
        assert_int_equal(lt_bpe_vocab(b), LT_BPE_BYTES + count);
        assert_true(count > 15);
        for (size_t i = 0; i < count; i++) {
            int32_t pair[2];
            lt_bpe_merge(b, (int32_t)i, pair);
            assert_int_equal(pair[0], merges[2 * i]);
            assert_int_equal(pair[1], merges[2 * i + 1]);
        }
        lt_bpe_destroy(b);
    }
}

static void there_and_back(void **state)
{
    (void)state;
    struct lt_bpe *b = train_on(make_text(20000, 0, 1), 20000, 500);
    for (int kind = 0; kind < 3; kind++)
        for (size_t n = 0; n < 3000; n = 2 * n + 1) {
            unsigned char *p = make_text(n, kind, 77 + n), *back = pool_bytes(n);
            int32_t *tokens = pool_bytes(n * sizeof *tokens);
            size_t count = lt_bpe_encode(b, p, n, tokens), at = 0;
            for (size_t i = 0; i < count; i++) {
                size_t length;
                const unsigned char *bytes = lt_bpe_bytes(b, tokens[i], &length);
                assert_non_null(bytes);
                assert_true(at + length <= n);
                memcpy(back + at, bytes, length);
                at += length;
            }
            assert_int_equal(at, n);
            assert_memory_equal(back, p, n);
            if (kind == 0 && n > 1000)
                assert_true(count < n * 3 / 4); /* it knows this kind of text */
        }
    size_t length;
    assert_null(lt_bpe_bytes(b, -1, &length));
    assert_null(lt_bpe_bytes(b, (int32_t)lt_bpe_vocab(b), &length));
    lt_bpe_destroy(b);
}

static void bad_merges(void **state)
{
    (void)state;
    static const int32_t bad[][4] = {{0, 256, 0, 0}, {-1, 3, 0, 0}, {3, 4, 3, 4}, {3, 4, 257, 1}};
    struct tacho_error err = {0};
    struct lt_bpe *b = NULL;
    int32_t twice[2 * 9];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(lt_bpe_create(&b, bad[i], 2, &err), TACHO_ECORRUPT);
    for (int32_t i = 0; i < 9; i++) /* each is twice as long as the one before */
        twice[2 * i] = twice[2 * i + 1] = i ? 255 + i : 'a';
    assert_int_equal(lt_bpe_create(&b, twice, 9, &err), TACHO_ECORRUPT);
    assert_non_null(strstr(err.what, "longer than a word"));
    assert_int_equal(lt_bpe_create(&b, twice, 7, &err), 0);
    lt_bpe_destroy(b);
}

static void files(void **state)
{
    (void)state;
    struct tacho_error err = {0};
    struct lt_bpe *b = train_on(make_text(5000, 0, 1), 5000, 300), *c = NULL;
    assert_int_equal(lt_bpe_load(&c, file, &err), TACHO_ENOTFOUND);
    assert_int_equal(lt_bpe_save(b, file, &err), 0);
    assert_int_equal(lt_bpe_load(&c, file, &err), 0);
    assert_true(lt_bpe_identity(c) == lt_bpe_identity(b));
    assert_int_equal(lt_bpe_vocab(c), lt_bpe_vocab(b));
    lt_bpe_destroy(c);
    FILE *f = fopen(file, "r");
    char good[8000];
    size_t n = fread(good, 1, sizeof good, f);
    fclose(f);
    assert_true(n > 300 && n < sizeof good);
    for (size_t cut = 0; cut < n; cut += 1 + cut / 40) {
        write_bytes(file, good, cut);
        int rc = lt_bpe_load(&c, file, &err);
        assert_true(rc == TACHO_ECORRUPT || rc == TACHO_EFORMAT);
        assert_non_null(strstr(err.what, file));
        assert_true(strlen(err.hint) > 0);
    }
    for (uint64_t i = 0; i < 300; i++) {
        char bad[sizeof good];
        memcpy(bad, good, n);
        bad[lt_random_bits(5, i) % n] ^= (char)(1 << i % 8);
        write_bytes(file, bad, n);
        int rc = lt_bpe_load(&c, file, &err);
        assert_true(rc == TACHO_ECORRUPT || rc == TACHO_EFORMAT || rc == TACHO_EVERSION);
    }
    char more[sizeof good + 1];
    memcpy(more, good, n);
    more[n] = '\n';
    write_bytes(file, more, n + 1);
    assert_int_equal(lt_bpe_load(&c, file, &err), TACHO_ECORRUPT);
    snprintf(more, sizeof more, "%s/no/folder", folder);
    assert_int_equal(lt_bpe_save(b, more, &err), TACHO_EIO);
    lt_bpe_destroy(b);
}

/* Each sample has the tokens that the whole text has there. */
static void text_encoded_as_it_is_read(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        size_t n = 30000;
        struct tacho_error err = {0};
        unsigned char *p = make_text(n, kind, 21), *raw;
        struct lt_bpe *b = train_on(p, 10000, 400);
        assert_int_equal(lt_bpe_save(b, file, &err), 0);
        write_bytes(text, p, n);
        int32_t *all = pool_bytes(n * sizeof *all);
        size_t count = lt_bpe_encode(b, p, n, all);
        for (int64_t t = 1; t < 300; t = 3 * t + 1) {
            struct lt_source *s = NULL;
            assert_int_equal(lt_source_open_bpe(&s, open_data(), file, t, &err), 0);
            assert_int_equal(s->samples, (count - 1) / (uint64_t)t);
            assert_int_equal(s->classes, lt_bpe_vocab(b));
            raw = pool_bytes(s->raw_bytes);
            int32_t *item = pool_bytes(s->item_bytes);
            for (uint64_t i = 0; i < s->samples; i++) {
                assert_true(s->ops->bytes(s, i) <= s->raw_bytes);
                assert_int_equal(s->ops->read(s, i, raw, &err), 0);
                assert_int_equal(s->ops->decode(s, i, raw, item, &err), 0);
                assert_memory_equal(item, all + i * (uint64_t)t, ((size_t)t + 1) * sizeof *item);
            }
            lt_source_close(s);
        }
        struct lt_source *s = NULL;
        assert_int_equal(lt_source_open_bpe(&s, open_data(), file, (int64_t)count, &err),
                         TACHO_EFORMAT);
        lt_bpe_destroy(b);
        unlink(file);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(words_stand_alone),
        TEST(learns_what_counting_finds),
        TEST(there_and_back),
        TEST(bad_merges),
        TEST(files),
        TEST(text_encoded_as_it_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
