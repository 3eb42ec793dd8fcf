/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations of ranks that have a part of the vocabulary each: together they are those of the
 * whole, whose gradients test_lt_gradients.c checks by differences. Slices of tensors: each element
 * of the whole is somebody's, and only one rank's where it is divided. Attention with the keys and
 * values of one part of the sequences at a time is that with all of them.
 */
#include "lt_support.h"

#include "libtrain/base/share.h"
#include "libtrain/models/slice.h"

enum { RANKS = 3 };

static int64_t first_of(int64_t count, int rank)
{
    return (int64_t)lt_share((size_t)count, RANKS, rank);
}

static void embedding(const struct lt_context *x)
{
    int64_t b = 2, t = 5, c = 70, v = 11, n = b * t * c;
    float near = x->dtype == LT_DTYPE_FP32 ? 0 : 0x1p-8f;
    float *word = normals(v * c, 1, 1), *position = normals(t * c, 2, 1), *dout = normals(n, 3, 1),
          *sum = zeros(n);
    struct lt_embedding whole = {.out = typed(x->dtype, zeros(n), n),
                                 .word = typed(x->dtype, word, v * c),
                                 .position = typed(x->dtype, position, t * c),
                                 .tokens = words(b * t, 4, v),
                                 .dout = typed(x->dtype, dout, n),
                                 .dword = zeros(v * c),
                                 .dposition = zeros(t * c),
                                 .b = b,
                                 .t = t,
                                 .c = c,
                                 .v = v};
    lt_op(x, LT_OP_EMBEDDING_FORWARD, &(union lt_args){.embedding_forward = whole});
    lt_op(x, LT_OP_EMBEDDING_BACKWARD, &(union lt_args){.embedding_backward = whole});
    for (int rank = 0; rank < RANKS; rank++) {
        int64_t first = first_of(v, rank), count = first_of(v, rank + 1) - first;
        struct lt_embedding_part part = {.out = typed(x->dtype, zeros(n), n),
                                         .word = typed(x->dtype, word + first * c, count * c),
                                         .position = rank ? NULL : whole.position,
                                         .tokens = whole.tokens,
                                         .dout = whole.dout,
                                         .dword = zeros(count * c),
                                         .dposition = zeros(t * c),
                                         .b = b,
                                         .t = t,
                                         .c = c,
                                         .v = count,
                                         .first = first};
        lt_op(x, LT_OP_EMBEDDING_PART_FORWARD, &(union lt_args){.embedding_part_forward = part});
        lt_op(x, LT_OP_EMBEDDING_PART_BACKWARD, &(union lt_args){.embedding_part_backward = part});
        assert_memory_equal(part.dword, whole.dword + first * c,
                            (size_t)(count * c) * sizeof(float));
        assert_memory_equal(part.dposition, whole.dposition, (size_t)(t * c) * sizeof(float));
        float *out = floats(x->dtype, part.out, n);
        for (int64_t i = 0; i < n; i++)
            sum[i] += out[i];
    }
    assert_near("embedding", sum, floats(x->dtype, whole.out, n), n, (double)near);
}

