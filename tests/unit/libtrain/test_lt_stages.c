/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules of a pipeline: each pass once, in an order that the inputs allow, as many micro-batches
 * in flight as the schedule promises, makespans equal to the closed forms. Layouts: their text.
 */
#include "lt_support.h"

#include <math.h>

#include "libtrain/parallel/layout.h"
#include "libtrain/parallel/stages.h"

enum { STAGES = 8, MICRO = 32, CHUNKS = 4 };

/* What a schedule promises: micro-batches in flight at a stage; and how long a step takes where
 * every stage takes these for its passes. */
static int promised_in_flight(const struct lt_staging *staging, int stage)
{
    int micro = staging->micro, stages = staging->stages, chunks = staging->chunks,
        ahead = micro * chunks;
    if (staging->kind == LT_STAGES_ONE_F_ONE_B)
        ahead = stages - stage;
    if (staging->kind == LT_STAGES_ZB_H1)
        ahead = stages;
    if (staging->kind == LT_STAGES_INTERLEAVED && micro > stages)
        ahead = 2 * (stages - stage - 1) + (chunks - 1) * stages + 1;
    return ahead < micro * chunks ? ahead : micro * chunks;
}

static double closed_form(const struct lt_staging *staging, const struct lt_stage_times *times)
{
    double all = times->forward + times->backward + times->weights, bubble = all;
    if (staging->kind == LT_STAGES_ZB_H1)
        bubble -= 2 * times->weights;
    return staging->micro * all + (staging->stages - 1) * bubble / staging->chunks;
}

/* Every micro-batch once in each kind of pass and chunk, backward after forward, weights after
 * backward, each chunk's in the order of micro-batches; slots that are free when they are taken. */
static void check_passes(const struct lt_staging *staging, int stage)
{
    struct lt_pass pass[3 * MICRO * CHUNKS];
    int next[LT_PASS_KINDS][CHUNKS] = {{0}}, holder[MICRO * CHUNKS] = {0};
    int frees = lt_stages_split(staging->kind) ? LT_PASS_WEIGHTS : LT_PASS_BACKWARD;
    int want = promised_in_flight(staging, stage);
    assert_int_equal(lt_stages_passes(staging, stage, pass), want);
    for (size_t i = 0; i < lt_stages_count(staging); i++) {
        int kind = (int)pass[i].kind, chunk = pass[i].chunk;
        int own = 1 + pass[i].micro * staging->chunks + chunk;
        assert_int_equal(pass[i].micro, next[kind][chunk]++);
        if (kind > 0)
            assert_true(next[kind][chunk] <= next[kind - 1][chunk]);
        assert_in_range(pass[i].slot, 0, want - 1);
        assert_int_equal(holder[pass[i].slot], kind == LT_PASS_FORWARD ? 0 : own);
        holder[pass[i].slot] = kind == frees ? 0 : own;
    }
    for (int kind = 0; kind <= frees; kind++)
        for (int chunk = 0; chunk < staging->chunks; chunk++)
            assert_int_equal(next[kind][chunk], staging->micro);
}

/* Makespans are the closed forms, for p of 1 to 8 and m of p, 2 p, 4 p; of schedules without chunks
 * every m from p on. W is at most F and at most B, which zb-h1's form asks for. */
static void makespans(void **state)
{
    (void)state;
    static const struct lt_stage_times kinds[] = {{3, 5, 2}, {1, 1, 1}, {2, 4, 2}};
    struct lt_stage_times times[STAGES];
    struct lt_staging all = {0};
    for (int kind = 0; kind < LT_STAGES_COUNT; kind++)
        for (all.stages = 1; all.stages <= STAGES; all.stages++)
            for (all.micro = all.stages; all.micro <= 4 * all.stages; all.micro++)
                for (all.chunks = 1; all.chunks <= CHUNKS; all.chunks *= 2) {
                    all.kind = (enum lt_stages)kind;
                    if ((all.chunks > 1) != (all.kind == LT_STAGES_INTERLEAVED) ||
                        (all.chunks > 1 && all.micro % all.stages))
                        continue;
                    for (int i = 0; i < all.stages; i++)
                        check_passes(&all, i);
                    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
                        for (int i = 0; i < all.stages; i++)
                            times[i] = kinds[k];
                        assert_true(fabs(lt_stages_makespan(&all, times) -
                                         closed_form(&all, times)) < 1e-9);
                    }
                }
}

