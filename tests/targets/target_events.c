/* SPDX-License-Identifier: Apache-2.0
 *
 * A target that speaks every dialect of NVTX and keeps its own books. With --log it appends one
 * line a thread and process:
 *
 *     pid tid thread ranges range_ns marks startends startend_ns counters steps
 *
 * range_ns is the sum over ranges of the time from before the push to after the pop by the
 * program's own clock, so a recorder's sum is a little smaller. With --journal it keeps, in a
 * shared file that survives any death, for each thread of the first process: u64 count, then count
 * times u64 CLOCK_MONOTONIC ns taken after the pop of each range (JOURNAL_CAP + 1 words a thread).
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tacho_nvtx.h"

#define JOURNAL_CAP (1u << 20)
#define NAMES       8

static struct options {
    long threads, events, seed, forks, deep, unique, rate, steps, values, spawn, spin;
    long uid;
    int exec, osexit, signals, long_names, forever, hold, close_fds, marks;
    const char *crash, *log, *journal;
} opt = {.threads = 1, .events = 1000, .seed = 1};

struct books {
    uint64_t ranges, range_ns, marks, startends, startend_ns, counters, steps;
};

struct worker {
    pthread_t thread;
    long index;
    long events;
    uint64_t random;
    uint64_t started; /* for --rate */
    struct books books;
    _Atomic uint64_t *journal;
};

static struct tacho_nvtx nvtx;
static nvtxDomainHandle_t plain_domain;
static nvtxStringHandle_t names[NAMES], step_name;
static uint64_t counter_id;
static _Atomic int stop;
static int books_begun; /* nothing is closed any more; under `closing` */
static pthread_mutex_t closing = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t handler_ranges, handler_marks;

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t draw(struct worker *w, uint64_t below)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (w->random >> 11) % below;
}

static void pace(struct worker *w, uint64_t done)
{
    if (!opt.rate)
        return;
    uint64_t due = w->started + done * 1000000000u / (uint64_t)opt.rate, now = now_ns();
    if (due > now + 50000) {
        struct timespec ts = {.tv_sec = (time_t)((due - now) / 1000000000u),
                              .tv_nsec = (long)((due - now) % 1000000000u)};
        nanosleep(&ts, NULL);
    }
}

static void spin(void)
{
    if (opt.spin)
        for (uint64_t until = now_ns() + (uint64_t)opt.spin; now_ns() < until;)
            ;
}

static void range_done(struct worker *w, uint64_t from)
{
    uint64_t now = now_ns();
    w->books.ranges++;
    w->books.range_ns += now - from;
    if (w->journal) {
        uint64_t n = atomic_load_explicit(w->journal, memory_order_relaxed);
        if (n < JOURNAL_CAP) {
            atomic_store_explicit(w->journal + 1 + n, now, memory_order_relaxed);
            atomic_store_explicit(w->journal, n + 1, memory_order_release);
        }
    }
}

static void push_unregistered(struct worker *w)
{
    char text[2048];
    if (opt.long_names && draw(w, 4) == 0) {
        memset(text, 'x', 1500);
        snprintf(text + 1500, 16, "%llu", (unsigned long long)draw(w, 3));
    } else if (opt.unique) {
        snprintf(text, sizeof text, "unique %llu",
                 (unsigned long long)draw(w, (uint64_t)opt.unique));
    } else {
        snprintf(text, sizeof text, "plain %llu", (unsigned long long)draw(w, 5));
    }
    nvtxRangePushA(text);
}

/* One range, with up to `left` events in all inside it. Returns how many events it made. */
static long range(struct worker *w, long left, int depth)
{
    uint64_t from = now_ns(), kind = draw(w, 4);
    long made = 1;
    struct tacho_work work = {
        .flops = (uint64_t)w->index, .bytes_read = w->books.ranges, .dtype = TACHO_DTYPE_FP32};
    struct tacho_range role = {.bytes = w->books.ranges, .kind = TACHO_RANGE_HOST};
    if (kind == 0)
        tacho_nvtx_push_work(&nvtx, names[draw(w, NAMES)], &work);
    else if (kind == 1)
        tacho_nvtx_push_range(&nvtx, names[draw(w, NAMES)], &role);
    else if (kind == 2)
        push_unregistered(w);
    else
        nvtxDomainRangePushEx(plain_domain,
                              &(nvtxEventAttributes_t){.version = NVTX_VERSION,
                                                       .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                                       .category = 7,
                                                       .payloadType = NVTX_PAYLOAD_TYPE_INT64,
                                                       .payload.llValue = -5,
                                                       .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                                       .message.ascii = "scalar payload"});
    while (made < left && depth < 12 && draw(w, 3) == 0)
        made += range(w, left - made, depth + 1);
    spin();
    if (kind < 2)
        tacho_nvtx_pop(&nvtx);
    else if (kind == 2)
        nvtxRangePop();
    else
        nvtxDomainRangePop(plain_domain);
    range_done(w, from);
    return made;
}

