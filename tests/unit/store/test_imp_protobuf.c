/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of a protobuf message: one of an unexpected wire type has nothing of the field before it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/import/input/protobuf.h"

static void test_other_wire_type(void **state)
{
    (void)state;
    static const unsigned char message[] = {0x08, 0x2a,           /* field 1: 42 */
                                            0x12, 0x02, 'a', 'b', /* field 2: "ab" */
                                            0x18, 0x07,           /* field 3: 7 */
                                            0x25, 0x01, 0,   0,   0x80 /* field 4: fixed32 */};
    struct pb pb = pb_of((struct pb_span){message, sizeof message});
    struct pb_field field;
    assert_true(pb_next(&pb, &field));
    assert_int_equal(field.value, 42);
    assert_int_equal(field.span.bytes, 0);
    assert_true(pb_next(&pb, &field));
    assert_int_equal(field.wire, PB_BYTES);
    assert_int_equal(field.value, 0); /* not the 42 of field 1 */
    assert_memory_equal(field.span.data, "ab", 2);
    assert_true(pb_next(&pb, &field));
    assert_int_equal(field.value, 7);
    assert_int_equal(field.span.bytes, 0); /* not the text of field 2 */
    assert_true(pb_next(&pb, &field));
    assert_int_equal(field.value, 0x80000001);
    assert_false(pb_next(&pb, &field));
    assert_false(pb.bad);
}

static void test_cut(void **state)
{
    (void)state;
    static const unsigned char message[] = {0x08, 0x2a, 0x12, 0x09, 'a', 'b'};
    struct pb pb = pb_of((struct pb_span){message, sizeof message});
    struct pb_field field;
    assert_true(pb_next(&pb, &field));
    assert_false(pb_next(&pb, &field));
    assert_true(pb.bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_wire_type),
        cmocka_unit_test(test_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
