/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings of PyTorch's parallel layers on the CPU: buckets of DistributedDataParallel with its own
 * timers, gathers of FSDP by pass and by the memory that is left. Two ranks, steps of 100 ms.
 */
#include "tests/unit/an_fixture.h"

#define MS    1000000ll
#define STEPS 24
#define MIB   (1 << 20)

struct job {
    struct fixture *f;
    int64_t process[2], track[2];
};

static void open_job(struct job *job, struct fixture *f)
{
    job->f = f;
    fx_open(f);
    for (int64_t rank = 0; rank < 2; rank++) {
        job->process[rank] = fx_process(f, rank, "train");
        job->track[rank] = fx_track(f, job->process[rank], "thread", "steps", NULL);
    }
}

static void add(struct job *job, int64_t rank, int64_t start_ms, int64_t ms, const char *name,
                int64_t detail)
{
    struct fixture *f = job->f;
    struct store_slice slice = {.track = job->track[rank],
                                .start = FX_BASE + start_ms * MS,
                                .dur = ms * MS,
                                .name = fx_string(f, name),
                                .category = fx_string(f, "torch"),
                                .detail = detail,
                                .correlation = FX_NONE};
    FX(store_slice_add(f->s, &slice));
}

static int64_t comm(struct job *job, const char *collective, int64_t bytes)
{
    struct store_detail detail = fx_empty();
    detail.schema = "tacho.comm";
    detail.collective = collective;
    detail.ranks = 2;
    detail.bytes = bytes;
    return fx_intern(job->f, &detail);
}

static void counter(struct job *job, const char *name, double value)
{
    for (int rank = 0; rank < 2; rank++) {
        int64_t track = fx_track(job->f, job->process[rank], "counter", name, "");
        for (int i = 0; i < 10; i++)
            fx_counter(job->f, track, (i * 100 + 50) * MS, value);
    }
}

static const struct an_finding *finding(const struct an_result *result, const char *id)
{
    for (size_t i = 0; i < result->finding_count; i++)
        if (!strcmp(result->findings[i].id, id))
            return &result->findings[i];
    return NULL;
}

static void says(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text ? text : "(null)", part);
}

/* 20 of 100 ms wait for reductions after backward, which takes 30 ms of communication. */
static const struct an_result *replicate(struct job *job, struct fixture *f, double buckets,
                                         double largest_mib, double all_mib, double overlapped_ms)
{
    open_job(job, f);
    int64_t work = fx_work(f, "matrix", "fp32", 1000, 1000, 1000),
            reduce = comm(job, "all_reduce", FX_NONE);
    for (int i = 0; i < STEPS; i++)
        for (int rank = 0; rank < 2; rank++) {
            fx_step(f, job->process[rank], job->track[rank], i, i * 100 * MS, (i + 1) * 100 * MS,
                    64, false);
            add(job, rank, i * 100, 80, "backward", work);
            add(job, rank, i * 100 + 80, 20, "gradients reduced", reduce);
        }
    counter(job, "ddp.buckets", buckets);
    counter(job, "ddp.largest_bytes", largest_mib * MIB);
    counter(job, "ddp.gradient_bytes", all_mib * MIB);
    counter(job, "ddp.communication_ms", 30);
    counter(job, "ddp.overlapped_ms", overlapped_ms);
    return fx_analyze(f);
}

static void test_one_large_bucket(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct job job;
    (void)state;
    const struct an_finding *found = finding(replicate(&job, f, 2, 30, 32, 10), "DDP_BUCKETS");
    assert_non_null(found);
    says(found->claim, "one bucket");
    says(found->claim, "waits 20.0 % of its time");
    says(found->action, "bucket_cap_mb=4");
    says(found->evidence[1], "30 ms from the first to the last reduction of a pass, 10 ms");
    assert_near(found->gain.high.value, 25, 0.01);
    fx_close(f);
    /* what is beside backward already, or less than the smallest bucket, is no fault of buckets */
    assert_null(finding(replicate(&job, f, 2, 30, 32, 20), "DDP_BUCKETS"));
    fx_close(f);
    assert_null(finding(replicate(&job, f, 1, 0.5, 0.5, 0), "DDP_BUCKETS"));
    fx_close(f);
    assert_null(finding(replicate(&job, f, 8, 4, 32, 10), "DDP_BUCKETS"));
    fx_close(f);
}

