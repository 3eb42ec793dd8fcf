/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of --simulate-compute: keys and numbers, joined by commas.
 */
#include "workloads/simulated.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Does a key name this rank, or its stage: "rank3"? Of another one it is nothing. */
static int is_own(const char *key, size_t length, const char *word, int own, int *other)
{
    size_t letters = strlen(word);
    char *end = NULL;
    if (length <= letters || strncmp(key, word, letters) != 0)
        return 0;
    long number = strtol(key + letters, &end, 10);
    if (end != key + length || number < 0)
        return 0;
    *other = number != own;
    return number == own;
}

/* One key and its number; false: it is not understood. */
static int set(struct lt_simulated *out, double *link, const char *key, size_t length, double value,
               const struct lt_layout *layout, int rank)
{
    double nowhere = 0;
    const struct {
        const char *name;
        double *place;
    } keys[] = {{"forward", &out->forward},
                {"backward", &out->backward},
                {"weights", &out->weights},
                {"rotate", &out->rotate},
                {"link", link ? link : &nowhere}};
    int other = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i].name) == length && !strncmp(keys[i].name, key, length)) {
            *keys[i].place = value;
            return 1;
        }
    if (is_own(key, length, "rank", rank, &other) ||
        is_own(key, length, "stage", layout->stage, &other)) {
        out->factor *= value;
        return 1;
    }
    return other;
}

int simulated_parse(struct lt_simulated *out, double *link, const char *text,
                    const struct lt_layout *layout, int rank, struct tacho_error *err)
{
    const char *rest = text ? text : "";
    int sound = !text || *text;
    *out = (struct lt_simulated){.weights = (double)NAN, .factor = 1};
    while (sound && *rest) {
        size_t length = strcspn(rest, "=");
        char *end = NULL;
        double value = rest[length] ? strtod(rest + length + 1, &end) : 0;
        sound = end && end != rest + length + 1 && value >= 0 && value <= 3600 &&
                (!*end || (*end == ',' && end[1])) &&
                set(out, link, rest, length, value, layout, rank);
        if (sound)
            rest = end + (*end == ',');
    }
    if (isnan(out->weights))
        out->weights = out->backward / 2;
    if (sound && out->weights <= out->backward)
        return 0;
    return tacho_fail(err, TACHO_EUSAGE,
                      "forward=SECONDS,backward=SECONDS and, joined by commas, weights=, rankN=, "
                      "stageN=, link=, rotate=",
                      "--simulate-compute %s: not understood", text);
}
