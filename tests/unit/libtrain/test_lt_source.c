/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources of samples other than plain text: token shards, IDX files, image folders. What a batch
 * holds, byte by byte; what is damaged, of another kind or too small is refused in words that name
 * the file.
 */
#include "lt_support.h"

#include <sys/stat.h>

#include "libtrain/data/format.h"
#include "libtrain/loader/loader.h"

static char folder[256];
static struct lt_source *source;
static struct tacho_error err;

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s", scratch_folder());
    source = NULL;
    err = (struct tacho_error){0};
    return 0;
}

static int teardown(void **state)
{
    char command[400];
    lt_source_close(source);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
    return pool_free(state);
}

static const char *name_of(const char *name)
{
    static char path[4][600];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static void write_file(const char *name, const void *data, size_t n)
{
    FILE *f = fopen(name_of(name), "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static struct lt_dataset *open_files(const char *first, const char *second)
{
    struct lt_dataset *d = NULL;
    const char *paths[] = {name_of(first), second ? name_of(second) : NULL};
    assert_int_equal(lt_dataset_open(&d, paths, second ? 2 : 1, &err), 0);
    return d;
}

/* The refusal names the file, says `words` and what to do. */
static void refused(int rc, int code, const char *file, const char *words)
{
    if (rc != code || !strstr(err.what, file) || !strstr(err.what, words) || !err.hint[0])
        fail_msg("%d, expected %d with '%s' and '%s': %s (hint: %s)", rc, code, file, words,
                 err.what, err.hint);
}

/* ---- token shards -------------------------------------------------------------------------------------------------------- */

static int token_at(uint64_t key, uint64_t i)
{
    return (int)(lt_random_bits(key, i) % 50257);
}

static size_t make_shard(unsigned char *out, uint64_t key, size_t count)
{
    lt_format_shard_header(out, count);
    for (size_t i = 0; i < count; i++) {
        out[1024 + 2 * i] = (unsigned char)token_at(key, i);
        out[1024 + 2 * i + 1] = (unsigned char)(token_at(key, i) >> 8);
    }
    return 1024 + 2 * count;
}

static void shards(void **state)
{
    (void)state;
    unsigned char bytes[4000];
    write_file("a", bytes, make_shard(bytes, 1, 101));
    write_file("b", bytes, make_shard(bytes, 2, 56));
    assert_int_equal(lt_source_open_tokens(&source, open_files("a", "b"), 10, 50257, &err), 0);
    assert_int_equal(source->samples, 10 + 5);
    struct lt_part whole = lt_source_whole(source);
    struct lt_loader_config k = {.options = {.in_order = 1, .workers = 1, .prefetch = 2}, .b = 3};
    struct lt_loader *l = NULL;
    assert_int_equal(lt_loader_create(&l, &whole, &k, NULL, &err), 0);
    for (uint64_t batch = 0; batch < 5; batch++) {
        struct lt_batch x;
        assert_int_equal(lt_loader_next(l, &x, &err), 0);
        assert_null(x.features);
        for (uint64_t i = 0; i < 30; i++) {
            uint64_t sample = 3 * batch + i / 10, key = sample < 10 ? 1 : 2,
                     at = (sample - (key == 2 ? 10 : 0)) * 10 + i % 10;
            assert_int_equal(x.tokens[i], token_at(key, at));
            assert_int_equal(x.targets[i], token_at(key, at + 1));
        }
    }
    lt_loader_destroy(l);
}

static int open_shard(int64_t t, int64_t vocab)
{
    return lt_source_open_tokens(&source, open_files("a", NULL), t, vocab, &err);
}

static void bad_shards(void **state)
{
    (void)state;
    unsigned char bytes[4000];
    size_t n = make_shard(bytes, 1, 101);
    write_file("a", bytes, n - 1);
    refused(open_shard(10, 50257), TACHO_ECORRUPT, "/a", "says 101 tokens");
    write_file("a", bytes, n - 2);
    refused(open_shard(10, 50257), TACHO_ECORRUPT, "/a", "says 101 tokens");
    write_file("a", bytes, 1000);
    refused(open_shard(10, 50257), TACHO_ECORRUPT, "/a", "inside its header");
    write_file("a", bytes, 7);
    refused(open_shard(10, 50257), TACHO_ECORRUPT, "/a", "inside its header");
    write_file("a", bytes, n);
    refused(open_shard(101, 50257), TACHO_EFORMAT, "/a", "too few");
    bytes[4] = 2;
    write_file("a", bytes, n);
    refused(open_shard(10, 50257), TACHO_EVERSION, "/a", "version 2");
    bytes[0] ^= 1;
    write_file("a", bytes, n);
    refused(open_shard(10, 50257), TACHO_EFORMAT, "/a", "not a token shard");
    const uint32_t magic32 = 20240801; /* llm.c's other kind of shard */
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(magic32 >> 8 * i);
    write_file("a", bytes, n);
    refused(open_shard(10, 50257), TACHO_EFORMAT, "/a", "32-bit");
    lt_format_shard_header(bytes, 0);
    write_file("a", bytes, 1024);
    refused(open_shard(10, 50257), TACHO_EFORMAT, "/a", "no tokens");
    write_file("empty", bytes, 0);
    n = make_shard(bytes, 1, 101);
    write_file("a", bytes, n);
    refused(lt_source_open_tokens(&source, open_files("a", "empty"), 10, 50257, &err),
            TACHO_EFORMAT, "/empty", "empty");
    assert_null(source);
    /* a token that the model does not know is found when it is read */
    assert_int_equal(open_shard(100, 50257), 0);
    source->classes = 20000;
    unsigned char raw[202];
    int32_t item[101];
    assert_int_equal(source->ops->read(source, 0, raw, &err), 0);
    refused(source->ops->decode(source, 0, raw, item, &err), TACHO_ECORRUPT, "/a",
            "vocabulary has 20000");
}

/* ---- IDX ----------------------------------------------------------------------------------------------------------------- */

static size_t make_idx(unsigned char *out, int dimensions, const uint32_t *sides)
{
    size_t n = 1;
    out[0] = out[1] = 0;
    out[2] = 8;
    out[3] = (unsigned char)dimensions;
    for (int i = 0; i < dimensions; i++) {
        for (int j = 0; j < 4; j++)
            out[4 + 4 * i + j] = (unsigned char)(sides[i] >> (24 - 8 * j));
        n *= sides[i];
    }
    for (size_t i = 0; i < n; i++)
        out[4 + 4 * dimensions + (int)i] = (unsigned char)lt_random_bits((uint64_t)dimensions, i);
    return 4 + 4 * (size_t)dimensions + n;
}

static int open_idx(const char *images, const char *labels)
{
    lt_source_close(source);
    source = NULL;
    return lt_source_open_idx(&source, open_files(images, labels), &err);
}

static size_t write_labels(uint32_t count)
{
    unsigned char bytes[500];
    size_t n = make_idx(bytes, 1, &count);
    for (size_t i = 8; i < n; i++)
        bytes[i] = (unsigned char)(bytes[i] % 10);
    bytes[8] = 9;
    write_file("labels", bytes, n);
    return n;
}

static void idx(void **state)
{
    (void)state;
    unsigned char bytes[3000];
    const uint32_t sides[] = {40, 5, 7};
    size_t n = make_idx(bytes, 3, sides);
    write_file("images", bytes, n);
    write_labels(40);
    assert_int_equal(open_idx("images", "labels"), 0);
    assert_int_equal(source->samples, 40);
    assert_int_equal(source->width, 35);
    assert_int_equal(source->classes, 10);
    struct lt_part whole = lt_source_whole(source);
    struct lt_loader_config k = {.options = {.in_order = 1, .pin = 1, .workers = 2, .prefetch = 2},
                                 .b = 4};
    struct lt_loader *l = NULL;
    assert_int_equal(lt_loader_create(&l, &whole, &k, NULL, &err), 0);
    for (uint64_t batch = 0; batch < 10; batch++) {
        struct lt_batch x;
        assert_int_equal(lt_loader_next(l, &x, &err), 0);
        assert_null(x.tokens);
        for (uint64_t i = 0; i < 4 * 35; i++)
            assert_true(x.features[i] == (float)bytes[16 + batch * 140 + i] / 255.0f);
        for (uint64_t i = 0; i < 4; i++)
            assert_int_equal(x.targets[i],
                             batch + i == 0 ? 9
                                            : (unsigned char)lt_random_bits(1, 4 * batch + i) % 10);
    }
    lt_loader_destroy(l);
}

static void bad_idx(void **state)
{
    (void)state;
    unsigned char bytes[3000];
    const uint32_t sides[] = {40, 5, 7};
    size_t n = make_idx(bytes, 3, sides);
    write_file("images", bytes, n);
    write_labels(39);
    refused(open_idx("images", "labels"), TACHO_EFORMAT, "/labels", "39 labels");
    write_labels(40);
    refused(open_idx("labels", "images"), TACHO_EFORMAT, "/labels", "not images and labels");
    refused(open_idx("images", NULL), TACHO_EFORMAT, "/images", "two are needed");
    static const size_t cuts[] = {1, 3};
    for (size_t i = 0; i < 2; i++) {
        write_file("images", bytes, cuts[i]);
        refused(open_idx("images", "labels"), TACHO_EFORMAT, "/images", "not an IDX file");
    }
    write_file("images", bytes, 13);
    refused(open_idx("images", "labels"), TACHO_ECORRUPT, "/images", "inside its header");
    write_file("images", bytes, n - 1);
    refused(open_idx("images", "labels"), TACHO_ECORRUPT, "/images", "1399 bytes");
    write_file("images", bytes, n + 1);
    refused(open_idx("images", "labels"), TACHO_ECORRUPT, "/images", "1401 bytes");
    write_file("images", bytes, 0);
    refused(open_idx("images", "labels"), TACHO_EFORMAT, "/images", "empty");
    bytes[2] = 13;
    write_file("images", bytes, n);
    refused(open_idx("images", "labels"), TACHO_EFORMAT, "/images", "type 13");
    bytes[2] = 8;
    bytes[11] = 0;
    write_file("images", bytes, n);
    refused(open_idx("images", "labels"), TACHO_ECORRUPT, "/images", "dimension 2 is 0");
    bytes[8] = 255;
    write_file("images", bytes, n);
    refused(open_idx("images", "labels"), TACHO_ECORRUPT, "/images", "dimension 2");
    bytes[0] = 0x1f;
    bytes[1] = 0x8b;
    write_file("images", bytes, n);
    refused(open_idx("images", "labels"), TACHO_EFORMAT, "/images", "compressed");
}

/* ---- image folders ------------------------------------------------------------------------------------------------------- */

static int64_t side; /* to which they are scaled; 0: not */

static int open_images(void)
{
    static const char *const classes[] = {"0", "1", "2"};
    char path[3][600];
    const char *folders[3];
    struct lt_dataset *d = NULL;
    for (int i = 0; i < 3; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", folder, classes[i]);
        mkdir(path[i], 0700);
        folders[i] = path[i];
    }
    lt_source_close(source);
    source = NULL;
    int rc = lt_dataset_open(&d, folders, 3, &err);
    return rc ? rc : lt_source_open_images(&source, d, folders, 3, side, &err);
}

static void make_folders(void)
{
    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('0' + i), 0};
        mkdir(name_of(name), 0700);
    }
}

/* Sample i of the source as values. */
static float *decode(uint64_t i, int32_t *label)
{
    char *raw = pool_bytes(source->raw_bytes), *item = pool_bytes(source->item_bytes);
    assert_int_equal(source->ops->read(source, i, raw, &err), 0);
    assert_int_equal(source->ops->decode(source, i, raw, item, &err), 0);
    memcpy(label, item + (size_t)source->width * sizeof(float), sizeof *label);
    return (float *)(void *)item;
}

static void image_folders(void **state)
{
    (void)state;
    int32_t label;
    make_folders();
    write_file("0/a.ppm", "P6\n2 1\n255\n\x00\x33\xff\x01\x02\x03", 17);
    write_file("0/b.ppm",
               "P6 #c\n # 9 9\n2\n1 65535\n\x80\x00\x00\x01\xff\xff\x00\x00\x00\x00\x00\x00", 35);
    write_file("2/c.ppm", "P6\t2\r1 3 \x00\x01\x02\x03\x00\x00", 15);
    assert_int_equal(open_images(), 0);
    assert_int_equal(source->samples, 3);
    assert_int_equal(source->width, 6);
    assert_int_equal(source->classes, 3);
    const float *x = decode(0, &label);
    assert_true(label == 0 && x[0] == 0 && x[1] == 0.2f && x[2] == 1 && x[5] == 3 / 255.0f);
    x = decode(1, &label);
    assert_true(label == 0 && x[0] == 32768 / 65535.0f && x[1] == 1 / 65535.0f && x[2] == 1);
    x = decode(2, &label);
    assert_true(label == 2 && x[1] == 1 / 3.0f && x[3] == 1);
}

/* Images of different sizes become images of one size; bare bytes have none. */
static void scaled_images(void **state)
{
    (void)state;
    int32_t label;
    make_folders();
    write_file("0/a", "P5\n2 2\n255\n\x00\x33\x33\x66", 15);
    write_file("1/b", "P5\n1 1\n255\n\xff", 12);
    write_file("2/c", "P5\n4 2\n255\n\x00\x33\x33\x00\x00\x33\x33\x00", 19);
    side = 2;
    assert_int_equal(open_images(), 0);
    assert_true(source->rows == 2 && source->columns == 2 && source->width == 4);
    const float *x = decode(0, &label);
    assert_true(x[0] == 0 && x[1] == 0.2f && x[2] == 0.2f && x[3] == 0.4f && label == 0);
    x = decode(1, &label);
    assert_true(x[0] == 1 && x[3] == 1 && label == 1);
    x = decode(2, &label); /* the middle of the longer side */
    assert_true(x[0] == 0.2f && x[1] == 0.2f && x[3] == 0.2f && label == 2);
    uint64_t scaled = source->identity;
    side = 1;
    assert_int_equal(open_images(), 0);
    assert_true(source->identity != scaled);
    write_file("0/a", "abcd", 4);
    write_file("1/b", "abcd", 4);
    write_file("2/c", "abcd", 4);
    refused(open_images(), TACHO_EFORMAT, "0/a", "cannot know");
    side = 0;
}

/* More files than stay open, of bare bytes. */
static void many_small_files(void **state)
{
    (void)state;
    enum { FILES = 700 };
    make_folders();
    for (int i = 0; i < FILES; i++) {
        char name[40];
        unsigned char bytes[2] = {(unsigned char)i, (unsigned char)(i >> 8)};
        snprintf(name, sizeof name, "%d/%04d", i % 2 * 2, i);
        write_file(name, bytes, 2);
    }
    assert_int_equal(open_images(), 0);
    assert_int_equal(source->samples, FILES);
    for (int i = 0; i < FILES; i++) {
        int32_t label;
        const float *x = decode((uint64_t)i, &label);
        int file = i < FILES / 2 ? 2 * i : 2 * (i - FILES / 2) + 1;
        assert_int_equal(label, file % 2 * 2);
        assert_true(x[0] == (float)(file & 255) / 255.0f && x[1] == (float)(file >> 8) / 255.0f);
    }
    assert_int_equal(unlink(name_of("0/0002")), 0);
    char raw[2];
    refused(source->ops->read(source, 1, raw, &err), TACHO_EIO, "0/0002", "No such file");
}

static void bad_images(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        int code;
        const char *words;
    } bad[] = {
        {"P5\n2 2\n255\nabc", 14, TACHO_ECORRUPT, "need 4 bytes, it has 3"},
        {"P5\n2 2\n255\nabcde", 16, TACHO_ECORRUPT, "it has 5"},
        {"P5\n2 2\n255", 10, TACHO_ECORRUPT, "damaged header"},
        {"P5\n2 2\n0\nabcd", 13, TACHO_ECORRUPT, "damaged header"},
        {"P5\n2 2\n70000\nabcd", 17, TACHO_ECORRUPT, "damaged header"},
        {"P5\n99999999999 2\n255\nabcd", 25, TACHO_ECORRUPT, "damaged header"},
        {"P5\n-2 2\n255\nabcd", 16, TACHO_ECORRUPT, "damaged header"},
        {"P5\n# no end", 11, TACHO_ECORRUPT, "damaged header"},
        {"P5\n3 1\n255\nabc", 14, TACHO_ECORRUPT, "3 x 1 pixels"},
        {"P6\n2 2\n255\nabcdefghijkl", 23, TACHO_ECORRUPT, "2 x 2 pixels of 3"},
        {"GIF89a", 6, TACHO_EFORMAT, "not a raw PGM"},
    };
    make_folders();
    write_file("0/a", "P5\n2 2\n255\nabcd", 15);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int32_t item[32];
        char raw[64];
        write_file("1/b", bad[i].bytes, bad[i].n);
        assert_int_equal(open_images(), 0);
        assert_int_equal(source->ops->read(source, 1, raw, &err), 0);
        refused(source->ops->decode(source, 1, raw, item, &err), bad[i].code, "1/b", bad[i].words);
    }
    write_file("0/a", "abcd", 4);
    refused(open_images(), TACHO_EFORMAT, "1/b", "the first image has 4");
    write_file("1/b", "", 0);
    refused(open_images(), TACHO_EFORMAT, "1/b", "empty");
}

