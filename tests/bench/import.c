/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the benchmark of imports; import.sh puts them together.
 *
 * import make TRACE OUT MEGABYTES EVENTS [keep]: OUT is the events of TRACE (Kineto JSON, .gz or
 * not) again and again until there are so many megabytes and events, each time later: times,
 * correlations, ids and step numbers go on, everything else repeats; with "keep" sequence numbers,
 * too.
 *
 * import parse FILE: windows and events of FILE without making rows: seconds.
 *
 * import insert RUN: the slices of RUN into a new file, in one transaction: seconds.
 *
 * import time COMMAND...: runs it; seconds, peak RSS in MB.
 *
 * import salvage FILE SEED COUNT: FILE cut off at COUNT random places, each imported without
 * writing rows: a row cut, bytes kept, events read, 1 when it was seen that it is cut off, result.
 *
 * Rows on stdout: what, value, separated by tabs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "store/import/import.h"
#include "store/import/input/input.h"
#include "store/import/kineto/kineto_frame.h"
#include "store/import/kineto/kineto_text.h"
#include "store/store.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
    fprintf(stderr, "import: %s\n", what);
    exit(1);
}

static void need(int rc, const struct tacho_error *err)
{
    if (rc)
        die(err->what[0] ? err->what : tacho_error_text(rc));
}

/* ---- make ---------------------------------------------------------------------------------------------------------------- */

/* Text of all events, cut where a number has to go on: literal, number, literal, number ... */
struct piece {
    size_t at, bytes; /* the literal, in `text` */
    int64_t number;
    int add; /* which of the steps is added in each copy; ADD_NONE: the literal is the last one of
                its event */
};
enum { ADD_NONE, ADD_TIME, ADD_ID, ADD_STEP, ADDS };

struct maker {
    struct kineto_text text, meta;
    struct piece *piece;
    size_t pieces, cap;
    int64_t first, last, id_max, step_first, step_last, events;
    bool keep; /* sequence numbers repeat */
};

static void piece_add(struct maker *m, const char *p, size_t n, int64_t number, int add)
{
    if (m->pieces == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 1 << 16;
        m->piece = realloc(m->piece, m->cap * sizeof *m->piece);
        if (!m->piece)
            die("out of memory");
    }
    m->piece[m->pieces++] = (struct piece){m->text.bytes, n, number, add};
    kineto_text_put(&m->text, p, n);
}

/* Keys whose numbers go on, and how; the first one not where it is kept. */
static int add_of(const char *p, size_t left, bool keep, size_t *skip)
{
    static const struct {
        const char *key;
        int add;
    } keys[] = {{"\"Sequence number\":", ADD_ID}, {"\"ts\":", ADD_TIME},
                {"\"correlation\":", ADD_ID},     {"\"External id\":", ADD_ID},
                {"\"external id\":", ADD_ID},     {"\"id\":", ADD_ID},
                {"\"Ev Idx\":", ADD_ID},          {"\"name\": \"ProfilerStep#", ADD_STEP}};
    for (size_t i = keep; i < sizeof keys / sizeof *keys; i++) {
        size_t n = strlen(keys[i].key);
        if (left > n && !memcmp(p, keys[i].key, n)) {
            *skip = n;
            while (*skip < left && p[*skip] == ' ')
                ++*skip;
            return p[*skip] >= '0' && p[*skip] <= '9' ? keys[i].add : ADD_NONE;
        }
    }
    return ADD_NONE;
}

static int make_event(void *ctx, struct kj_span s)
{
    struct maker *m = ctx;
    size_t from = 0;
    for (size_t i = 0; i < s.bytes; i++) {
        size_t skip = 0;
        int add = s.text[i] == '"' ? add_of(s.text + i, s.bytes - i, m->keep, &skip) : ADD_NONE;
        if (add == ADD_NONE)
            continue;
        char *end;
        size_t at = i + skip;
        int64_t number = strtoll(s.text + at, &end, 10);
        piece_add(m, s.text + from, at - from, number, add);
        from = (size_t)(end - s.text);
        i = from - 1;
        if (add == ADD_TIME) {
            m->first = number < m->first ? number : m->first;
            m->last = number > m->last ? number : m->last;
        } else if (add == ADD_ID) {
            m->id_max = number > m->id_max ? number : m->id_max;
        } else {
            m->step_first = number < m->step_first ? number : m->step_first;
            m->step_last = number > m->step_last ? number : m->step_last;
        }
    }
    piece_add(m, s.text + from, s.bytes - from, 0, ADD_NONE);
    m->events++;
    return 0;
}

