/* SPDX-License-Identifier: Apache-2.0
 *
 * Data parallelism: what a model tells of its gradients.
 */
#include "lt_support.h"

#include "libtrain/gpt2.h"

/* What backward has told: how often each element, and its value at that time. */
struct told {
    const struct lt_parameters *p;
    unsigned char *times;
    float *value;
    size_t elements;
};

static void tell(void *arg, size_t first, size_t count)
{
    struct told *t = arg;
    assert_true(count > 0 && first + count <= t->p->count);
    for (size_t i = first; i < first + count; i++) {
        t->times[i]++;
        t->value[i] = t->p->grad[i];
    }
    t->elements += count;
}

/* Each element once, no padding, and only when nothing is added to it any more. */
static void told_once_and_final(void **state)
{
    (void)state;
    static const struct lt_gpt2_config shapes[] = {
        {"odd", "", 3, 20, 4, 37, 11, 9, 2}, {"one", "", 1, 8, 1, 16, 5, 5, 1}, {"wide", "", 2, 48, 3, 300, 64, 40, 3}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct lt_gpt2_config *k = &shapes[i];
        int64_t n = k->batch * k->seq;
        struct lt_model *m = NULL;
        struct tacho_error err = {0};
        assert_int_equal(lt_gpt2_create(&m, k, (struct lt_gpt2_mode){0}, k->batch, k->seq, 7, &err), 0);
        struct told t = {.p = &m->parameters, .times = pool_bytes(m->parameters.count)};
        t.value = zeros((int64_t)m->parameters.count);
        struct lt_batch batch = {.tokens = words(n, 1, k->vocab), .targets = words(n, 2, k->vocab)};
        for (int step = 0; step < 4; step++) { /* the second and the fourth tell */
            struct lt_context x = {.backend = LT_BACKEND_CPU};
            if (step % 2) {
                x.ready = tell;
                x.ready_arg = &t;
            }
            m->ops->forward(m, &x, &batch, 2);
            m->ops->backward(m, &x, &batch, step % 2 == 0);
        }
        assert_int_equal(t.elements, 2 * m->parameters.trainable);
        for (size_t j = 0; j < m->parameters.count; j++) {
            assert_true(t.times[j] == 0 || t.times[j] == 2);
            if (t.times[j])
                assert_true(t.value[j] == m->parameters.grad[j]);
            else
                assert_true(m->parameters.grad[j] == 0); /* padding */
        }
        lt_model_destroy(m);
    }
}

int main(void)
{
    calm_openmp();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(told_once_and_final, pool_free),
    };
    return cmocka_run_group_tests_name("lt_parallel", tests, NULL, NULL);
}
