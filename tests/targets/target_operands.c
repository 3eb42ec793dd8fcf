/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of operators that name the memory of their operands, as a file says: a line each, the name
 * and then the operands as in tacho_operation. Nothing is computed; an operator takes 20 us.
 * usage: target_operands FILE STEPS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tacho_nvtx.h"

#define OPERATORS 512
#define LINE      1024

static struct operator
{
    nvtxStringHandle_t name;
    struct tacho_operation what;
}
operators[OPERATORS];

static void spin(void)
{
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000000 + now.tv_nsec - from.tv_nsec < 20000);
}

/* The bytes that the text names: of `letter`, and of what is read and written. */
static uint64_t bytes_of(const char *text, char letter)
{
    uint64_t bytes = 0;
    for (const char *at = strchr(text, '+'); at; at = strchr(at + 1, '+')) {
        const char *word = at;
        while (word > text && word[-1] != ' ')
            word--;
        bytes += *word == letter || *word == 'u' ? strtoull(at + 1, NULL, 16) : 0;
    }
    return bytes;
}

int main(int argc, char **argv)
{
    struct tacho_nvtx nvtx;
    char line[LINE];
    size_t count = 0;
    FILE *file = argc == 3 ? fopen(argv[1], "r") : NULL;
    if (!file) {
        fprintf(stderr, "usage: target_operands FILE STEPS\n");
        return 2;
    }
    tacho_nvtx_open(&nvtx, "operands");
    while (count < OPERATORS && fgets(line, sizeof line, file)) {
        char *text = strchr(line, ' ');
        line[strcspn(line, "\n")] = 0;
        if (text)
            *text++ = 0;
        operators[count].name = tacho_nvtx_name(&nvtx, line);
        operators[count++].what =
            (struct tacho_operation){.work = {.bytes_read = text ? bytes_of(text, 'r') : 0,
                                              .bytes_written = text ? bytes_of(text, 'w') : 0},
                                     .operands = text ? tacho_nvtx_name(&nvtx, text) : NULL};
    }
    fclose(file);
    nvtxStringHandle_t name = tacho_nvtx_name(&nvtx, "step");
    for (uint64_t i = 0; i < strtoull(argv[2], NULL, 10); i++) {
        struct tacho_step step = {.index = i};
        tacho_nvtx_push_step(&nvtx, name, &step);
        for (size_t k = 0; k < count; k++) {
            tacho_nvtx_push_operation(&nvtx, operators[k].name, &operators[k].what);
            spin();
            tacho_nvtx_pop(&nvtx);
        }
        tacho_nvtx_pop(&nvtx);
    }
    return 0;
}
