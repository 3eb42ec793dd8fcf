/* SPDX-License-Identifier: Apache-2.0
 *
 * A target whose steps hold memory in one of several ways; its own sum of bytes is printed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tacho_nvtx.h"

static const char usage[] =
    "target_memory KIND STEPS MS BYTES [FILE]: STEPS steps of MS milliseconds each\n"
    "  leak    each step keeps BYTES more\n"
    "  same    each step frees what it allocates\n"
    "  varies  a buffer fits the longest batch so far, of at most BYTES\n"
    "  cache   the first half of the steps keeps BYTES each\n"
    "  map     each step reads BYTES more of the mapped FILE\n";

static char *allocate(size_t bytes)
{
    char *memory = malloc(bytes);
    if (!memory)
        exit(2);
    memset(memory, 1, bytes);
    return memory;
}

/* Work of step `index`; returns bytes that it keeps. */
static size_t work(const char *kind, long index, long steps, size_t bytes, const char *file)
{
    static char *buffer;
    static unsigned seed = 1;
    if (!strcmp(kind, "leak") || (!strcmp(kind, "cache") && index < steps / 2))
        return allocate(bytes) ? bytes : 0;
    if (!strcmp(kind, "varies")) {
        free(buffer);
        seed = seed * 1103515245 + 12345;
        buffer = allocate(1 + (size_t)((double)(seed >> 16 & 32767) / 32768 * (double)bytes));
    } else if (!strcmp(kind, "map")) {
        for (size_t i = 0; i < bytes; i += 4096)
            (void)*(const volatile char *)&file[(size_t)index * bytes + i]; /* maps the page */
    } else {
        free(allocate(bytes));
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fputs(usage, stderr);
        return 2;
    }
    long steps = atol(argv[2]), ms = atol(argv[3]);
    size_t bytes = (size_t)atol(argv[4]), kept = 0;
    char *file = NULL;
    if (argc > 5) {
        FILE *stream = fopen(argv[5], "r");
        file = stream ? mmap(NULL, (size_t)steps * bytes, PROT_READ, MAP_SHARED, fileno(stream), 0)
                      : MAP_FAILED;
        if (file == MAP_FAILED)
            return 2;
    }
    struct tacho_nvtx nvtx;
    tacho_nvtx_open(&nvtx, "target_memory");
    nvtxStringHandle_t name = tacho_nvtx_name(&nvtx, "step");
    for (long i = 0; i < steps; i++) {
        struct tacho_step step = {.index = (uint64_t)i, .samples = 1};
        tacho_nvtx_push_step(&nvtx, name, &step);
        kept += work(argv[1], i, steps, bytes, file);
        nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
        tacho_nvtx_pop(&nvtx);
    }
    printf("%zu\n", kept);
    return 0;
}
