/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU time in functions with known shares, for sampled call stacks:
 *     target_stacks CPU_MS [deep]
 * The main thread spends CPU_MS of CPU time in outer -> stacks_three (3 parts) and outer ->
 * stacks_one (1 part), then a thread CPU_MS/2 in stacks_thread and a forked child CPU_MS/2 in
 * stacks_child. Compiled without frame pointers. deep: only CPU_MS below 200 frames of 256 bytes
 * and more.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __clang__ /* makes no copies of a function for some of its callers */
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noinline, noclone))
#endif

static volatile double sink = 1;

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static inline __attribute__((always_inline)) void spin(double ms)
{
    double until = cpu_ms() + ms;
    while (cpu_ms() < until)
        for (int i = 0; i < 20000; i++)
            sink = sink * 1.0000001;
}

APART static void stacks_three(double ms)
{
    spin(ms);
    sink += 1;
}

APART static void stacks_one(double ms)
{
    spin(ms);
    sink += 2;
}

APART static void stacks_outer(double ms)
{
    for (int i = 0; i < 20; i++) {
        stacks_three(ms * 0.75 / 20);
        stacks_one(ms * 0.25 / 20);
    }
    sink += 3;
}

APART static void *stacks_thread(void *ms)
{
    spin(*(double *)ms / 2);
    sink += 4;
    return NULL;
}

APART static void stacks_child(double ms)
{
    spin(ms / 2);
    sink += 5;
}

APART static void stacks_deep(int more, double ms)
{
    volatile char room[256];
    room[more] = (char)more;
    if (more)
        stacks_deep(more - 1, ms);
    else
        spin(ms);
    sink += room[more];
}

int main(int argc, char **argv)
{
    double ms = argc > 1 ? atof(argv[1]) : 1000;
    pthread_t thread;
    if (argc > 2) {
        stacks_deep(200, ms);
        return 0;
    }
    stacks_outer(ms);
    if (pthread_create(&thread, NULL, stacks_thread, &ms))
        return 1;
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (!child) {
        stacks_child(ms);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return 0;
}
