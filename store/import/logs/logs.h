/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: quantities by the names that training programs give them (log_names.c),
 * one line of text as quantities (log_line.c), or one row of a table (log_table.c), which progress
 * bars are those of training (log_bars.c), and steps and series made of all that (log_series.c).
 * log.c reads text, store/import/tfevents/ reads event files of TensorBoard.
 *
 * A log is untrusted: numbers may be anything. Memory: one line, and the names of series.
 */
#ifndef STORE_IMPORT_LOGS_LOGS_H
#define STORE_IMPORT_LOGS_LOGS_H

#include "store/import/input/rows.h"

#define LOG_LINE_MOST 4096 /* bytes of a line that are looked at */

/* What a time of a line is. */
enum log_clock {
    LOG_DATED,   /* a date with its year */
    LOG_PASSED,  /* what has passed since the start */
    LOG_OF_YEAR, /* a date without its year */
    LOG_OF_DAY,  /* a time of day */
    LOG_CLOCKS
};

/* What a number of a log is. key, name of the series, unit of the series (NULL: it has none) */
#define LOG_WHAT_MAP(X) \
    X(STEP, NULL, NULL) \
    X(GLOBAL_STEP, NULL, NULL) \
    X(STEP_TIME, NULL, NULL) \
    X(STEPS_PER_S, NULL, NULL) \
    X(MEAN_TIME, NULL, NULL) \
    X(MEAN_SPEED, NULL, NULL) \
    X(TIMESTAMP, NULL, NULL) \
    X(PASSED_TIME, NULL, NULL) \
    X(BATCH, NULL, NULL) \
    X(STEP_TOKENS, NULL, NULL) \
    X(TOTAL_BATCH, NULL, NULL) \
    X(CONSUMED_TOKENS, NULL, NULL) \
    X(CONSUMED_SAMPLES, NULL, NULL) \
    X(LOSS, "loss", NULL) \
    X(EVAL_LOSS, "eval loss", NULL) \
    X(LEARNING_RATE, "learning rate", NULL) \
    X(GRADIENT_NORM, "gradient norm", NULL) \
    X(TOKENS_PER_S, "tokens per second", "tokens/s") \
    X(TOKENS_PER_S_DEVICE, "tokens per second and device", "tokens/s") \
    X(SAMPLES_PER_S, "samples per second", "samples/s") \
    X(TFLOPS, "TFLOP/s per device", "TFLOP/s") \
    X(MFU, "logged MFU", "%") \
    X(MEMORY, "logged memory", "bytes")

enum log_what {
    LOG_NOTHING = -1,
#define LOG_WHAT_ENUM(key, name, unit) LOG_##key,
    LOG_WHAT_MAP(LOG_WHAT_ENUM)
#undef LOG_WHAT_ENUM
        LOG_WHAT_COUNT
};

/* Which step of an epoch a line is about, where it says so: "epoch: 3, iter: 10/47". */
struct log_place {
    int64_t step, total, epoch; /* absent where the line does not say them */
};

/* Quantities of one line or event; NAN where `has` says that there is one: it was NaN. */
struct log_values {
    bool has[LOG_WHAT_COUNT];
    double value[LOG_WHAT_COUNT]; /* STEP_TIME in s, MEMORY in bytes; MEAN_TIME (in s a step) and
                                   * MEAN_SPEED (steps a s): since the start */
    int64_t time;                 /* ns since 1970; STORE_ABSENT: the line has none */
    enum log_clock clock;         /* what it is */
    bool indented;                /* the line begins with as many spaces as a time has */
    bool progress;                /* the step and its time are those of a progress bar */
    int64_t total;                /* of a progress bar: how many steps; else absent */
    uint64_t bar;                 /* which progress bar (log_bar_key); 0: none */
    bool other_bar;               /* its label says that it is not of training */
    uint64_t label;               /* what is in front of its percentage, numbers included */
    int64_t elapsed;              /* s that the bar was there; else absent */
    bool resumed;  /* the bar begins at this step: those before it were trained by another run */
    int64_t epoch; /* the line begins an epoch, as Keras writes it: which one; else 0 */
    bool keras; /* it is a bar of Keras; STEP_TIME is a mean in least..most s, unless `most` is 0 */
    double least, most;
    bool validated;   /* ... which includes a validation */
    bool ended;       /* ... and the line says how long the epoch took */
    bool engine;      /* a line of DeepSpeed itself, which counts the steps, too */
    double bare_time; /* a time without a unit; 0: none */
    bool coarse;      /* the time is in whole seconds, and there is a mean time */
    bool evaluation;  /* of an evaluation: its step does not count */
    struct log_place place;
    bool of_epochs;      /* the step is the number of an epoch, unless other lines have steps */
    bool by_epoch;       /* the step is that of `place`, which begins anew with each epoch */
    double vague_time;   /* s: STEP_TIME by a name that may also be of what has passed; 0: none */
    bool one_step;       /* ... whose name or unit says that it is not since a start */
    double passed;       /* s: a time whose name says that it is since a start; 0: none */
    double passed_grain; /* s: of its last digit */
    double grain;        /* s: `time` is not more exact; 0: it is */
    bool unnamed;        /* STEP_TIME is a number with a unit and without a name */
    bool of_line;        /* ... and of all steps since the line before */
    bool single;         /* the time is that of one step only, whatever is between the lines */
};