/* With fewer micro-batches than stages, every schedule without chunks is gpipe or better. */
static void few_micro_batches(void **state)
{
    (void)state;
    struct lt_stage_times times[STAGES];
    for (int i = 0; i < STAGES; i++)
        times[i] = (struct lt_stage_times){3, 4, 1};
    struct lt_staging all = {.stages = STAGES, .chunks = 1};
    for (all.micro = 1; all.micro < STAGES; all.micro++) {
        all.kind = LT_STAGES_GPIPE;
        assert_true(lt_stages_makespan(&all, times) == (all.micro + STAGES - 1) * 8.0);
        all.kind = LT_STAGES_ONE_F_ONE_B;
        assert_true(lt_stages_makespan(&all, times) == (all.micro + STAGES - 1) * 8.0);
        all.kind = LT_STAGES_ZB_H1;
        assert_true(lt_stages_makespan(&all, times) <= (all.micro + STAGES - 1) * 8.0);
        for (int i = 0; i < STAGES; i++)
            check_passes(&all, i);
    }
}

/* One stage that takes longer keeps the others waiting: its own passes, and the way of the first
 * micro-batch to it and of the last one from it. */
static void slow_stage(void **state)
{
    (void)state;
    for (int slow = 0; slow < 4; slow++) {
        struct lt_stage_times times[4] = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
        struct lt_staging all = {LT_STAGES_GPIPE, 4, 16, 1};
        times[slow] = (struct lt_stage_times){4, 4, 4};
        double others = 3 * 3.0;
        assert_true(lt_stages_makespan(&all, times) == 16 * 12 + others);
    }
}

static void layouts(void **state)
{
    (void)state;
    struct tacho_error err;
    struct lt_layout layout;
    static const char *const bad[] = {"",        "dp",  "dp0",  "dp2.",    ".dp2", "dp2pp2",
                                      "dp2.dp2", "xp2", "dp-2", "dp99999", "dp2 "};
    assert_int_equal(lt_layout_parse(&layout, "pp3.dp2", 3, 6, &err), 0);
    assert_int_equal(layout.dp, 2);
    assert_int_equal(layout.stage, 1);
    assert_int_equal(layout.replica, 1);
    assert_int_equal(lt_layout_parse(&layout, NULL, 4, 5, &err), 0);
    assert_int_equal(layout.dp, 5);
    assert_int_equal(layout.stage, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(lt_layout_parse(&layout, bad[i], 0, 2, &err), TACHO_EUSAGE);
    assert_int_equal(lt_layout_parse(&layout, "pp4", 0, 2, &err), TACHO_EUSAGE);
    assert_non_null(strstr(err.what, "needs 4 ranks"));
    layout = (struct lt_layout){.dp = 1, .pp = 3};
    assert_int_equal(lt_layout_blocks(&layout, 1, 8).first, 2);
    assert_int_equal(lt_layout_blocks(&layout, 1, 8).count, 3);
}

/* Number `rank` of a group is the rank that the axis leads to. */
static void assert_member(struct lt_group group, const struct lt_axis *axis, int ranks, int rank)
{
    assert_int_equal(group.ranks, ranks);
    assert_int_equal(axis->first + group.rank * axis->stride, rank);
}

/* Every rank is in one place, and in the groups of those that share a coordinate with it. */
static void places(void **state)
{
    (void)state;
    static const char *const texts[] = {"dp2.tp2.pp2.cp2", "cp4.tp2.pp2", "tp4.dp2.cp2",
                                        "pp4.cp2.dp2",     "dp2.ep8",     "cp16",
                                        "dp2.ep4.pp2",     "ep4.tp4",     "dp2.ep2.tp2.pp2"};
    struct tacho_error err;
    struct lt_axis axis;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int rank = 0; rank < 16; rank++) {
            struct lt_layout at;
            assert_int_equal(lt_layout_parse(&at, texts[i], rank, 16, &err), 0);
            assert_int_equal(lt_layout_rank(&at, at.stage, lt_layout_copy(&at), at.part), rank);
            assert_member(lt_layout_replicas(&at, NULL, &axis), &axis, at.dp * at.cp * at.ep, rank);
            assert_member(lt_layout_contexts(&at, NULL, &axis), &axis, at.cp, rank);
            assert_member(lt_layout_parts(&at, NULL, &axis), &axis, at.tp, rank);
            assert_member(lt_layout_experts(&at, NULL, &axis), &axis, at.ep, rank);
            if (at.cp == 1)
                assert_member(lt_layout_owners(&at, NULL, &axis), &axis, at.dp, rank);
        }
    assert_int_equal(lt_layout_parse(&(struct lt_layout){0}, "ep2.cp2", 0, 4, &err), TACHO_EUSAGE);
    assert_non_null(strstr(err.what, "not ep with cp"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makespans),  cmocka_unit_test(few_micro_batches),
        cmocka_unit_test(slow_stage), cmocka_unit_test(layouts),
        cmocka_unit_test(places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
