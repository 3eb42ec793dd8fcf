/* SPDX-License-Identifier: Apache-2.0
 *
 * Dataset and loader: what a batch holds, the same batches whoever makes them (threads, processes,
 * through locked memory or not), small and odd texts, stopping early, failing storage, workers that
 * are killed. No OpenMP runs here, so that the thread sanitizer can watch it.
 */
#include "lt_support.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "libtrain/base/memory.h"
#include "libtrain/loader/loader.h"

static char folder[256], text[300];
static struct lt_source *source;

static void open_text(size_t bytes, int64_t t)
{
    write_text(text, bytes, 5);
    source = open_text_source(text, t);
}

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s", scratch_folder());
    snprintf(text, sizeof text, "%s/text", folder);
    source = NULL;
    return 0;
}

static int teardown(void **state)
{
    lt_source_close(source);
    unlink(text);
    rmdir(folder);
    return pool_free(state);
}

static unsigned char byte_at(uint64_t i)
{
    return (unsigned char)(32 + lt_random_bits(5, i) % 95);
}

static struct lt_loader *make(const struct lt_loader_config *config, struct lt_trace *trace)
{
    struct tacho_error err = {0};
    struct lt_loader *l = NULL;
    struct lt_part whole = lt_source_whole(source);
    if (lt_loader_create(&l, &whole, config, trace, &err))
        fail_msg("%s", err.what);
    return l;
}

static struct lt_batch next(struct lt_loader *l)
{
    struct tacho_error err = {0};
    struct lt_batch batch = {0};
    if (lt_loader_next(l, &batch, &err))
        fail_msg("%s", err.what);
    return batch;
}

static void in_file_order(void **state)
{
    (void)state;
    open_text(1000, 7);
    assert_int_equal(source->samples, 999 / 7);
    struct lt_part part = {.source = source, .first = 14, .samples = 99};
    struct lt_loader_config k = {.options = {.in_order = 1}, .b = 3};
    struct tacho_error err = {0};
    struct lt_loader *l = NULL;
    assert_int_equal(lt_loader_create(&l, &part, &k, NULL, &err), 0);
    for (uint64_t batch = 0; batch < 100; batch++) { /* more than two epochs */
        struct lt_batch x = next(l);
        for (uint64_t i = 0; i < 3 * 7; i++) {
            uint64_t at = (14 + (3 * batch + i / 7) % 99) * 7 + i % 7;
            assert_int_equal(x.tokens[i], byte_at(at));
            assert_int_equal(x.targets[i], byte_at(at + 1));
        }
    }
    assert_int_equal(lt_loader_position(l), 300);
    lt_loader_destroy(l);
}

/* Each sample of an epoch once, in another order each epoch, and not in file order. */
static void shuffled(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 70; n += 17) {
        uint64_t moved = 0, same = 0;
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            unsigned char seen[70] = {0};
            for (uint64_t i = 0; i < n; i++) {
                uint64_t image = lt_random_permute(lt_random_bits(3, epoch), i, n);
                assert_true(image < n && !seen[image]);
                seen[image] = 1;
                moved += image != i;
                same += epoch == 1 && image == lt_random_permute(lt_random_bits(3, 0), i, n);
            }
        }
        if (n > 10)
            assert_true(moved > n && same < n / 2);
    }
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* The first `batches` batches, one after the other. */
static int32_t *take_with(struct lt_loader_options options, uint64_t position, int64_t batches)
{
    struct lt_loader_config k = {.options = options, .b = 2, .seed = 42, .position = position};
    struct lt_loader *l = make(&k, NULL);
    int32_t *all = pool_bytes((size_t)(batches * 44) * sizeof *all);
    for (int64_t i = 0; i < batches; i++) {
        struct lt_batch x = next(l);
        memcpy(all + i * 44, x.tokens, 22 * sizeof *all);
        memcpy(all + i * 44 + 22, x.targets, 22 * sizeof *all);
    }
    assert_int_equal(lt_loader_position(l), position + 2 * (uint64_t)batches);
    lt_loader_destroy(l);
    return all;
}

static int32_t *take(int workers, int prefetch, uint64_t position, int64_t batches)
{
    return take_with((struct lt_loader_options){.workers = workers, .prefetch = prefetch}, position,
                     batches);
}

