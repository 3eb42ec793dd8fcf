/* SPDX-License-Identifier: Apache-2.0
 *
 * The wire format of protocol buffers: what a field says that has another type than its reader
 * expects, and messages that are damaged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/import/input/protobuf.h"

#define MESSAGE(...) \
    ((struct pb_span){(const unsigned char[]){__VA_ARGS__}, \
                      sizeof((const unsigned char[]){__VA_ARGS__})})

/* A field that is not what a reader expects has no bytes and the number 0, whatever was read before
 * into the same structure: a reader may look at both without asking for the type. */
static void test_other_type(void **state)
{
    struct pb pb = pb_of(MESSAGE(0x0a, 2, 'a', 'b', 0x10, 0x96, 0x01, 0x1a, 1, 'c'));
    struct pb_field field;
    (void)state;
    memset(&field, 0xa5, sizeof field);
    assert_true(pb_next(&pb, &field));
    assert_int_equal(field.number, 1);
    assert_int_equal(field.wire, PB_BYTES);
    assert_int_equal(field.span.bytes, 2);
    assert_int_equal(field.value, 0);
    assert_true(pb_next(&pb, &field));
    assert_int_equal(field.number, 2);
    assert_int_equal(field.value, 150);
    assert_null(field.span.data);
    assert_int_equal(field.span.bytes, 0);
    assert_true(pb_next(&pb, &field));
    assert_memory_equal(field.span.data, "c", 1);
    assert_int_equal(field.value, 0);
    assert_false(pb_next(&pb, &field));
    assert_false(pb.bad);
}

static void test_fixed(void **state)
{
    struct pb pb = pb_of(MESSAGE(0x0d, 1, 0, 0, 0x80, 0x11, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f));
    struct pb_field field;
    (void)state;
    memset(&field, 0xa5, sizeof field);
    assert_true(pb_next(&pb, &field));
    assert_int_equal(field.wire, PB_FIXED32);
    assert_int_equal(field.value, 0x80000001);
    assert_true(pb_next(&pb, &field));
    assert_int_equal(field.wire, PB_FIXED64);
    assert_true(pb_double(&field) == 1.5);
    assert_false(pb_next(&pb, &field));
    assert_false(pb.bad);
}

/* Cut off in a key, in a number, in bytes; a type that there is not; a number of eleven bytes. */
static void test_damaged(void **state)
{
    const struct pb_span damaged[] = {
        MESSAGE(0x80),
        MESSAGE(0x08, 0x80),
        MESSAGE(0x0a, 3, 'a'),
        MESSAGE(0x0d, 1, 2),
        MESSAGE(0x0b),
        MESSAGE(0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0)};
    (void)state;
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        struct pb pb = pb_of(damaged[i]);
        struct pb_field field;
        assert_false(pb_next(&pb, &field));
        assert_true(pb.bad);
        assert_false(pb_next(&pb, &field));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_other_type),
                                       cmocka_unit_test(test_fixed),
                                       cmocka_unit_test(test_damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