/* ---- mapped files, identity ---------------------------------------------------------------------------------------------- */

static void mapped_files(void **state)
{
    (void)state;
    unsigned char bytes[9000], got[9000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)lt_random_bits(1, i);
    write_file("a", bytes, 5000);
    write_file("b", bytes + 5000, 4000);
    struct lt_dataset *d = open_files("a", "b");
    lt_dataset_map(d);
    for (uint64_t i = 0; i < 300; i++) {
        uint64_t at = lt_random_bits(2, i) % 9000, n = lt_random_bits(3, i) % (9000 - at) + 1;
        assert_int_equal(lt_dataset_read(d, at, got, n, &err), 0);
        assert_memory_equal(got, bytes + at, n);
    }
    /* in the middle of a page, where the rest reads as zeros, and by whole pages, which are gone */
    assert_int_equal(truncate(name_of("b"), 3990), 0);
    assert_int_equal(lt_dataset_read(d, 5000, got, 3990, &err), 0);
    refused(lt_dataset_read(d, 5000, got, 3991, &err), TACHO_EIO, "/b", "shorter");
    assert_int_equal(truncate(name_of("a"), 0), 0);
    refused(lt_dataset_read(d, 4500, got, 10, &err), TACHO_EIO, "/a", "shorter");
    refused(lt_dataset_read(d, 0, got, 1, &err), TACHO_EIO, "/a", "shorter");
    lt_dataset_close(d);
}