static void test_many_small_buckets(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct job job;
    (void)state;
    const struct an_finding *found = finding(replicate(&job, f, 64, 0.1, 4, 25), "DDP_BUCKETS");
    assert_non_null(found);
    says(found->claim, "64 buckets");
    fx_close(f);
}

/* Forward gathers for 10 ms and backward for 22 ms of 100; 8 MiB each time. */
static const struct an_result *shard(struct job *job, struct fixture *f, double room_mib)
{
    open_job(job, f);
    int64_t work = fx_work(f, "matrix", "fp32", 1000, 1000, 1000),
            gather = comm(job, "all_gather", 4 * MIB);
    add(job, 0, 0, 0, "framework FSDP2 2.15.0", FX_NONE);
    for (int i = 0; i < STEPS; i++)
        for (int rank = 0; rank < 2; rank++) {
            int64_t at = i * 100;
            fx_step(f, job->process[rank], job->track[rank], i, at * MS, (at + 100) * MS, 64,
                    false);
            add(job, rank, at, 5, "all_gather", gather);
            add(job, rank, at + 5, 10, "Linear", work);
            add(job, rank, at + 15, 5, "all_gather", gather);
            add(job, rank, at + 20, 10, "Linear", work);
            add(job, rank, at + 30, 60, "backward", work);
            add(job, rank, at + 40, 10, "all_gather", gather);
            add(job, rank, at + 58, 12, "FSDP::all_gather (0)", FX_NONE); /* packs for 2 ms */
            add(job, rank, at + 60, 10, "all_gather", gather);
        }
    if (room_mib > 0) { /* besides what both ranks hold: 32 MiB each */
        char text[32];
        snprintf(text, sizeof text, "%.0f", (room_mib + 64) * MIB);
        FX(store_run_set(f->s, "memory.bytes", text));
        for (int rank = 0; rank < 2; rank++) {
            int64_t track = fx_track(f, job->process[rank], "counter", "rss", "bytes");
            for (int i = 0; i < 10 * STEPS; i++)
                fx_counter(f, track, i * 10 * MS, 32.0 * MIB);
        }
    }
    return fx_analyze(f);
}

static void test_gathers_by_pass(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct job job;
    (void)state;
    const struct an_result *result = shard(&job, f, 0);
    const struct an_finding *again = finding(result, "FSDP_RESHARD"),
                            *ahead = finding(result, "FSDP_PREFETCH");
    assert_non_null(again);
    assert_non_null(ahead);
    says(again->claim, "22.0 % of the step");
    says(again->action, "reshard_after_forward=False");
    says(again->evidence[1], "2 gathers a step, 8.39 MB in them");
    says(ahead->claim, "10.0 % of the step");
    assert_near(again->gain.high.value, 100 * (100 / 78.0 - 1), 0.01);
    says(again->evidence[2], "not known");
    assert_string_equal(result->run.around, "FSDP2 2.15.0");
    for (size_t i = 0; i < result->finding_count; i++)
        if (strstr(result->findings[i].action, "bucket"))
            fail_msg("%s: %s", result->findings[i].id, result->findings[i].action);
    fx_close(f);
}

/* Kept parameters are 8 MiB more on each of two ranks, one block ahead is 4 MiB. */
static void test_memory_that_is_left(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct job job;
    (void)state;
    const struct an_result *result = shard(&job, f, 100);
    says(finding(result, "FSDP_RESHARD")->evidence[2], "8.39 MB more on each of 2 ranks");
    says(finding(result, "FSDP_RESHARD")->evidence[2], "of which 105 MB are left");
    fx_close(f);
    result = shard(&job, f, 12);
    assert_null(finding(result, "FSDP_RESHARD"));
    assert_non_null(finding(result, "FSDP_PREFETCH"));
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_large_bucket), cmocka_unit_test(test_many_small_buckets),
        cmocka_unit_test(test_gathers_by_pass), cmocka_unit_test(test_memory_that_is_left)};
    return cmocka_run_group_tests_name("an_parallel", tests, NULL, NULL);
}