/* Values with nothing in them. */
struct log_values log_values_none(void);

/* ---- names ------------------------------------------------------------------------------------- */

/* What a name means; it ends with the words of one of the table. *scale: the factor of values;
 * *needs_unit: only a value with a unit of time counts. */
enum log_what log_what_of(const char *name, size_t bytes, double *scale, bool *needs_unit);
/* Is one of the words in a text, in letters of any case? Other characters than letters and those of
 * `joined` end a word. */
bool log_has_word(const char *text, size_t bytes, const char *joined, const char *const *words,
                  size_t count);
/* The program that writes lines like this one; NULL: not known. */
const char *log_tool_of(const char *line);
/* All programs that write lines like this one, a bit for each. */
uint64_t log_tools_of(const char *line);
const char *log_series_name(enum log_what what);

/* ---- lines ------------------------------------------------------------------------------------- */

/* Finds the date and time in a line ("2024-05-23 01:14:08[.123]" and others) and blanks it; else
 * what has passed since the start, else the time of day that the line begins with. ns;
 * STORE_ABSENT: the line has none. The zone of a time is not known: UTC is assumed, which leaves
 * differences right. The line is terminated. */
int64_t log_take_time(char *line, size_t bytes, enum log_clock *clock);
/* "1 day, 0:12:34", "1:01:10" or "05:44" as s; STORE_ABSENT: another text. */
int64_t log_seconds(const char *text);

/* Times of a log: one kind counts, that which most lines of steps have. */
struct log_times {
    int64_t count[2][LOG_CLOCKS]; /* of others, of lines with a step that tell of it */
    enum log_clock clock;
    int64_t last, offset; /* of the line before; of days or years that began since */
    int64_t given;        /* to the line before: it is that of an indented one, too (rich) */
};
/* First all lines are added; `log_times_end` then chooses. */
void log_times_add(struct log_times *times, const struct log_values *values);
void log_times_end(struct log_times *times);
/* Makes the time of a line one that goes on over midnight and new year; takes it from a line with a
 * time of another kind. */
void log_times_follow(struct log_times *times, struct log_values *values);
/* Reads one line, which it changes: escapes of colours and the time go. */
void log_line_read(char *line, size_t bytes, struct log_values *values);
/* Empties values, but for the date and time in a line, which go from it. */
void log_values_begin(struct log_values *values, char *line, size_t bytes);
/* Keeps a value, unless the line has one already. */
void log_keep(struct log_values *values, enum log_what what, double value);
/* Keeps what a bar of tqdm or rich says whose step is at `text` and ends at `behind`. False: there
 * is none. */
bool log_drawn(struct log_values *values, const char *line, const char *text, double step,
               const char *behind);
/* Keeps what a bar of Keras says, or that an epoch begins. */
void log_drawn_by_keras(struct log_values *values, const char *line);
/* Narrows the mean of a step of Keras by another line of the same step. */
void log_drawn_narrow(struct log_values *now, const struct log_values *values);
/* Adds the number that a text is all of, if its name is known; the text need not be terminated. */
void log_values_put(struct log_values *values, const char *name, size_t name_bytes,
                    const char *text, size_t bytes);

/* ---- epochs, and what a time is of -------------------------------------------------------------- */

/* The number of the epoch that a line names; absent: none. */
int64_t log_epoch_in(const char *line);
/* Is a number followed by "/N", which is not less than it? */
bool log_is_of_total(const char *behind, int64_t step, int64_t *total);
/* Adds the number of a step to the place of a line: "step: 10/47". A number before it that is of no
 * total is that of the epoch, unless the line names one. */