static uint64_t identity(const char *name, int64_t t)
{
    struct lt_source *s = NULL;
    assert_int_equal(lt_source_open_text(&s, open_files(name, NULL), t, &err), 0);
    struct lt_part part = lt_source_whole(s);
    uint64_t id = lt_part_identity(&part);
    lt_source_close(s);
    return id;
}

/* The same text is the same data under another name; any other text, cut or part is not. */
static void identities(void **state)
{
    (void)state;
    char bytes[5000];
    struct lt_part train, held_out;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(32 + lt_random_bits(5, i) % 95);
    write_file("a", bytes, sizeof bytes);
    write_file("b", bytes, sizeof bytes);
    assert_true(identity("a", 16) == identity("b", 16));
    assert_true(identity("a", 16) != identity("a", 17));
    bytes[4999] ^= 1;
    write_file("b", bytes, sizeof bytes);
    assert_true(identity("a", 16) != identity("b", 16));
    write_file("b", bytes, sizeof bytes - 1);
    assert_true(identity("a", 16) != identity("b", 16));
    assert_int_equal(lt_source_open_text(&source, open_files("a", NULL), 16, &err), 0);
    struct lt_part whole = lt_source_whole(source);
    assert_int_equal(lt_source_split(source, 0.1, &train, &held_out, &err), 0);
    assert_int_equal(train.samples + held_out.samples, source->samples);
    assert_int_equal(held_out.first, train.samples);
    assert_int_equal(held_out.samples, 31);
    assert_true(lt_part_identity(&train) != lt_part_identity(&whole));
    assert_int_equal(lt_source_split(source, 0.001, &train, &held_out, &err), TACHO_EFORMAT);
    assert_non_null(strstr(err.what, "too few"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(shards),        TEST(bad_shards),       TEST(idx),        TEST(bad_idx),
        TEST(image_folders), TEST(many_small_files), TEST(bad_images), TEST(mapped_files),
        TEST(identities),    TEST(scaled_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