static void same_batches_whoever_makes_them(void **state)
{
    (void)state;
    open_text(3001, 11);
    const int32_t *want = take(0, 0, 0, 400);
    static const int crews[][2] = {{1, 1}, {1, 4}, {2, 1}, {3, 7}, {8, 3}};
    for (size_t i = 0; i < sizeof crews / sizeof *crews; i++)
        assert_memory_equal(take(crews[i][0], crews[i][1], 0, 400), want, 400 * 44 * sizeof *want);
    for (int pin = 0; pin < 2; pin++)
        for (int workers = 0; workers < 4; workers++) {
            struct lt_loader_options o = {
                .workers = workers, .prefetch = 3, .kind = LT_WORKERS_PROCESSES, .pin = pin};
            assert_memory_equal(take_with(o, 0, 400), want, 400 * 44 * sizeof *want);
            o.kind = LT_WORKERS_THREADS;
            assert_memory_equal(take_with(o, 0, 400), want, 400 * 44 * sizeof *want);
        }
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left, not even a dead one */
    assert_int_equal(errno, ECHILD);
    assert_memory_equal(take(2, 2, 2 * 150, 250), want + 150 * 44,
                        250 * 44 * sizeof *want); /* resumed */
}

/* 2 ranks of which each takes a batch of 2 see what one rank sees that takes batches of 4, or two
 * of 2. */
static void ranks_share_the_samples(void **state)
{
    (void)state;
    open_text(3001, 11);
    const int32_t *want = take(0, 0, 6, 200);
    for (int rank = 0; rank < 2; rank++) {
        struct lt_loader_config k = {.options = {.workers = 2, .prefetch = 2},
                                     .b = 2,
                                     .seed = 42,
                                     .position = 6,
                                     .rank = rank,
                                     .ranks = 2};
        struct lt_loader *l = make(&k, NULL);
        for (int i = 0; i < 100; i++)
            assert_memory_equal(next(l).tokens, want + (2 * i + rank) * 44, 22 * sizeof *want);
        assert_int_equal(lt_loader_position(l), 6 + 400);
        lt_loader_destroy(l);
    }
}

static void small_texts(void **state)
{
    (void)state;
    struct tacho_error err = {0};
    struct lt_dataset *data = NULL;
    const char *paths[] = {text};
    write_text(text, 8, 5);
    assert_int_equal(lt_dataset_open(&data, paths, 1, &err), 0);
    assert_int_equal(lt_source_open_text(&source, data, 8, &err), TACHO_EFORMAT);
    assert_null(source);
    assert_non_null(strstr(err.what, "8 bytes"));
    assert_true(strlen(err.hint) > 0);
    open_text(8, 7); /* one sample, used for every place of every batch */
    struct lt_loader_config k = {.options = {.workers = 2, .prefetch = 2}, .b = 2};
    struct lt_loader *l = make(&k, NULL);
    for (int i = 0; i < 5; i++) {
        struct lt_batch x = next(l);
        assert_int_equal(x.tokens[7], byte_at(0));
        assert_int_equal(x.targets[13], byte_at(7));
    }
    lt_loader_destroy(l);
}

static void bad_paths(void **state)
{
    (void)state;
    struct tacho_error err = {0};
    const char *paths[] = {text};
    struct lt_dataset *d = NULL;
    assert_int_equal(lt_dataset_open(&d, paths, 1, &err), TACHO_ENOTFOUND);
    assert_non_null(strstr(err.what, text));
    write_text(text, 0, 1);
    assert_int_equal(lt_dataset_open(&d, paths, 1, &err), TACHO_EFORMAT);
    assert_non_null(strstr(err.what, text));
    paths[0] = "/dev/null";
    assert_int_equal(lt_dataset_open(&d, paths, 1, &err), TACHO_EFORMAT);
    paths[0] = folder; /* holds one empty file */
    assert_int_equal(lt_dataset_open(&d, paths, 1, &err), TACHO_EFORMAT);
    assert_null(d);
}

/* Files of a folder follow one another by name; links and hidden files do not count; reads cross
 * from one to the next. */