static int make_window(void *ctx, const char *text, size_t n)
{
    return kineto_frame_split(text, n, make_event, ctx);
}

static int make_meta(void *ctx, struct kj_span key, struct kj_span value)
{
    struct maker *m = ctx;
    kineto_text_puts(&m->meta, m->meta.bytes ? ",\n\"" : "\"");
    kineto_text_put(&m->meta, key.text, key.bytes);
    kineto_text_puts(&m->meta, "\":");
    kineto_text_put(&m->meta, value.text, value.bytes);
    return 0;
}

static void read_frame(const char *path, const struct kineto_frame_sink *sink)
{
    struct tacho_error err = {0};
    struct imp_input *in;
    struct kineto_frame_result r;
    need(imp_input_open(path, &in, &err), &err);
    need(kineto_frame_read(in, sink, &r, &err), &err);
    imp_input_close(in);
}

static int make(const char *trace, const char *out, int64_t megabytes, int64_t events, bool keep)
{
    struct maker m = {.keep = keep,
                      .first = INT64_MAX,
                      .step_first = INT64_MAX,
                      .last = INT64_MIN,
                      .step_last = INT64_MIN};
    const struct kineto_frame_sink sink = {.events = make_window, .meta = make_meta, .ctx = &m};
    read_frame(trace, &sink);
    FILE *f = fopen(out, "w");
    if (!f || !m.events)
        die("cannot make the trace");
    int64_t step[ADDS] = {0, m.last - m.first + 1000000, m.id_max + 1,
                          m.step_last - m.step_first + 1},
            copies = 0;
    fprintf(f, "{%.*s,\n\"traceEvents\":[\n", (int)m.meta.bytes, m.meta.data);
    for (bool more = true; more; fputs(more ? ",\n" : "\n]}\n", f)) {
        for (size_t i = 0; i < m.pieces; i++) {
            const struct piece *p = &m.piece[i];
            fwrite(m.text.data + p->at, 1, p->bytes, f);
            if (p->add != ADD_NONE)
                fprintf(f, "%" PRId64, p->number + copies * step[p->add]);
            else
                fputs(i + 1 < m.pieces ? ",\n" : "", f);
        }
        copies++;
        more = ftell(f) < megabytes * 1000000 || copies * m.events < events;
    }
    printf("events\t%" PRId64 "\nbytes\t%ld\n", copies * m.events, ftell(f));
    if (fclose(f))
        die("cannot write the trace");
    return 0;
}

/* ---- parse --------------------------------------------------------------------------------------------------------------- */

struct parse {
    kj_parser *json;
    int64_t events, windows;
};

static int parse_event(void *ctx, const struct kj_event *e)
{
    (void)e;
    ((struct parse *)ctx)->events++;
    return 0;
}

static int parse_window(void *ctx, const char *text, size_t n)
{
    struct parse *p = ctx;
    size_t count;
    p->windows++;
    return p->json ? kj_events(p->json, text, n, parse_event, p, &count) != KJ_OK : 0;
}

static int parse_meta(void *ctx, struct kj_span key, struct kj_span value)
{
    (void)ctx, (void)key, (void)value;
    return 0;
}

static int parse(const char *path)
{
    struct parse p = {.json = NULL};
    const struct kineto_frame_sink sink = {.events = parse_window, .meta = parse_meta, .ctx = &p};
    double t = now();
    read_frame(path, &sink);
    printf("frame_s\t%.3f\n", now() - t);
    p.json = kj_new();
    t = now();
    read_frame(path, &sink);
    printf("parse_s\t%.3f\nevents\t%" PRId64 "\nwindows\t%" PRId64 "\n", now() - t, p.events,
           p.windows / 2);
    kj_free(p.json);
    return 0;
}

/* ---- insert -------------------------------------------------------------------------------------------------------------- */