static long deep(struct worker *w)
{
    uint64_t from = now_ns();
    for (long i = 0; i < opt.deep; i++)
        nvtxRangePushA("deep");
    for (long i = 0; i < opt.deep; i++) {
        nvtxRangePop();
        range_done(w, from);
    }
    return opt.deep;
}

static long one(struct worker *w, long left)
{
    switch (opt.marks ? 0 : draw(w, 8)) {
    case 0:
        nvtxMarkA("mark");
        w->books.marks++;
        return 1;
    case 1: {
        uint64_t from = now_ns();
        nvtxRangeId_t id = nvtxRangeStartA("start end");
        nvtxRangeEnd(id);
        w->books.startends++;
        w->books.startend_ns += now_ns() - from;
        return 1;
    }
    case 2:
        tacho_nvtx_sample(&nvtx, counter_id, (double)w->books.counters);
        w->books.counters++;
        return 1;
    default:
        return opt.deep && draw(w, 50) == 0 ? deep(w) : range(w, left, 0);
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;
    w->started = now_ns();
    for (long n = 0;
         (opt.forever || n < w->events) && !atomic_load_explicit(&stop, memory_order_relaxed);) {
        n += one(w, w->events - n);
        pace(w, (uint64_t)n);
    }
    return NULL;
}

/* Steps on the calling thread: each is a tacho.step with a few ops inside. */
static void steps(struct worker *w)
{
    for (long i = 0; i < opt.steps && !stop; i++) {
        struct tacho_step step = {.index = (uint64_t)i, .tokens = 64, .samples = 4};
        uint64_t from = now_ns();
        tacho_nvtx_push_step(&nvtx, step_name, &step);
        for (long n = 0; n < w->events / (opt.steps ? opt.steps : 1);)
            n += range(w, 8, 0);
        for (long n = 0; n < opt.values; n++)
            tacho_nvtx_sample(&nvtx, counter_id, (double)w->books.counters++);
        tacho_nvtx_pop(&nvtx);
        range_done(w, from);
        w->books.steps++;
    }
}

static void write_books(const struct worker *w, pid_t tid)
{
    char line[256];
    const struct books *b = &w->books;
    if (!opt.log)
        return;
    pthread_mutex_lock(&closing); /* after the round that is closing files now */
    books_begun = 1;
    pthread_mutex_unlock(&closing);
    int n = snprintf(line, sizeof line, "%d\t%d\t%ld\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\n",
                     (int)getpid(), (int)tid, w->index, (unsigned long long)b->ranges,
                     (unsigned long long)b->range_ns, (unsigned long long)b->marks,
                     (unsigned long long)b->startends, (unsigned long long)b->startend_ns,
                     (unsigned long long)b->counters, (unsigned long long)b->steps);
    int fd = open(opt.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        fprintf(stderr, "target_events: %s: %s\n", opt.log, strerror(errno));
    if (fd >= 0)
        close(fd);
}

static void *thread_main(void *arg)
{
    struct worker *w = arg;
    work(w);
    write_books(w, (pid_t)syscall(SYS_gettid));
    return NULL;
}

static void on_alarm(int sig)
{
    (void)sig;
    int saved = errno;
    nvtxDomainRangePushEx(plain_domain,
                          &(nvtxEventAttributes_t){.version = NVTX_VERSION,
                                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                                   .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
                                                   .message.registered = names[0]});
    nvtxDomainMarkEx(plain_domain,
                     &(nvtxEventAttributes_t){.version = NVTX_VERSION,
                                              .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                              .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
                                              .message.registered = names[1]});
    nvtxDomainRangePop(plain_domain);
    atomic_fetch_add(&handler_ranges, 1);
    atomic_fetch_add(&handler_marks, 1);
    errno = saved;
}

static void on_term(int sig)
{
    (void)sig;
    stop = 1;
}

static void open_nvtx(void)
{
    static const char *const text[NAMES] = {
        "matmul.forward", "matmul.backward", "layernorm", "attention",
        "softmax",        "embedding",       "adamw",     "loss"};
    tacho_nvtx_open(&nvtx, "libtrain");
    plain_domain = nvtxDomainCreateA("plain");
    nvtxDomainNameCategoryA(plain_domain, 7, "seven");
    for (int i = 0; i < NAMES; i++)
        names[i] = tacho_nvtx_name(&nvtx, text[i]);
    step_name = tacho_nvtx_name(&nvtx, "step");
    counter_id = tacho_nvtx_counter(&nvtx, "count");
}

static void run_threads(long count, long events, long first, _Atomic uint64_t *journal)
{
    struct worker *w = calloc((size_t)count, sizeof *w);
    if (!w)
        abort();
    for (long i = 0; i < count; i++) {
        w[i].index = first + i;
        w[i].events = events;
        w[i].random = (uint64_t)(opt.seed * 1000003 + first + i + 1) * 0x9e3779b97f4a7c15u;
        w[i].journal = journal ? journal + (uint64_t)i * (JOURNAL_CAP + 1) : NULL;
        if (pthread_create(&w[i].thread, NULL, thread_main, &w[i])) {
            perror("pthread_create");
            exit(1);
        }
    }
    for (long i = 0; i < count; i++)
        pthread_join(w[i].thread, NULL);
    free(w);
}

static void *close_all(void *arg)
{
    for (int done = 0; !done; usleep(500)) {
        pthread_mutex_lock(&closing);
        done = books_begun;
        for (int fd = 3; !done && fd < 64; fd++)
            close(fd);
        pthread_mutex_unlock(&closing);
    }
    return arg;
}

static void leave(void)
{
    if (opt.osexit)
        _exit(0);
    exit(0);
}

static void child(long index)
{
    struct worker w = {.index = 1000 + index,
                       .events = opt.events,
                       .random = (uint64_t)(opt.seed + index + 1) * 0x9e3779b97f4a7c15u};
    opt.forever = 0;
    work(&w);
    write_books(&w, (pid_t)syscall(SYS_gettid));
    leave();
}

static _Atomic uint64_t *open_journal(void)
{
    size_t bytes = (size_t)opt.threads * (JOURNAL_CAP + 1) * sizeof(uint64_t);
    int fd = open(opt.journal, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes)) {
        perror(opt.journal);
        exit(1);
    }
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

static void finish(char **argv)
{
    if (opt.exec) {
        for (char **a = argv; *a; a++)
            if (!strcmp(*a, "--exec"))
                *a = (char *)"--executed";
        execv("/proc/self/exe", argv);
        perror("execv");
    }
    if (opt.crash && !strcmp(opt.crash, "kill"))
        raise(SIGKILL);
    if (opt.crash && !strcmp(opt.crash, "abort"))
        abort();
    if (opt.crash)
        raise(SIGSEGV);
    leave();
}

static const struct option long_options[] = {{"threads", 1, 0, 't'},
                                             {"events", 1, 0, 'e'},
                                             {"seed", 1, 0, 's'},
                                             {"fork", 1, 0, 'f'},
                                             {"deep", 1, 0, 'd'},
                                             {"marks", 0, 0, 'm'},
                                             {"unique-names", 1, 0, 'u'},
                                             {"rate", 1, 0, 'r'},
                                             {"steps", 1, 0, 'S'},
                                             {"spawn", 1, 0, 'p'},
                                             {"spin", 1, 0, 'w'},
                                             {"exec", 0, 0, 'x'},
                                             {"executed", 0, 0, 'X'},
                                             {"osexit", 0, 0, 'o'},
                                             {"signal-handler", 0, 0, 'i'},
                                             {"long-names", 0, 0, 'l'},
                                             {"forever", 0, 0, 'F'},
                                             {"uid", 1, 0, 'U'},
                                             {"close-fds", 0, 0, 'C'},
                                             {"crash", 1, 0, 'c'},
                                             {"log", 1, 0, 'L'},
                                             {"journal", 1, 0, 'J'},
                                             {"values", 1, 0, 'V'},
                                             {"help", 0, 0, 'h'},
                                             {0, 0, 0, 0}};

static const char usage[] =
    "target_events [OPTIONS]: records NVTX events of all kinds and keeps its own books\n"
    "  --threads N        threads (1)\n"
    "  --events N         events a thread: ranges, marks, start/end ranges and counter samples "
    "(1000)\n"
    "  --seed N           of the random nesting (1)\n"
    "  --steps N          first N tacho.step ranges on the main thread, --events ranges spread "
    "over them\n"
    "  --values N         counter samples in each step\n"
    "  --fork N           then N children, each recording --events with the parent's handles\n"
    "  --spawn N          then N threads one after another, 4 at a time, 3 events each\n"
    "  --exec             then run itself again in the same process\n"
    "  --osexit           leave by _exit, without exit handlers\n"
    "  --crash KIND       die at the end: segv, abort, kill\n"
    "  --signal-handler   record from a SIGALRM handler too, 5000 a second\n"
    "  --deep N           now and then nest N ranges\n"
    "  --long-names       some names of 1500 bytes\n"
    "  --marks            marks only: each event is one record\n"
    "  --unique-names N   unregistered names out of N different ones\n"
    "  --spin NS          time spent inside each range\n"
    "  --rate N           events a second and thread\n"
    "  --close-fds        meanwhile close all file descriptors from 3 on, again and again\n"
    "  --uid N            become user N (needs root) once half of the events are recorded, before "
    "--spawn and --fork\n"
    "  --forever          until SIGTERM or SIGINT\n"
    "  --log FILE         append the books, a line a thread: pid tid thread ranges range_ns marks "
    "startends\n"
    "                     startend_ns counters steps (thread -1: the signal handler)\n"
    "  --journal FILE     shared file of the time after each range of each thread, see the "
    "source\n";

static void parse(int argc, char **argv)
{
    for (int c; (c = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        long n = optarg ? atol(optarg) : 0;
        switch (c) {
        case 't':
            opt.threads = n;
            break;
        case 'e':
            opt.events = n;
            break;
        case 's':
            opt.seed = n;
            break;
        case 'f':
            opt.forks = n;
            break;
        case 'd':
            opt.deep = n;
            break;
        case 'm':
            opt.marks = 1;
            break;
        case 'u':
            opt.unique = n;
            break;
        case 'r':
            opt.rate = n;
            break;
        case 'S':
            opt.steps = n;
            break;
        case 'V':
            opt.values = n;
            break;
        case 'p':
            opt.spawn = n;
            break;
        case 'w':
            opt.spin = n;
            break;
        case 'x':
            opt.exec = 1;
            break;
        case 'X':
            opt.exec = 0;
            break;
        case 'o':
            opt.osexit = 1;
            break;
        case 'i':
            opt.signals = 1;
            break;
        case 'l':
            opt.long_names = 1;
            break;
        case 'F':
            opt.forever = 1;
            break;
        case 'U':
            opt.uid = n;
            break;
        case 'C':
            opt.close_fds = 1;
            break;
        case 'c':
            opt.crash = optarg;
            break;
        case 'L':
            opt.log = optarg;
            break;
        case 'J':
            opt.journal = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            fputs(usage, stderr);
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    struct worker main_worker = {
        .index = 0, .events = opt.events, .random = (uint64_t)opt.seed * 0x9e3779b97f4a7c15u};
    signal(SIGTERM, on_term);
    signal(SIGINT, on_term);
    open_nvtx();
    if (opt.signals) {
        struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
        sigaction(SIGALRM, &sa, NULL);
        setitimer(ITIMER_REAL, &(struct itimerval){{0, 200}, {0, 200}}, NULL);
    }
    if (opt.steps) {
        steps(&main_worker);
        write_books(&main_worker, getpid());
    }
    pthread_t closer;
    if (opt.close_fds && pthread_create(&closer, NULL, close_all, NULL)) {
        perror("pthread_create");
        return 1;
    }
    if (opt.uid) {
        run_threads(opt.threads, opt.events, 5000, NULL);
        if (setgroups(0, NULL) || setgid((gid_t)opt.uid) || setuid((uid_t)opt.uid)) {
            perror("setuid");
            return 1;
        }
    }
    run_threads(opt.threads, opt.events, 1, opt.journal ? open_journal() : NULL);
    for (long i = 0; i < opt.spawn; i += 4)
        run_threads(opt.spawn - i < 4 ? opt.spawn - i : 4, 3, 10000 + i, NULL);
    for (long i = 0; i < opt.forks; i++)
        if (fork() == 0)
            child(i);
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    if (opt.signals) {
        setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
        struct worker handler = {.index = -1,
                                 .books = {.ranges = handler_ranges, .marks = handler_marks}};
        write_books(&handler, getpid());
    }
    finish(argv);
    return 0;
}