static void folders(void **state)
{
    (void)state;
    struct tacho_error err = {0};
    char path[4][320];
    static const char *const names[] = {"b", "a", ".hidden", "link"};
    const char *paths[] = {folder};
    struct lt_dataset *data = NULL;
    char got[7] = {0};
    for (int i = 0; i < 4; i++)
        snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]);
    for (int i = 0; i < 3; i++) {
        FILE *f = fopen(path[i], "w");
        fputs(i == 0 ? "4567" : i == 1 ? "0123" : "hidden", f);
        fclose(f);
    }
    assert_int_equal(symlink(path[0], path[3]), 0);
    assert_int_equal(lt_dataset_open(&data, paths, 1, &err), 0);
    assert_int_equal(lt_dataset_bytes(data), 8);
    assert_int_equal(lt_dataset_files(data), 2);
    assert_int_equal(lt_dataset_read(data, 2, got, 6, &err), 0);
    assert_string_equal(got, "234567");
    assert_int_not_equal(lt_dataset_read(data, 5, got, 4, &err), 0); /* beyond the end */
    lt_dataset_close(data);
    for (int i = 0; i < 4; i++)
        unlink(path[i]);
}

/* Workers that wait for room, that work, and that nobody ever asked for anything. */
static void stops_early(void **state)
{
    (void)state;
    open_text(5000, 16);
    for (int i = 0; i < 60; i++) {
        struct lt_loader_config k = {.options = {.workers = 1 + i % 5,
                                                 .prefetch = 1 + i % 4,
                                                 .kind = (enum lt_worker_kind)(i % 2),
                                                 .pin = i / 2 % 2},
                                     .b = 1 + i % 3};
        struct lt_loader *l = make(&k, NULL);
        for (int j = 0; j < i % 7; j++)
            next(l);
        if (i % 11 == 0)
            usleep(2000);
        lt_loader_destroy(l);
    }
    lt_loader_destroy(NULL);
}

static void a_text_that_shrinks(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) { /* 0, 1, 2 threads, processes; pinned or not */
        struct tacho_error err = {0};
        open_text(50000, 16);
        struct lt_loader_options o = {.workers = i / 2 % 3,
                                      .prefetch = 2,
                                      .kind = (enum lt_worker_kind)(i / 2 > 2),
                                      .pin = i % 2};
        struct lt_loader_config k = {.options = o, .b = 4};
        struct lt_loader *l = make(&k, NULL);
        struct lt_batch x;
        assert_int_equal(truncate(text, 900), 0);
        int rc = 0;
        for (int j = 0; j < 1000 && rc == 0; j++)
            rc = lt_loader_next(l, &x, &err);
        assert_int_equal(rc, TACHO_EIO);
        assert_non_null(strstr(err.what, text));
        assert_int_equal(lt_loader_next(l, &x, &err), TACHO_EIO);
        lt_loader_destroy(l);
        lt_source_close(source);
        source = NULL;
    }
}

/* ---- processes ------------------------------------------------------------------------------------------------------------- */

/* Children of `parent` that are called loader-N; ended ones are not counted. */
static size_t find_workers(pid_t parent, pid_t *pids, size_t cap)
{
    DIR *d = opendir("/proc");
    size_t count = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) && count < cap;) {
        char path[300], line[200], mode;
        int pid, ppid, number;
        snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        FILE *f = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        if (f && fgets(line, sizeof line, f) &&
            sscanf(line, "%d (loader-%d) %c %d", &pid, &number, &mode, &ppid) == 4 &&
            ppid == parent && mode != 'Z')
            pids[count++] = pid;
        if (f)
            fclose(f);
    }
    closedir(d);
    return count;
}

static size_t wait_for_workers(pid_t parent, pid_t *pids, size_t count)
{
    size_t found = 0;
    for (int i = 0; i < 2000 && (found = find_workers(parent, pids, count)) < count; i++)
        usleep(5000);
    return found;
}

/* Whatever it is doing: the run ends with words, within a moment. */
static void a_worker_that_is_killed(void **state)
{
    (void)state;
    open_text(5000, 16);
    for (int i = 0; i < 40; i++) {
        struct lt_loader_options o = {
            .workers = 2, .prefetch = 2, .kind = LT_WORKERS_PROCESSES, .pin = i % 2};
        struct lt_loader_config k = {.options = o, .b = 1};
        struct tacho_error err = {0};
        struct lt_batch x;
        pid_t pids[2];
        int rc = 0;
        if (i < 4) /* first while they sleep in a stage, then at any moment */
            k.options.slow[LT_STAGE_DECODE] = 0.01;
        struct lt_loader *l = make(&k, NULL);
        assert_int_equal(wait_for_workers(getpid(), pids, 2), 2);
        for (int j = 0; j < i * 7 % 50; j++)
            next(l);
        kill(pids[i / 2 % 2], SIGKILL);
        double start = now();
        for (int j = 0; j < 1000000 && rc == 0; j++)
            rc = lt_loader_next(l, &x, &err);
        assert_true(now() - start < 20);
        assert_int_equal(rc, TACHO_EINTERNAL);
        if (!strstr(err.what, "held the lock")) {
            char words[80];
            snprintf(words, sizeof words, "(process %d) was killed by signal 9",
                     (int)pids[i / 2 % 2]);
            assert_non_null(strstr(err.what, words));
        }
        assert_true(strlen(err.hint) > 0);
        assert_int_equal(lt_loader_next(l, &x, NULL), TACHO_EINTERNAL);
        lt_loader_destroy(l);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    }
}