void log_place_named(struct log_values *values, double step, const char *behind);
/* Adds the step of DLLogger, `"step": [epoch, iteration]`. False: another text. */
bool log_place_listed(struct log_values *values, double first, const char *text,
                      const char *behind);
void log_place_end(struct log_values *values, const char *line);

/* What all lines tell of steps and times. */
struct log_places {
    int64_t epoch, step; /* of the line before; epoch: may be absent */
    int64_t anew, on;    /* times that an epoch followed: steps began anew, or went on */
    struct log_growth {
        int64_t lines, grown, same, fell;
        double first, last, least, most, sum; /* sum: of what it grew by */
        int64_t rated;                        /* lines with a speed, too */
        double rated_least, rated_most;       /* product of both: what one time is of */
        int64_t date;                         /* of the line before; absent: none */
        double dated, between; /* s: what it grew by between dates, and what these say */
        bool one_step;         /* a line says that it is of one step */
    } vague, passed;
    int64_t pairs, of_lines; /* dates with more than a step between: a time is that between them */
    int64_t last_date;
    double last_step;
    bool by_epoch;     /* steps begin anew with each epoch */
    bool vague_passes; /* times with plain names are what has passed */
    bool passes;       /* so are those whose names say so */
    bool by_line;      /* times are those of all steps of a line */
    double line_end;   /* the step behind the last line whose form says that; 0: none */
};
/* First all lines are added; `log_places_end` then decides, also that what has passed is the time
 * of the lines. `places` begins with absent numbers. */
void log_places_add(struct log_places *places, const struct log_values *values);
void log_places_end(struct log_places *places, struct log_times *times);
/* Makes step and time of a line what the log as a whole says that they are. */
void log_places_apply(struct log_places *places, struct log_values *values);

/* ---- tables ------------------------------------------------------------------------------------ */

#define LOG_COLUMNS_MOST 256

/* The columns of a table of steps. */
struct log_table {
    char header[LOG_LINE_MOST];
    struct {
        size_t at, bytes; /* of the name in the header */
    } column[LOG_COLUMNS_MOST];
    size_t count; /* 0: the text is no table */
    bool tabs;    /* separate the cells, not commas */
};

/* Does the first line of a text name columns, of which one is the step and another a quantity? */
bool log_table_begin(struct log_table *table, const char *line, size_t bytes);
/* Reads one row, which it changes: the time goes. False: the line is no row of the table. */
bool log_table_read(const struct log_table *table, char *line, size_t bytes,
                    struct log_values *values);

/* ---- progress bars ----------------------------------------------------------------------------- */

#define LOG_BARS_MOST 32

/* A progress bar: the lines it was drawn in, how many of them tell something that only a training
 * has, and how many lines behind it do. */
struct log_bar {
    uint64_t key;
    int64_t lines, told, after;
    int64_t since;     /* lines since the last line with a loss */
    int64_t begun;     /* how often it began anew */
    double step, most; /* of the last line, the largest one */
    bool trains;
    /* What tells whether it began at 0 and then jumped to the step that a run resumes from. */
    struct log_jump {
        double step, from; /* of its first line beyond 0; of the line that a speed begins at */
        int64_t passed, from_passed; /* s that the bar was there at these */
        double fastest;              /* steps a second, of what followed the jump; 0: not known */
        bool zero, any;              /* it was drawn at 0; it jumped */
    } jump;
    uint64_t resumed; /* a bit for each of the first 64 times it began: it jumped then */
    int64_t read;     /* how often it began, of what was read the second time */
    double read_step; /* of the last line that was */
};

struct log_bars {
    struct log_bar bar[LOG_BARS_MOST];
    size_t count;
    struct log_bar *last; /* that was drawn; NULL: none */
    /* Lines with a number of a step that are of no bar: those that also tell something of it, those
     * that do not, and those of DeepSpeed itself. */
    int64_t own, bare, engine;
    int64_t timed; /* lines of no bar that have a time */
    struct log_epoch {
        int64_t number, total; /* of Keras: which epoch, 0: none yet; of its last line */
        double step;
        bool open; /* bars are of training */
    } epoch;
    int digits;  /* behind the point of mean times, most */
    bool trains; /* a bar does */
};

/* Does the line say something of a step that only a training has? */
bool log_values_tell(const struct log_values *values);
/* Bars are told apart by the letters in front of them; without any by their totals. `number`: where
 * that of the step begins. Never 0. */
