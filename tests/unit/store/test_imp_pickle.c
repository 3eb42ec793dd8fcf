/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine of the restricted pickle reader: values of all opcodes, what is shared, what is
 * refused, and the limits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/import/pickle/pickle.h"

/* What the callback sees of each dict, one after the other, as text. */
struct seen {
    char text[2000];
    size_t used, dicts;
    bool take;
};

static void put_value(struct seen *seen, const struct pickle_value *value, int depth)
{
    size_t room = sizeof seen->text - seen->used;
    char *to = seen->text + seen->used;
    int length = 0;
    if (room < 64 || depth > 4)
        return;
    switch (value->type) {
    case PICKLE_NONE:
        length = snprintf(to, room, "None");
        break;
    case PICKLE_BOOL:
        length = snprintf(to, room, value->number ? "True" : "False");
        break;
    case PICKLE_INT:
        length = snprintf(to, room, "%lld", (long long)value->number);
        break;
    case PICKLE_FLOAT:
        length = snprintf(to, room, "%g", value->real);
        break;
    case PICKLE_TEXT:
        length = snprintf(to, room, "'%.40s'", value->text->text);
        break;
    case PICKLE_LIST:
    case PICKLE_DICT:
        seen->text[seen->used++] = value->type == PICKLE_LIST ? '[' : '{';
        for (size_t i = 0; i < value->box->count; i++) {
            put_value(seen, &value->box->value[i], depth + 1);
            seen->text[seen->used++] = ' ';
        }
        seen->text[seen->used++] = value->type == PICKLE_LIST ? ']' : '}';
        break;
    default:
        length = snprintf(to, room, "?");
    }
    seen->used += (size_t)length;
    seen->text[seen->used] = 0;
}

static bool on_dict(void *ctx, struct pickle_box *dict, size_t place, int *code)
{
    struct seen *seen = ctx;
    const struct pickle_value value = {.type = PICKLE_DICT, .box = dict};
    (void)code;
    seen->dicts++;
    if (seen->used > sizeof seen->text / 2 || dict->count > 64)
        return seen->take;
    seen->used +=
        (size_t)snprintf(seen->text + seen->used, sizeof seen->text - seen->used, "%zu:", place);
    put_value(seen, &value, 0);
    return seen->take;
}

static int read_bytes(const char *bytes, size_t count, struct seen *seen, bool *truncated,
                      struct tacho_error *err)
{
    struct imp_run run = {.salvage_only = true};
    struct pickle_reader reader = {.run = &run, .dict = on_dict, .ctx = seen};
    char path[] = "/tmp/tacho-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, count), count);
    close(fd);
    memset(err, 0, sizeof *err);
    seen->used = seen->dicts = 0;
    seen->text[0] = 0;
    int rc = pickle_read(path, &reader, truncated, err);
    unlink(path);
    return rc;
}

#define READ(bytes) read_bytes(bytes, sizeof(bytes) - 1, &seen, &truncated, &err)

static void values(void **state)
{
    (void)state;
    struct seen seen = {.take = false};
    struct tacho_error err;
    bool truncated;
    /* {'a': 1, 'b': -2, 'c': 1.5, 'd': None, 'e': (True, False), 'f': 65535, 'g': 2**63 + 1} */
    assert_int_equal(READ("\x80\x04}(\x8c\x01"
                          "aK\x01\x8c\x01"
                          "bJ\xfe\xff\xff\xff\x8c\x01"
                          "cG?\xf8\0\0\0\0\0\0"
                          "\x8c\x01"
                          "dN\x8c\x01"
                          "e\x88\x89\x86X\x01\0\0\0fM\xff\xff"
                          "\x8c\x01"
                          "g\x8a\x09\x01\0\0\0\0\0\0\x80\0u."),
                     0);
    assert_false(truncated);
    assert_string_equal(seen.text, "0:{'a' 1 'b' -2 'c' 1.5 'd' None 'e' [True False ] 'f' 65535 "
                                   "'g' -9223372036854775807 }");
    /* Long integers without a sign bit, and those that do not fit. */
    assert_int_equal(READ("}(\x8c\x01"
                          "a\x8a\x01\xff\x8c\x01"
                          "b\x8a\x0a\0\0\0\0\0\0\0\0\0\x01\x8c\x01"
                          "c\x8a\0u."),
                     0);
    assert_string_equal(seen.text, "0:{'a' -1 'b' ? 'c' 0 }");
}

/* A list that is fetched again is one object; one that is taken becomes None. */
static void shared_and_taken(void **state)
{
    (void)state;
    struct seen seen = {.take = true};
    struct tacho_error err;
    bool truncated;
    assert_int_equal(READ("\x80\x02]q\0(}q\x01(U\x01"
                          "x]q\x02K\x05"
                          "au}q\x03(U\x01"
                          "xh\x02ue."),
                     0);
    assert_int_equal(seen.dicts, 2);
    assert_string_equal(seen.text, "0:{'x' [5 ] }0:{'x' [5 ] }");
    /* Lists of lists: the place of the inner one. */
    assert_int_equal(READ("](](}U\x01"
                          "aK\x01s}U\x01"
                          "aK\x02se](}U\x01"
                          "aK\x03see."),
                     0);
    assert_string_equal(seen.text, "0:{'a' 1 }0:{'a' 2 }1:{'a' 3 }");
}

/* What was taken leaves no trace in its list: a history of millions of events is a list of none. */
static void taken_leaves_lists(void **state)
{
    (void)state;
    struct seen seen = {.take = true};
    struct tacho_error err;
    bool truncated;
    assert_int_equal(READ("}(U\x01l](K\x07}U\x01"
                          "aK\x01s}U\x01"
                          "bK\x02seu."),
                     0);
    assert_string_equal(seen.text, "0:{'a' 1 }0:{'b' 2 }0:{'l' [7 ] }");
}