/* Logits far apart, so that the parts' largest ones differ. */
static void classifier(const struct lt_context *x)
{
    int64_t rows = 7, v = 41;
    float *logits = normals(rows * v, 1, 6), *stats = zeros(RANKS * rows * 3);
    struct lt_classifier whole = {.logits = typed(x->dtype, logits, rows * v),
                                  .losses = zeros(rows),
                                  .targets = words(rows, 2, v),
                                  .rows = rows,
                                  .v = v,
                                  .scale = 0.125f,
                                  .backward = 1};
    struct lt_classifier_part part[RANKS];
    lt_op(x, LT_OP_CLASSIFIER, &(union lt_args){.classifier = whole});
    for (int rank = 0; rank < RANKS; rank++) {
        int64_t first = first_of(v, rank), count = first_of(v, rank + 1) - first;
        float *own = zeros(rows * count);
        for (int64_t i = 0; i < rows * count; i++)
            own[i] = logits[i / count * v + first + i % count];
        part[rank] = (struct lt_classifier_part){.logits = typed(x->dtype, own, rows * count),
                                                 .losses = zeros(rows),
                                                 .stats = stats + rank * rows * 3,
                                                 .targets = whole.targets,
                                                 .rows = rows,
                                                 .v = count,
                                                 .first = first,
                                                 .ranks = RANKS,
                                                 .scale = whole.scale,
                                                 .backward = 1};
        lt_op(x, LT_OP_CLASSIFIER_PART, &(union lt_args){.classifier_part = part[rank]});
    }
    float *gradient = floats(x->dtype, whole.logits, rows * v);
    for (int rank = 0; rank < RANKS; rank++) {
        part[rank].stats = stats;
        lt_op(x, LT_OP_CLASSIFIER_JOIN, &(union lt_args){.classifier_join = part[rank]});
        assert_near("losses", part[rank].losses, whole.losses, rows, 1e-6);
        float *own = floats(x->dtype, part[rank].logits, rows * part[rank].v);
        for (int64_t i = 0; i < rows * part[rank].v; i++) {
            float want = gradient[i / part[rank].v * v + part[rank].first + i % part[rank].v];
            assert_true(fabsf(own[i] - want) <= (x->dtype == LT_DTYPE_FP32 ? 1e-7f : 1e-3f));
        }
    }
}

/* Which tokens of a sequence a rank has. */
struct tokens {
    int rank, folded;
};

/* Columns [from, from + width) of the tokens that a rank has of `wide` columns, t of all of b
 * sequences. */
static float *part_of(const float *whole, int64_t b, int64_t t, int64_t wide, int64_t from,
                      int64_t width, struct tokens tokens)
{
    float *part = zeros(b * t * width);
    for (int64_t i = 0; i < b * t; i++) {
        int64_t at = lt_share_token(t, RANKS, tokens.rank, tokens.folded, i % t);
        memcpy(part + i * width, whole + (i / t * RANKS * t + at) * wide + from,
               (size_t)width * sizeof *part);
    }
    return part;
}

/* What the queries of `rank` see of the part of `at`; `turn` counts from its own part on. */
static void see(struct lt_attention *part, int turn, int rank, int at, int folded)
{
    part->own = turn == 0;
    part->last = turn == (folded ? RANKS - 1 : rank);
    part->hidden = folded && at < rank ? part->t / 2 : 0;
    part->skip = folded && at > rank ? part->t / 2 : 0;
}