struct rows {
    struct store_slice *slice;
    size_t count, cap;
};

static int keep_slice(void *ctx, const struct store_slice *x)
{
    struct rows *r = ctx;
    if (r->count == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 1 << 16;
        r->slice = realloc(r->slice, r->cap * sizeof *r->slice);
        if (!r->slice)
            die("out of memory");
    }
    r->slice[r->count++] = *x;
    return 0;
}

static int insert(const char *run)
{
    struct tacho_error err = {0};
    struct rows r = {0};
    store_reader *reader;
    store *s;
    char out[4200];
    need(store_open(run, &reader, &err), &err);
    need(store_slice_each(reader, 1, keep_slice, &r), &err);
    store_reader_close(reader);
    snprintf(out, sizeof out, "%s.insert", run);
    unlink(out);
    double t = now();
    need(store_create_private(out, &s, &err), &err);
    need(store_begin(s), store_error(s));
    for (size_t i = 0; i < r.count; i++)
        need(store_slice_add(s, &r.slice[i]), store_error(s));
    need(store_commit(s), store_error(s));
    double inserted = now() - t;
    need(store_finish(s, &err), &err);
    printf("insert_s\t%.3f\nfinish_s\t%.3f\nslices\t%zu\n", inserted, now() - t - inserted,
           r.count);
    unlink(out);
    free(r.slice);
    return 0;
}

/* ---- time ---------------------------------------------------------------------------------------------------------------- */

static int time_command(char **argv)
{
    struct rusage use;
    int status;
    double t = now();
    pid_t pid = fork();
    if (!pid) {
        if (!freopen("/dev/null", "w", stdout))
            _exit(126);
        execvp(argv[0], argv);
        _exit(127);
    }
    if (pid < 0 || wait4(pid, &status, 0, &use) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
        die("the command failed");
    printf("wall_s\t%.3f\nrss_mb\t%.1f\ncpu_s\t%.3f\n", now() - t, (double)use.ru_maxrss / 1e3,
           (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
               (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6);
    return 0;
}

/* ---- salvage --------------------------------------------------------------------------------------------------------------- */

static void salvage_one(const char *data, size_t bytes, const char *out)
{
    char path[64];
    int fd = memfd_create("cut", MFD_CLOEXEC);
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(fd, data + done, bytes - done);
        if (n <= 0)
            die("memfd: cannot write");
        done += (size_t)n;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const char *in[] = {path};
    struct store_import_options o = {.in = in, .in_count = 1, .out = out, .salvage_only = true};
    struct store_import_result r;
    struct tacho_error err = {0};
    int rc = store_import(&o, &r, &err);
    printf("cut\t%zu\t%" PRId64 "\t%d\t%d\n", bytes, r.events, r.truncated, rc);
    close(fd);
}

static int salvage(const char *path, uint64_t seed, int64_t count)
{
    char out[4200];
    struct kineto_text all = {0};
    FILE *f = fopen(path, "r");
    if (!f)
        die("cannot open the file");
    char block[1 << 16];
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
        kineto_text_put(&all, block, n);
    fclose(f);
    snprintf(out, sizeof out, "%s/salvage.tacho", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    for (int64_t i = 0; i < count; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        salvage_one(all.data, (size_t)(seed % all.bytes), out);
    }
    kineto_text_clear(&all);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[1], "salvage"))
        return salvage(argv[2], (uint64_t)atoll(argv[3]) * 0x9e3779b97f4a7c15u | 1, atoll(argv[4]));
    if ((argc == 6 || (argc == 7 && !strcmp(argv[6], "keep"))) && !strcmp(argv[1], "make"))
        return make(argv[2], argv[3], atoll(argv[4]), atoll(argv[5]), argc == 7);
    if (argc == 3 && !strcmp(argv[1], "parse"))
        return parse(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "insert"))
        return insert(argv[2]);
    if (argc >= 3 && !strcmp(argv[1], "time"))
        return time_command(argv + 2);
    fprintf(stderr,
            "usage: import make TRACE OUT MEGABYTES EVENTS [keep] | parse FILE | insert RUN | "
            "time COMMAND... | salvage FILE "
            "SEED COUNT\n");
    return 2;
}