/* Keeps the first text of each dict. */
static bool note_text(void *ctx, struct pickle_box *dict, size_t place, int *code)
{
    struct pickle_text **text = ctx;
    (void)place;
    (void)code;
    text[text[0] ? 1 : 0] = dict->value[0].text;
    return true;
}

/* Equal short texts are one text. */
static void equal_texts(void **state)
{
    (void)state;
    static const char bytes[] = "](}(U\x01xK\x01u}(X\x01\0\0\0xK\x02ue.";
    struct pickle_text *text[2] = {NULL, NULL};
    struct imp_run run = {.salvage_only = true};
    struct pickle_reader reader = {.run = &run, .dict = note_text, .ctx = text};
    struct tacho_error err = {0};
    bool truncated;
    char path[] = "/tmp/tacho-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, sizeof bytes - 1), sizeof bytes - 1);
    close(fd);
    assert_int_equal(pickle_read(path, &reader, &truncated, &err), 0);
    assert_ptr_equal(text[0], text[1]);
    unlink(path);
}

/* A file of many equal pieces between a head and a tail. */
static int read_pieces(const char *head, size_t head_bytes, const char *piece, size_t piece_bytes,
                       size_t pieces, const char *tail, struct seen *seen, struct tacho_error *err)
{
    char *bytes;
    size_t count;
    bool truncated;
    FILE *file = open_memstream(&bytes, &count);
    assert_non_null(file);
    fwrite(head, 1, head_bytes, file);
    for (size_t i = 0; i < pieces; i++)
        fwrite(piece, 1, piece_bytes, file);
    fputs(tail, file);
    fclose(file);
    int rc = read_bytes(bytes, count, seen, &truncated, err);
    free(bytes);
    return rc;
}

#define PIECES(head, piece, pieces, tail) \
    read_pieces(head, sizeof(head) - 1, piece, sizeof(piece) - 1, pieces, tail, &seen, &err)

/* Files that would keep the reader busy for much longer than their size. */
static void amplifiers(void **state)
{
    (void)state;
    struct seen seen = {.take = false};
    struct tacho_error err;
    static char head[10 + (1 << 20)] = "\x80\x02X\0\0\x10\0";
    /* A dict that grows key by key is handed out while it is small, not a million times. */
    assert_int_equal(PIECES("}", "K\1K\2s", 300, "."), 0);
    assert_int_equal(seen.dicts, 256);
    assert_int_equal(PIECES("}", "K\1K\2s", 1000000, "."), 0);
    assert_int_equal(seen.dicts, 256);
    /* Dicts above many lists: each would count them. */
    assert_int_equal(PIECES("](", "]", 1000, "}K\1K\2s."), 0);
    assert_string_equal(seen.text, "256:{1 2 }");
    /* A long text that is fetched again and again. */
    memset(head + 7, 'x', 1 << 20);
    head[7 + (1 << 20)] = 'q';
    head[8 + (1 << 20)] = 0;
    assert_int_equal(read_pieces(head, 9 + (1 << 20), "0h\0", 3, 200, ".", &seen, &err), 0);
    assert_int_equal(read_pieces(head, 9 + (1 << 20), "0h\0", 3, 4000, ".", &seen, &err),
                     TACHO_EFORMAT);
    assert_non_null(strstr(err.what, "repeats"));
}

static void refusals(void **state)
{
    (void)state;
    struct seen seen = {.take = false};
    struct tacho_error err;
    bool truncated;
    static const struct {
        const char *bytes;
        size_t count;
        int code;
        const char *words;
    } cases[] = {
        {"cos\nsystem\n.", 12, TACHO_ENOTSUP, "GLOBAL"},
        {"\x80\x04\x8c\x02os\x8c\x06system\x93.", 15, TACHO_ENOTSUP, "STACK_GLOBAL"},
        {"N)R.", 4, TACHO_ENOTSUP, "REDUCE"},
        {"}}b.", 4, TACHO_ENOTSUP, "BUILD"},
        {"e.", 2, TACHO_EFORMAT, "does not fit"},
        {"(e.", 3, TACHO_EFORMAT, "does not fit"},
        {"N(Ns.", 5, TACHO_EFORMAT, "does not fit"},
        {"}(Nu.", 5, TACHO_EFORMAT, "does not fit"},
        {"h\x07.", 3, TACHO_EFORMAT, "does not fit"},
        {"](K\x01\x85"
         "e\x87.",
         7, TACHO_EFORMAT, "does not fit"},
        {"}r\xff\xff\xff\x7f.", 7, TACHO_EFORMAT, "memo has gaps"},
        {"\xff", 1, TACHO_EFORMAT, "0xff"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(read_bytes(cases[i].bytes, cases[i].count, &seen, &truncated, &err),
                         cases[i].code);
        assert_non_null(strstr(err.what, cases[i].words));
        assert_true(err.hint[0]);
    }
    /* Cut off: no error of its own, and nothing is asked of memory by the length that it claims. */
    assert_int_equal(READ("\x80\x04}(\x8d\0\0\0\x80\x02\0\0\0abc"), 0);
    assert_true(truncated);
    assert_int_equal(READ("X\xff\xff\xff\xff"), 0);
    assert_true(truncated);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(shared_and_taken),
        cmocka_unit_test(taken_leaves_lists),
        cmocka_unit_test(equal_texts),
        cmocka_unit_test(amplifiers),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests_name("imp_pickle", tests, NULL, NULL);
}