/* More tokens than a block of attention has rows. */
static void attention_of(const struct lt_context *x, int folded)
{
    uint64_t flops[RANKS] = {0};
    struct tacho_work work;
    int64_t b = 2, t = x->backend == LT_BACKEND_CPU ? 150 : 12, c = 10, h = 2, all = RANKS * t,
            n = b * t, scratch = (int64_t)lt_attention_scratch(x->dtype, all, c / h);
    double near = x->dtype == LT_DTYPE_FP32 ? 1e-5 : 5e-2;
    float *qkv = normals(b * all * 3 * c, 1, 1), *dout = normals(b * all * c, 2, 1), *dkv[RANKS];
    struct lt_attention whole = {.out = typed(x->dtype, zeros(b * all * c), b * all * c),
                                 .lse = zeros(b * h * all),
                                 .qkv = typed(x->dtype, qkv, b * all * 3 * c),
                                 .dout = typed(x->dtype, dout, b * all * c),
                                 .scratch = zeros(scratch),
                                 .b = b,
                                 .t = all,
                                 .c = c,
                                 .h = h,
                                 .slots = 1};
    lt_op(x, LT_OP_ATTENTION_FORWARD, &(union lt_args){.attention_forward = whole});
    whole.dqkv = typed(x->dtype, zeros(b * all * 3 * c), b * all * 3 * c);
    lt_op(x, LT_OP_ATTENTION_BACKWARD, &(union lt_args){.attention_backward = whole});
    float *out = floats(x->dtype, whole.out, b * all * c),
          *dqkv = floats(x->dtype, whole.dqkv, b * all * 3 * c);
    for (int rank = 0; rank < RANKS; rank++)
        dkv[rank] = zeros(n * 2 * c);
    for (int rank = 0; rank < RANKS; rank++) {
        struct lt_attention part = whole;
        part.t = t;
        struct tokens own_tokens = {rank, folded};
        int turns = folded ? RANKS : rank + 1;
        part.qkv = typed(x->dtype, part_of(qkv, b, t, 3 * c, 0, 3 * c, own_tokens), n * 3 * c);
        part.out = typed(x->dtype, zeros(n * c), n * c);
        part.dout = typed(x->dtype, part_of(dout, b, t, c, 0, c, own_tokens), n * c);
        part.lse = zeros(b * h * t);
        part.sum = zeros(n * c);
        for (int backward = 0; backward < 2; backward++)
            for (int turn = 0; turn < turns; turn++) {
                int at = (rank - turn + RANKS) % RANKS;
                struct tokens tokens = {at, folded};
                see(&part, turn, rank, at, folded);
                part.kv = typed(x->dtype, part_of(qkv, b, t, 3 * c, c, 2 * c, tokens), n * 2 * c);
                part.dkv = dkv[at];
                part.dqkv = backward ? typed(x->dtype, zeros(n * 3 * c), n * 3 * c) : NULL;
                if (backward)
                    lt_op(x, LT_OP_ATTENTION_BACKWARD,
                          &(union lt_args){.attention_backward = part});
                else
                    lt_op(x, LT_OP_ATTENTION_FORWARD, &(union lt_args){.attention_forward = part});
                lt_op_work(backward ? LT_OP_ATTENTION_BACKWARD : LT_OP_ATTENTION_FORWARD, x,
                           &(union lt_args){.attention_backward = part}, &work);
                flops[rank] += work.flops;
            }
        for (int64_t i = 0; i < b * h; i++)
            for (int half = 0; half < 2; half++)
                assert_near("log-sum-exp", part.lse + i * t + half * (t / 2),
                            whole.lse + i * all +
                                lt_share_token(t, RANKS, rank, folded, half * (t / 2)),
                            t / 2, 1e-4);
        float *own = floats(x->dtype, part.dqkv, n * 3 * c), *dq = zeros(n * c);
        for (int64_t i = 0; i < n; i++)
            memcpy(dq + i * c, own + i * 3 * c, (size_t)c * sizeof *dq);
        assert_near("attention", floats(x->dtype, part.out, n * c),
                    part_of(out, b, t, c, 0, c, own_tokens), n * c, near);
        assert_near("queries", dq, part_of(dqkv, b, t, 3 * c, 0, c, own_tokens), n * c, near);
    }
    for (int rank = 0; rank < RANKS; rank++)
        assert_near("keys and values", dkv[rank],
                    part_of(dqkv, b, t, 3 * c, c, 2 * c, (struct tokens){rank, folded}), n * 2 * c,
                    near);
    /* forward 2 products and backward 5 of all pairs that a rank multiplies */
    uint64_t own = lt_attention_pairs(x->backend, t), one = (uint64_t)(t * t);
    for (int rank = 0; rank < RANKS; rank++) {
        uint64_t others = folded ? (RANKS - 1) * one / 2 : (uint64_t)rank * one;
        assert_int_equal(flops[rank], 2 * (2 + 5) * (uint64_t)(b * c) * (own + others));
    }
}

static void attention(const struct lt_context *x)
{
    attention_of(x, 0);
    attention_of(x, 1);
}

