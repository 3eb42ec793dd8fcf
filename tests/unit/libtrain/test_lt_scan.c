/* SPDX-License-Identifier: Apache-2.0
 *
 * What operations write: each of forward and backward has outputs, and a value that is not finite
 * is traced to the operation and layer that wrote it first, in both models, types and directions.
 */
#include "lt_models.h"

#include "libtrain/models/gpt2.h"
#include "libtrain/models/llama.h"
#include "libtrain/train/watch.h"

static int ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && !strcmp(text + length - tail, end);
}

static void all_operations_have_outputs(void **state)
{
    (void)state;
    union lt_args args;
    struct lt_written out[LT_OUTPUTS];
    /* every number is 2, and no pointer is NULL; nothing is read through them */
    for (size_t i = 0; i < sizeof args / sizeof(uint64_t); i++)
        memcpy((char *)&args + i * sizeof(uint64_t), &(uint64_t){2}, sizeof(uint64_t));
    for (int op = 0; op < LT_OP_COUNT; op++) {
        const char *name = lt_op_names()[op];
        int of_model = ends_with(name, ".forward") || ends_with(name, ".backward") ||
                       !strncmp(name, "classifier.", 11) || !strcmp(name, "embedding.part");
        if ((lt_op_outputs((enum lt_op_id)op, &args, out) > 0) != of_model)
            fail_msg("%s: its outputs are not in the table of scan.c", name);
        assert_int_equal(lt_op_find(name), op);
    }
    assert_int_equal(lt_op_find("nonsense"), -1);
}

/* Every operation of that model, spoiled in each layer, is found there; without a fault nothing is.
 */
static void trace_in(struct lt_model *m, const char *const *names, int layers)
{
    int64_t n = m->b * m->t;
    const struct lt_batch batch = {.tokens = words(n, 1, m->vocab),
                                   .targets = words(n, 2, m->vocab)};
    char found[96], want[96];
    struct lt_context x = {.backend = LT_BACKEND_CPU};
    lt_watch_origin(m, &x, &batch, found, sizeof found);
    assert_string_equal(found, "");
    for (int i = 0; names[i]; i++)
        for (int layer = 0; layer < layers; layer++) {
            int spoiled = lt_op_find(names[i]);
            assert_true(spoiled >= 0);
            struct lt_fault fault = {.op = (enum lt_op_id)spoiled,
                                     .layer = layer + 1,
                                     .value = layer ? (float)NAN : (float)INFINITY};
            x.fault = &fault;
            lt_watch_origin(m, &x, &batch, found, sizeof found);
            snprintf(want, sizeof want, "%s, layer %d", names[i], layer);
            assert_string_equal(found, want);
        }
}

static void faults_are_traced(void **state)
{
    (void)state;
    static const struct lt_gpt2_config gpt2 = {"small", "", 2, 24, 3, 40, 9, 9, 2};
    static const struct lt_llama_config llama = LLAMA("small", 2, 24, 4, 2, 20, 40, 9, 2);
    static const char *const of_gpt2[] = {"layernorm.forward",  "matmul.forward",
                                          "attention.forward",  "gelu.forward",
                                          "residual.forward",   "layernorm.backward",
                                          "attention.backward", "gelu.backward",
                                          "matmul.backward",    NULL};
    static const char *const of_llama[] = {
        "rmsnorm.forward", "rope.forward",     "matmul.forward",  "attention.forward",
        "swiglu.forward",  "residual.forward", "rope.backward",   "attention.backward",
        "swiglu.backward", "rmsnorm.backward", "matmul.backward", NULL};
    for (int dtype = 0; dtype < LT_DTYPE_COUNT; dtype++) {
        struct tacho_error err = {0};
        struct lt_model *m = NULL;
        struct lt_gpt2_mode mode = {.dtype = (enum lt_dtype)dtype};
        assert_int_equal(lt_gpt2_create(&m, &gpt2, mode, 2, 9, 7, &err), 0);
        trace_in(m, of_gpt2, 2);
        lt_model_destroy(m);
        struct lt_net_mode net = {.dtype = (enum lt_dtype)dtype};
        assert_int_equal(lt_llama_create(&m, &llama, net, 2, 9, 7, &err), 0);
        trace_in(m, of_llama, 2);
        lt_model_destroy(m);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(all_operations_have_outputs), TEST(faults_are_traced)};
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
