/* SPDX-License-Identifier: Apache-2.0
 *
 * Which progress bars of a log are those of training. A program draws bars for loading, for
 * evaluations and for epochs, too, often with nothing but numbers in them.
 */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "store/import/logs/logs.h"

#define FINER       20 /* times as many lines: that bar counts steps, and what a loss follows, epochs */
#define LINES_KNOWN 2 /* lines that number steps and tell of them make a log have such lines */
#define BARE_MOST   4 /* times as many lines that only have a number: these are the steps */
#define RARE        4 /* times as many losses follow another bar: those behind this one came late */
#define EXACT_NS    2e8 /* what passed is more exact than whole seconds if it is off by less */
#define DIGITS_MOST 6
#define JUMP_LEAST  10 /* steps: fewer may have been begun at once */
#define JUMP_FASTER 4
#define HASH_BEGIN  0xcbf29ce484222325u

/* Is one of the words in the label of a bar? */
static bool has_word(const char *line, const char *number, const char *const *words, size_t count)
{
    size_t bytes = (size_t)(number - line);
    const char *percent = memchr(line, '%', bytes);
    return log_has_word(line, percent ? (size_t)(percent - line) : bytes, "_", words, count);
}

bool log_bar_is_other(const char *line, const char *number)
{
    static const char *const words[] = {"loading", "fetching",   "downloading", "capturing",
                                        "map",     "mapping",    "tokenizing",  "generating",
                                        "filter",  "extracting", "filtering",   "saving"};
    return has_word(line, number, words, sizeof words / sizeof *words);
}

bool log_bar_evaluates(const char *line, const char *number)
{
    static const char *const words[] = {"val",     "valid", "eval",      "test",
                                        "testing", "dev",   "inference", "predict"};
    static const char *const training[] = {"train", "training"};
    return has_word(line, number, words, sizeof words / sizeof *words) &&
           !has_word(line, number, training, sizeof training / sizeof *training);
}

/* FNV-1a, one byte. */
static uint64_t mix(uint64_t hash, unsigned char byte)
{
    return (hash ^ byte) * 0x100000001b3u;
}