/* The part of the vocabulary that is all of it looks up, and adds to, the same positions. */
static void part_positions(const struct lt_context *x, const struct lt_embedding *whole,
                           const float *slopes, int rank)
{
    int64_t count = whole->b * whole->t * whole->c, all = RANKS * whole->t * whole->c,
            before = lt_share_token(whole->t, RANKS, rank, 1, 0) * whole->c;
    float *own = zeros(all);
    struct lt_embedding_part part = {.out = typed(x->dtype, zeros(count), count),
                                     .word = whole->word,
                                     .position = whole->position,
                                     .tokens = whole->tokens,
                                     .dout = whole->dout,
                                     .dword = zeros(whole->v * whole->c),
                                     .dposition = own + before,
                                     .b = whole->b,
                                     .t = whole->t,
                                     .c = whole->c,
                                     .v = whole->v,
                                     .jump = whole->jump};
    lt_op(x, LT_OP_EMBEDDING_PART_FORWARD, &(union lt_args){.embedding_part_forward = part});
    lt_op(x, LT_OP_EMBEDDING_PART_BACKWARD, &(union lt_args){.embedding_part_backward = part});
    assert_near("part", floats(x->dtype, part.out, count), floats(x->dtype, whole->out, count),
                count, 1e-6f);
    assert_near("positions of a part", own, slopes, all, 1e-6f);
}

/* Positions of a folded part: each token gets that of its place, and adds to its gradient; the same
 * where this rank has all words as its part of the vocabulary. */
static void positions(const struct lt_context *x)
{
    int64_t b = 2, t = 6, c = 3, all = RANKS * t, v = 5;
    float *position = normals(all * c, 1, 1), *word = normals(v * c, 2, 1),
          *dout = normals(b * t * c, 3, 1);
    int32_t tokens[12] = {4, 0, 1, 2, 3, 4, 1, 1, 0, 3, 2, 2};
    float *want = zeros(all * c);
    for (int rank = 0; rank < RANKS; rank++) {
        int64_t first = lt_share_token(t, RANKS, rank, 1, 0),
                middle = lt_share_token(t, RANKS, rank, 1, t / 2);
        struct lt_embedding a = {.out = typed(x->dtype, zeros(b * t * c), b * t * c),
                                 .word = typed(x->dtype, word, v * c),
                                 .position =
                                     typed(x->dtype, position + first * c, (all - first) * c),
                                 .tokens = tokens,
                                 .dout = typed(x->dtype, dout, b * t * c),
                                 .dword = zeros(v * c),
                                 .b = b,
                                 .t = t,
                                 .c = c,
                                 .v = v,
                                 .jump = middle - first - t / 2};
        float *slopes = zeros(all * c), *slope = floats(x->dtype, a.dout, b * t * c);
        a.dposition = slopes + first * c;
        lt_op(x, LT_OP_EMBEDDING_FORWARD, &(union lt_args){.embedding_forward = a});
        lt_op(x, LT_OP_EMBEDDING_BACKWARD, &(union lt_args){.embedding_backward = a});
        part_positions(x, &a, slopes, rank);
        memset(want, 0, (size_t)(all * c) * sizeof *want);
        float *out = floats(x->dtype, a.out, b * t * c);
        for (int64_t i = 0; i < b * t * c; i++) {
            int64_t at = lt_share_token(t, RANKS, rank, 1, i / c % t);
            want[at * c + i % c] += slope[i];
            assert_true(fabsf(out[i] - word[tokens[i / c] * c + i % c] - position[at * c + i % c]) <
                        (x->dtype == LT_DTYPE_FP32 ? 1e-6f : 5e-2f));
        }
        assert_near("positions", slopes, want, all * c, 1e-6);
    }
}

static void for_each_context(void (*check)(const struct lt_context *))
{
    for (int b = 0; b < LT_BACKEND_COUNT; b++)
        for (int d = 0; d < LT_DTYPE_COUNT; d++)
            check(&(struct lt_context){.backend = (enum lt_backend)b, .dtype = (enum lt_dtype)d});
}

static void embeddings(void **state)
{
    (void)state;
    for_each_context(embedding);
}

static void classifiers(void **state)
{
    (void)state;
    for_each_context(classifier);
}

