/* SPDX-License-Identifier: Apache-2.0
 *
 * Which progress bars of a log are those of training. A program draws bars for loading, for
 * evaluations and for epochs, too, often with nothing but numbers in them.
 */
#include <ctype.h>
#include <string.h>

#include "store/import/logs/logs.h"

#define FINER 20 /* times as many lines: that bar counts steps, and what a loss follows, epochs */

bool log_values_tell(const struct log_values *values)
{
    static const enum log_what others[] = {
        LOG_LOSS,          LOG_LEARNING_RATE, LOG_GRADIENT_NORM, LOG_TOKENS_PER_S,
        LOG_SAMPLES_PER_S, LOG_TFLOPS,        LOG_MFU,           LOG_TOKENS_PER_S_DEVICE};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (values->has[others[i]])
            return true;
    return values->has[LOG_STEP_TIME] && !values->progress;
}

/* FNV-1a, one byte. */
static uint64_t mix(uint64_t hash, unsigned char byte)
{
    return (hash ^ byte) * 0x100000001b3u;
}

uint64_t log_bar_key(const char *line, const char *number, int64_t total)
{
    uint64_t hash = 0xcbf29ce484222325u;
    bool named = false;
    for (const char *text = line; text < number && *text != '%'; text++) {
        if (*text == '|' && named) /* before a name: where the time was */
            break;
        if (isalpha((unsigned char)*text)) {
            hash = mix(hash, (unsigned char)*text);
            named = true;
        }
    }
    for (int shift = 0; !named && shift < 64; shift += 8)
        hash = mix(hash, (unsigned char)(total >> shift));
    return hash | 1;
}

static struct log_bar *bar_of(struct log_bars *bars, uint64_t key)
{
    for (size_t i = 0; i < bars->count; i++)
        if (bars->bar[i].key == key)
            return &bars->bar[i];
    return NULL;
}

void log_bars_add(struct log_bars *bars, const struct log_values *values)
{
    bool tells = log_values_tell(values);
    if (values->bar) {
        struct log_bar *bar = bar_of(bars, values->bar);
        if (!bar && bars->count < LOG_BARS_MOST) {
            bar = &bars->bar[bars->count++];
            *bar = (struct log_bar){.key = values->bar};
        }
        bars->last = bar;
        if (bar) {
            bar->lines++;
            bar->told += tells;
        }
    } else if (tells && bars->last) {
        bars->last->after++;
    }
}

void log_bars_end(struct log_bars *bars)
{
    int64_t told = 0, after = 0, lines = 0;
    struct log_bar *finest = NULL;
    for (size_t i = 0; i < bars->count; i++) {
        struct log_bar *bar = &bars->bar[i];
        told += bar->told;
        after += bar->after;
        lines += bar->after ? bar->lines : 0;
        finest = finest && finest->lines >= bar->lines ? finest : bar;
    }
    bool one = finest && !told && (!after || finest->lines / FINER >= lines);
    for (size_t i = 0; i < bars->count; i++) {
        struct log_bar *bar = &bars->bar[i];
        bar->trains = told ? bar->told > 0 : bar->after > 0;
        if (one)
            bar->trains = bar == finest;
    }
}

bool log_bars_train(struct log_bars *bars, const struct log_values *values)
{
    const struct log_bar *bar = values->bar ? bar_of(bars, values->bar) : NULL;
    return !values->bar || (bar ? bar->trains : log_values_tell(values));
}