/* A program that dies takes its workers with it. */
static void a_program_that_is_killed(void **state)
{
    (void)state;
    pid_t pids[3], program = fork();
    assert_true(program >= 0);
    if (program == 0) {
        open_text(5000, 16);
        struct lt_loader_config k = {
            .options = {.workers = 3, .prefetch = 2, .kind = LT_WORKERS_PROCESSES}, .b = 1};
        make(&k, NULL);
        for (;;)
            pause();
    }
    assert_int_equal(wait_for_workers(program, pids, 3), 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kill(pids[i], SIGINT), 0); /* that one is the program's, not theirs */
        assert_int_equal(kill(pids[i], SIGTERM), 0);
    }
    usleep(20000);
    assert_int_equal(find_workers(program, pids, 3), 3);
    kill(program, SIGKILL);
    assert_int_equal(waitpid(program, NULL, 0), program);
    int left = 1;
    for (int i = 0; i < 2000 && left; i++) {
        left = 0;
        for (int j = 0; j < 3; j++) {
            char path[64], name[32] = "";
            snprintf(path, sizeof path, "/proc/%d/comm", (int)pids[j]);
            FILE *f = fopen(path, "r");
            if (f && fgets(name, sizeof name, f) && !strncmp(name, "loader-", 7))
                left += kill(pids[j], 0) == 0;
            if (f)
                fclose(f);
        }
        usleep(5000);
    }
    assert_int_equal(left, 0);
}

/* ---- delays, pinning ------------------------------------------------------------------------------------------------------- */

static double cpu(const struct rusage *r)
{
    return (double)(r->ru_utime.tv_sec + r->ru_stime.tv_sec) +
           1e-6 * (double)(r->ru_utime.tv_usec + r->ru_stime.tv_usec);
}

/* A delay sleeps, each batch, in line; ending the loader does not wait for it. */
static void delays(void **state)
{
    (void)state;
    open_text(5000, 16);
    for (int i = 0; i < 5; i++) {
        struct lt_loader_options o = {.workers = i / 2 * 2,
                                      .prefetch = 2,
                                      .kind = (enum lt_worker_kind)(i > 2),
                                      .pin = i % 2};
        struct lt_loader_config k = {.options = o, .b = 2};
        struct rusage before, after;
        k.options.slow[LT_STAGE_READ] = k.options.slow[LT_STAGE_COLLATE] = 0.02;
        getrusage(RUSAGE_SELF, &before);
        double start = now();
        struct lt_loader *l = make(&k, NULL);
        for (int j = 0; j < 5; j++)
            next(l);
        double took = now() - start;
        assert_true(took > (o.workers ? (5 + o.workers - 1) / o.workers : 5) * 0.04 - 1e-6);
        getrusage(RUSAGE_SELF, &after);
        assert_true(cpu(&after) - cpu(&before) < 0.5 * took); /* it does not burn a core */
        lt_loader_destroy(l);
        k.options.slow[LT_STAGE_DECODE] = 3600;
        k.options.workers = 1 + i;
        l = make(&k, NULL);
        usleep(1000);
        start = now();
        lt_loader_destroy(l);
        assert_true(now() - start < 60);
    }
}