static void attentions(void **state)
{
    (void)state;
    for_each_context(attention);
}

static void folded_positions(void **state)
{
    (void)state;
    for_each_context(positions);
}

struct owners {
    uint8_t *times;
    size_t own; /* elements of the rank, each of which is met once */
};

static void meet(void *arg, size_t from, size_t to, size_t count)
{
    struct owners *owners = arg;
    (void)from;
    owners->own += count;
    for (size_t i = 0; i < count; i++)
        owners->times[to + i]++;
}

static void slices(void **state)
{
    (void)state;
    static const struct {
        struct lt_weight all;
        int groups;
    } wholes[] = {{{.first = 5, .repeat = 4, .rows = 12, .columns = 7}, 3},
                  {{.first = 5, .repeat = 4, .rows = 7, .columns = 12}, 0},
                  {{.first = 0, .repeat = 1, .rows = 11, .columns = 3}, 0},
                  {{.first = 9, .repeat = 4, .rows = 1, .columns = 12}, 3},
                  {{.first = 3, .repeat = 4, .rows = 12, .columns = 5, .lead = 6}, 3}};
    for (size_t k = 0; k < sizeof wholes / sizeof *wholes; k++) {
        const struct lt_weight *all = &wholes[k].all;
        size_t size = (size_t)(all->repeat * all->rows * all->columns);
        int ranks = all->rows == 11 ? 3 : 2;
        uint8_t *times = pool_bytes(all->first + size);
        for (int stage = 0; stage < (all->repeat > 1 ? 2 : 1); stage++)
            for (int rank = 0; rank < ranks; rank++) {
                struct lt_weight own = *all;
                struct lt_slice slice = {
                    .first = all->repeat / 2 * stage, .rank = rank, .ranks = ranks};
                struct owners owners = {.times = times};
                own.repeat = all->repeat > 1 ? all->repeat / 2 : 1;
                if (all->rows == 11)
                    own.rows = (int64_t)(lt_share(11, 3, rank + 1) - lt_share(11, 3, rank));
                else if (all->columns == 12)
                    own.columns = 6;
                else
                    own.rows = 6;
                lt_slice_runs(&own, all, wholes[k].groups, &slice, meet, &owners);
                assert_int_equal(owners.own, own.repeat * own.rows * own.columns);
            }
        for (size_t i = 0; i < all->first + size; i++)
            assert_int_equal(times[i], i >= all->first);
    }
}

/* Blocks that do not lie together: each one's place in the whole, for chunks of two of three ranks.
 */
struct placed {
    size_t from[8], to[8], count;
};

static void place(void *arg, size_t from, size_t to, size_t count)
{
    struct placed *placed = arg;
    assert_int_equal(count, 6);
    placed->from[placed->count] = from;
    placed->to[placed->count++] = to;
}

static void chunks(void **state)
{
    (void)state;
    struct lt_weight own = {.first = 0, .repeat = 4, .rows = 2, .columns = 3},
                     all = {.first = 100, .repeat = 12, .rows = 2, .columns = 3};
    struct lt_slice slice = {.first = 2, .ranks = 1, .each = 2, .stride = 6};
    static const size_t blocks[] = {2, 3, 8, 9};
    struct placed placed = {.count = 0};
    lt_slice_runs(&own, &all, 0, &slice, place, &placed);
    assert_int_equal(placed.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(placed.from[i], 6 * i);
        assert_int_equal(placed.to[i], 100 + 6 * blocks[i]);
    }
}

/* A stage that begins with block 1 has parts of the experts of its two blocks, and all of what is
 * no expert, whichever part it has. */