uint64_t log_bar_key(const char *line, const char *number, int64_t total);
/* Does the label of a bar say that it loads, saves or makes something? `number` as above. */
bool log_bar_is_other(const char *line, const char *number);
/* Does it say that the bar is of an evaluation, and not of training beside it? */
bool log_bar_evaluates(const char *line, const char *number);
/* The text from the beginning of a line on, without numbers at its end: of what is in front of the
 * percentage of a bar "Epoch 2/3: " is not "Epoch 3/3: ". */
uint64_t log_bar_label(const char *line, const char *end);
/* First all lines are added; then `log_bars_end` decides which bars are of training: those with a
 * loss in a line of theirs; in a log without lines that number the steps themselves also those that
 * a loss follows as often as others, or the finest one. */
void log_bars_add(struct log_bars *bars, struct log_values *values);
void log_bars_end(struct log_bars *bars);
/* Does the line count: is it of no bar, or of one of training? Takes the number of the step from a
 * line that only mentions it, where other lines tell more of each. */
bool log_bars_train(struct log_bars *bars, struct log_values *values);

/* ---- what passed while a bar was drawn ------------------------------------------------------------- */

#define LOG_DRAWS_MOST 128

/* Lines of a bar whose steps together last as long as the bar says has passed. */
struct log_span {
    struct log_draw {
        int64_t index, steps; /* the last step of the line; how many steps it is about */
        double ns;            /* of one of them; NAN: not known */
        struct log_values values;
    } draw[LOG_DRAWS_MOST];
    size_t count;
    uint64_t bar;   /* which one; 0: none yet */
    double step;    /* of its last line */
    int64_t passed; /* s at that line */
    int64_t since;  /* s at the last line before these */
    double total;   /* ns of all steps of the bar before these */
    bool first;     /* the only line here is the first of the bar */
    bool distrusts; /* its speeds count steps that it did not train */
};

/* Does a line of a bar go on from the one before, or does the bar begin with it? */
bool log_span_follows(const struct log_span *span, const struct log_values *values);
/* Is so much time between the line and the one before that its steps are apart from the others? */
bool log_span_is_far(const struct log_span *span, const struct log_values *values);
/* Adds a line; true: what there is now is to be fitted. */
bool log_span_add(struct log_span *span, const struct log_draw *draw);
/* Gives the steps of the lines the time that passed, where their speeds, which bars smooth, do not
 * add up to it. The caller takes the lines, then sets `count` to 0. */
void log_span_fit(struct log_span *span);

/* ---- steps and series -------------------------------------------------------------------------- */

#define LOG_KEPT_MOST 4 /* lines that go on from each other: they are of a restart */

struct log_series {
    struct imp_rows *rows;
    struct log_values now; /* of the step that is being read */
    /* Steps that are not beyond the present one, which another process prints, or a restart. */
    struct log_values kept[LOG_KEPT_MOST];
    int64_t kept_index[LOG_KEPT_MOST];
    size_t kept_count;
    bool any;
    int64_t index;  /* of it */
    uint64_t label; /* of the progress bar that it is of, and how long that was there */
    int64_t elapsed;
    int64_t base; /* added to the steps of progress bars, which begin anew in each epoch */
    struct log_place place; /* of the last line with steps by epoch */
    bool apart;             /* how many steps are before it is not known */
    double single_ns;       /* of the last line whose time is of one step; NAN: none */
    int64_t timed_one;      /* steps between two such lines, most */
    /* Of the last step whose time is known; lines of one second have none but the first. */
    int64_t last_index, last_time, last_end;
    bool shared;         /* other lines have the same time */
    bool begins;         /* a line with an earlier time came before: the second is read whole */
    int64_t engine_time; /* of a line of DeepSpeed since the last line of a step */
    double consumed_tokens, consumed_samples;
    struct log_values settings;    /* what the program said of all steps before the first one */
    int64_t track[LOG_WHAT_COUNT]; /* 0: not made yet */
    int64_t steps, untimed;
    int64_t most; /* steps of one line */
    bool by_tag;  /* series have names of their own: none is made here */
    struct log_span span;
    bool validated;        /* times of steps include validations */
    double rounded;        /* by how much of itself the time of a step may be off, most */
    bool fitted, smoothed; /* times of steps are speeds of a bar: with what passed, without */
};

void log_series_begin(struct log_series *series, struct imp_rows *rows);
/* The program begins anew: the time between belongs to no step. */
int log_series_resume(struct log_series *series);
/* Adds what was read. A line with another step ends the one before. */
int log_series_add(struct log_series *series, const struct log_values *values);
/* Ends the last step and writes the run keys. `tool`: NULL if not known. */
int log_series_end(struct log_series *series, const char *tool);

#endif