/* Without the right to lock memory the batches are the same, and there are words. */
static void memory_that_cannot_be_locked(void **state)
{
    (void)state;
    open_text(5000, 16);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit none = {0, 0};
        struct lt_loader_config k = {.options = {.workers = 1, .prefetch = 2, .pin = 1}, .b = 2};
        struct lt_part whole = lt_source_whole(source);
        struct lt_loader *l = NULL;
        struct lt_batch x;
        if (setrlimit(RLIMIT_MEMLOCK, &none) || (geteuid() == 0 && setuid(65534)))
            _exit(2);
        if (lt_loader_create(&l, &whole, &k, NULL, NULL) || lt_loader_next(l, &x, NULL))
            _exit(3);
        const char *words = lt_loader_warning(l);
        _exit(words && strstr(words, "cannot be locked") && strstr(words, "ulimit -l") ? 0 : 4);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* The book of memory and the closed form agree, but for heads of rings. */
static void memory(void **state)
{
    (void)state;
    open_text(50000, 64);
    for (int i = 0; i < 12; i++) {
        struct lt_loader_config k = {.options = {.workers = i / 4,
                                                 .prefetch = 5,
                                                 .kind = (enum lt_worker_kind)(i % 2),
                                                 .pin = i / 2 % 2},
                                     .b = 32};
        struct lt_part whole = lt_source_whole(source);
        struct lt_memory before, during, after;
        lt_memory_read(&before);
        struct lt_loader *l = make(&k, NULL);
        lt_memory_read(&during);
        lt_loader_destroy(l);
        lt_memory_read(&after);
        int64_t held = during.tag[LT_MEMORY_LOADER] - before.tag[LT_MEMORY_LOADER];
        int64_t formula = (int64_t)lt_loader_memory(&whole, &k);
        assert_in_range(held - formula, 0, 20000);
        assert_true(formula > 32 * 64 * 8);
        assert_int_equal(after.tag[LT_MEMORY_LOADER], before.tag[LT_MEMORY_LOADER]);
    }
}

/* How often the timers' file has a range of that name, and on how many threads called `thread`. */
static int count_ranges(const char *timers, const char *thread, const char *range)
{
    char line[4096], words[64], name[16] = "";
    int sum = 0, count;
    FILE *f = fopen(timers, "r");
    assert_non_null(f);
    snprintf(words, sizeof words, "\"name\":\"%s\",\"count\":", range);
    while (fgets(line, sizeof line, f)) {
        const char *at = strstr(line, words);
        if (strstr(line, "\"tid\""))
            assert_int_equal(sscanf(strstr(line, "\"name\""), "\"name\":\"%15[^\"]", name), 1);
        if (at && !strncmp(name, thread, strlen(thread)) &&
            sscanf(at + strlen(words), "%d", &count) == 1)
            sum += count;
    }
    fclose(f);
    return sum;
}

/* The ranges a run reports: each batch is read, decoded and collated once, on the worker's thread
 * or process. */
static void ranges(void **state)
{
    (void)state;
    static const char *const no_ops[] = {"none"};
    for (int i = 0; i < 4; i++) {
        struct lt_trace *trace = NULL;
        struct tacho_error err = {0};
        char timers[320];
        open_text(5000, 16);
        assert_int_equal(lt_trace_create(&trace, no_ops, 1, 1), 0);
        struct lt_loader_config k = {.options = {.workers = 2,
                                                 .prefetch = 2,
                                                 .kind = (enum lt_worker_kind)(i / 2),
                                                 .pin = i % 2},
                                     .b = 2};
        struct lt_loader *l = make(&k, trace);
        for (int j = 0; j < 20; j++)
            next(l);
        lt_loader_destroy(l);
        snprintf(timers, sizeof timers, "%s/timers", folder);
        assert_int_equal(lt_trace_write(trace, timers, &err), 0);
        lt_trace_destroy(trace);
        assert_int_equal(count_ranges(timers, "main", "input_wait"), 20);
        assert_in_range(count_ranges(timers, "loader-", "read"), 20, 27);
        assert_in_range(count_ranges(timers, "loader-", "collate"), 20, 27);
        assert_int_equal(count_ranges(timers, "main", "read"), 0);
        if (k.options.pin)
            assert_in_range(count_ranges(timers, "pin-0", "pin"), 20, 22);
        else
            assert_int_equal(count_ranges(timers, "", "pin"), 0);
        unlink(timers);
        lt_source_close(source);
        source = NULL;
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(in_file_order),
        TEST(shuffled),
        TEST(same_batches_whoever_makes_them),
        TEST(ranks_share_the_samples),
        TEST(small_texts),
        TEST(bad_paths),
        TEST(folders),
        TEST(stops_early),
        TEST(a_text_that_shrinks),
        TEST(a_worker_that_is_killed),
        TEST(a_program_that_is_killed),
        TEST(delays),
        TEST(memory_that_cannot_be_locked),
        TEST(memory),
        TEST(ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