static void experts(void **state)
{
    (void)state;
    struct lt_weight own = {.repeat = 4, .rows = 2, .columns = 3, .each = 2},
                     all = {.first = 100, .repeat = 18, .rows = 2, .columns = 3, .each = 6},
                     dense = {.repeat = 2, .rows = 2, .columns = 3},
                     blocks = {.first = 50, .repeat = 3, .rows = 2, .columns = 3};
    struct lt_slice slice = {.first = 1, .ranks = 1, .part = 2};
    static const size_t matrices[] = {10, 11, 16, 17};
    struct placed placed = {.count = 0}, beside = {.count = 0};
    lt_slice_runs(&own, &all, 0, &slice, place, &placed);
    lt_slice_runs(&dense, &blocks, 0, &slice, place, &beside);
    assert_int_equal(placed.count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(placed.to[i], 100 + 6 * matrices[i]);
    assert_int_equal(beside.count, 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(beside.to[i], 50 + 6 * (i + 1));
}

/* Four query heads, two groups of keys and two of values, of two rows each: the second of two ranks
 * has the later half of each of the three. */
static void longer_group(void **state)
{
    (void)state;
    struct lt_weight own = {.repeat = 1, .rows = 8, .columns = 3},
                     all = {.first = 100, .repeat = 1, .rows = 16, .columns = 3, .lead = 4};
    struct lt_slice slice = {.rank = 1, .ranks = 2};
    struct owners owners = {.times = pool_bytes(100 + 16 * 3)};
    lt_slice_runs(&own, &all, 3, &slice, meet, &owners);
    assert_int_equal(owners.own, 8 * 3);
    for (size_t row = 0; row < 16; row++)
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(owners.times[100 + 3 * row + i],
                             (row >= 4 && row < 8) || (row >= 10 && row < 12) || row >= 14);
}

/* Without positions, as in a model that turns its heads. */
static void no_positions(const struct lt_context *x)
{
    int64_t b = 1, t = 3, c = 5, v = 4, n = b * t * c;
    struct tacho_work work;
    float *dout = normals(n, 1, 1);
    struct lt_embedding whole = {.out = typed(x->dtype, zeros(n), n),
                                 .word = typed(x->dtype, normals(v * c, 2, 1), v * c),
                                 .tokens = words(b * t, 3, v),
                                 .dout = typed(x->dtype, dout, n),
                                 .dword = zeros(v * c),
                                 .b = b,
                                 .t = t,
                                 .c = c,
                                 .v = v};
    struct lt_embedding_part part = {.out = typed(x->dtype, zeros(n), n),
                                     .word = whole.word,
                                     .tokens = whole.tokens,
                                     .dout = whole.dout,
                                     .dword = zeros(v * c),
                                     .b = b,
                                     .t = t,
                                     .c = c,
                                     .v = v};
    lt_op(x, LT_OP_EMBEDDING_FORWARD, &(union lt_args){.embedding_forward = whole});
    lt_op(x, LT_OP_EMBEDDING_BACKWARD, &(union lt_args){.embedding_backward = whole});
    lt_op(x, LT_OP_EMBEDDING_PART_FORWARD, &(union lt_args){.embedding_part_forward = part});
    lt_op(x, LT_OP_EMBEDDING_PART_BACKWARD, &(union lt_args){.embedding_part_backward = part});
    assert_memory_equal(part.dword, whole.dword, (size_t)(v * c) * sizeof(float));
    assert_near("words", floats(x->dtype, part.out, n), floats(x->dtype, whole.out, n), n, 0);
    lt_op_work(LT_OP_EMBEDDING_PART_BACKWARD, x, &(union lt_args){.embedding_part_backward = part},
               &work);
    assert_int_equal(work.flops, n);
}

static void embeddings_alone(void **state)
{
    (void)state;
    for_each_context(no_positions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(longer_group, pool_free),
        cmocka_unit_test_teardown(embeddings_alone, pool_free),
        cmocka_unit_test_teardown(embeddings, pool_free),
        cmocka_unit_test_teardown(classifiers, pool_free),
        cmocka_unit_test_teardown(attentions, pool_free),
        cmocka_unit_test_teardown(folded_positions, pool_free),
        cmocka_unit_test_teardown(slices, pool_free),
        cmocka_unit_test(chunks),
        cmocka_unit_test(experts),
    };
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