uint64_t log_bar_key(const char *line, const char *number, int64_t total)
{
    uint64_t hash = HASH_BEGIN;
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

uint64_t log_bar_label(const char *line, const char *end)
{
    uint64_t hash = HASH_BEGIN;
    size_t bytes = (size_t)(end - line);
    while (bytes && strchr(" 0123456789", line[bytes - 1]))
        bytes--;
    for (size_t i = 0; i < bytes; i++)
        hash = mix(hash, (unsigned char)line[i]);
    return hash;
}

static struct log_bar *bar_of(struct log_bars *bars, uint64_t key)
{
    for (size_t i = 0; i < bars->count; i++)
        if (bars->bar[i].key == key)
            return &bars->bar[i];
    return NULL;
}

/* Follows the epochs of Keras: "Epoch 1/10", the bar until it is full, and again with what the
 * validation gave. A bar without such a line before it is of evaluate() or predict(). False: the
 * line is of none of training, or of a bar that is not full. */
static bool follow_epoch(struct log_bars *bars, struct log_values *values)
{
    if (values->epoch)
        bars->epoch = (struct log_epoch){.number = values->epoch, .open = true};
    if (!values->keras)
        return true;
    bars->epoch.open &= !bars->epoch.total || (values->total == bars->epoch.total &&
                                               values->value[LOG_STEP] >= bars->epoch.step);
    bool trains = bars->epoch.open && values->value[LOG_STEP] == (double)values->total;
    bars->epoch.total = values->total;
    bars->epoch.step = values->value[LOG_STEP];
    bars->epoch.open &= !trains || !values->ended;
    values->label = (uint64_t)bars->epoch.number;
    return trains;
}

/* ---- resumed runs ------------------------------------------------------------------------------ */

/* Ends one time that a bar was drawn from its beginning: did it begin at 0 and jump to a step that
 * it could not have reached at its fastest? */
static void end_jump(struct log_bar *bar)
{
    const struct log_jump *jump = &bar->jump;
    if (jump->any && jump->step >= JUMP_LEAST && jump->fastest > 0 && bar->begun <= 64 &&
        jump->step > JUMP_FASTER * jump->fastest * (double)(jump->passed + 1))
        bar->resumed |= UINT64_C(1) << (bar->begun - 1);
}

/* Adds a line of a bar to what tells of a jump: speeds over more time than the jump took. */
static void add_jump(struct log_bar *bar, const struct log_values *values)
{
    struct log_jump *jump = &bar->jump;
    double step = values->value[LOG_STEP];
    if (values->elapsed == STORE_ABSENT)
        return;
    if (!jump->any) {
        jump->any = jump->zero && step > 0;
        jump->zero = step <= 0;
        jump->step = jump->from = step;
        jump->passed = jump->from_passed = values->elapsed;
        return;
    }
    int64_t passed = values->elapsed - jump->from_passed;
    if (passed < jump->passed + 2)
        return;
    double speed = (step - jump->from) / (double)(passed - 1);
    jump->fastest = speed > jump->fastest ? speed : jump->fastest;
    jump->from = step;
    jump->from_passed = values->elapsed;
}

/* Follows a bar that is read the second time. False: the line is the beginning of a bar that
 * jumps, to the step that the next one is marked with. */
static bool follow_jump(struct log_bar *bar, struct log_values *values)
{
    double step = values->value[LOG_STEP], before = bar->read_step;
    bar->read += !bar->read || step < before;
    bar->read_step = step;
    if (bar->read > 64 || !(bar->resumed >> (bar->read - 1) & 1))
        return true;
    values->resumed = before <= 0 && step > 0;
    if (values->resumed) /* its speed is of steps that it skipped */
        values->has[LOG_STEP_TIME] = false;
    return step > 0;
}

/* Counts a line that a bar was drawn in. */
static void add_bar(struct log_bars *bars, const struct log_values *values, bool tells)
{
    struct log_bar *bar = bar_of(bars, values->bar);
    if (!bar && bars->count < LOG_BARS_MOST) {
        bar = &bars->bar[bars->count++];
        *bar = (struct log_bar){.key = values->bar};
    }
    bars->last = bar;
    if (bar) {
        double step = values->value[LOG_STEP];
        bar->lines++;
        bar->since++;
        bar->told += tells;
        if (bar->lines == 1 || step < bar->step) {
            end_jump(bar);
            bar->jump = (struct log_jump){0};
            bar->begun++;
        }
        add_jump(bar, values);
        bar->step = step;
        bar->most = step > bar->most ? step : bar->most;
    }
}

/* Does the line of a step say more than its number: something of the step, or what has passed since
 * the start? */
static bool says_more(const struct log_values *values)
{
    return log_values_tell(values) || (values->time != STORE_ABSENT && values->clock == LOG_PASSED);
}

static bool has_step(const struct log_values *values)
{
    return values->has[LOG_STEP] || values->has[LOG_GLOBAL_STEP];
}

/* The mean time of a step, or the mean speed, as it was printed. NAN: none. */
static double mean_of(const struct log_values *values)
{
    enum log_what what = values->has[LOG_MEAN_SPEED] ? LOG_MEAN_SPEED : LOG_MEAN_TIME;
    return values->has[what] && values->value[what] > 0 ? values->value[what] : NAN;
}

/* Whole seconds that passed, as exactly as the mean gives them (ms-swift), if it has digits enough:
 * at the end of a long run four are too few. */
static void refine_elapsed(const struct log_bars *bars, struct log_values *values)
{
    double step = values->value[LOG_GLOBAL_STEP], mean = mean_of(values),
           exact = 1e9 * (values->has[LOG_MEAN_SPEED] ? step / mean : step * mean);
    if (!values->has[LOG_GLOBAL_STEP] || values->time == STORE_ABSENT ||
        !(fabs(exact - (double)values->time) < 1.5e9))
        return;
    values->coarse = exact * pow(10, -bars->digits) / 2 / mean > EXACT_NS;
    if (!values->coarse)
        values->time = llround(exact);
}

/* How many digits a number has behind its point. */
static int digits_of(double value)
{
    int digits = 0;
    while (digits < DIGITS_MOST && fabs(value - round(value)) > 1e-6 * pow(10, digits)) {
        value *= 10;
        digits++;
    }
    return digits;
}

/* Notes the bar that a loss follows: the last one; of an epoch that was evaluated, too, the one
 * with most lines in it. */
static void credit(struct log_bars *bars, bool evaluated)
{
    struct log_bar *of = bars->last;
    for (size_t i = 0; i < bars->count; i++)
        if (evaluated && bars->bar[i].since > of->since)
            of = &bars->bar[i];
    of->after++;
    for (size_t i = 0; i < bars->count; i++)
        bars->bar[i].since = 0;
}

void log_bars_add(struct log_bars *bars, struct log_values *values)
{
    if (!follow_epoch(bars, values))
        return;
    bool tells = log_values_tell(values);
    double mean = mean_of(values);
    if (isfinite(mean) && digits_of(mean) > bars->digits)
        bars->digits = digits_of(mean);
    if (values->other_bar && !tells)
        return;
    if (values->bar) {
        add_bar(bars, values, tells);
        return;
    }
    bars->timed += values->time != STORE_ABSENT || values->has[LOG_STEP_TIME] ||
                   values->has[LOG_STEPS_PER_S] || values->has[LOG_MEAN_TIME];
    if (values->engine)
        bars->engine += has_step(values);
    else if (has_step(values))
        *(says_more(values) ? &bars->own : &bars->bare) += 1;
    if (values->has[LOG_LOSS] && !values->engine && bars->last)
        credit(bars, values->has[LOG_EVAL_LOSS]);
}

/* Does the bar that tells count epochs, in each of which the finest one begins anew? */
static bool has_inner(const struct log_bars *bars, const struct log_bar *finest, int64_t told)
{
    for (size_t i = 0; i < bars->count; i++) {
        const struct log_bar *bar = &bars->bar[i];
        if (bar->told == told && !finest->told && bar->most >= 2 &&
            (double)finest->begun >= bar->most / 2 && finest->lines >= 2 * bar->lines)
            return true;
    }
    return false;
}

void log_bars_end(struct log_bars *bars)
{
    int64_t told = 0, after = 0, lines = 0;
    struct log_bar *finest = NULL;
    bars->epoch = (struct log_epoch){0};
    for (size_t i = 0; i < bars->count; i++) {
        struct log_bar *bar = &bars->bar[i];
        end_jump(bar);
        told += bar->told;
        after = after > bar->after ? after : bar->after;
        lines += bar->after ? bar->lines : 0;
        finest = finest && finest->lines >= bar->lines ? finest : bar;
    }
    bool numbered = bars->own >= LINES_KNOWN && bars->timed >= bars->own / 2;
    bool one =
        finest && (told ? has_inner(bars, finest, told) : !after || finest->lines / FINER >= lines);
    for (size_t i = 0; i < bars->count; i++) {
        struct log_bar *bar = &bars->bar[i];
        bar->trains = told || numbered ? bar->told > 0 : bar->after && bar->after * RARE >= after;
        if (one && !numbered)
            bar->trains = bar == finest && (after || !bars->engine);
        bars->trains |= bar->trains;
    }
}

bool log_bars_train(struct log_bars *bars, struct log_values *values)
{
    struct log_bar *bar = values->bar ? bar_of(bars, values->bar) : NULL;
    bool tells = log_values_tell(values);
    if (!follow_epoch(bars, values))
        return false;
    if (bar && (!values->other_bar || tells))
        return follow_jump(bar, values) && bar->trains;
    if (values->bar)
        return tells;
    refine_elapsed(bars, values);
    bool others = bars->own >= LINES_KNOWN;
    if (!values->engine)
        others &= bars->bare <= bars->own * BARE_MOST;
    if ((bars->trains || others) && (values->engine || !says_more(values)))
        values->has[LOG_STEP] = values->has[LOG_GLOBAL_STEP] = false;
    return true;
}
