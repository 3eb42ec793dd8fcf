/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal of trials.
 */
#include "cli/tune/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/base/message.h"

static int cannot(const char *path, int error)
{
    return cli_error(tacho_error_of_errno(error), "name another folder with -o FOLDER", "%s: %s",
                     path, strerror(error));
}

static double number_of(const json_t *json, const char *key)
{
    json_t *value = json_object_get(json, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void set_number(json_t *json, const char *key, double value)
{
    json_object_set_new(json, key, isnan(value) ? json_null() : json_real(value));
}

static void take_text(const json_t *json, const char *key, char *text, size_t size)
{
    const char *value = json_string_value(json_object_get(json, key));
    snprintf(text, size, "%s", value ? value : "");
}

/* A line of the file as a trial; false: it is torn or not one. */
static bool read_trial(const char *line, struct cli_trial *trial)
{
    json_t *json = json_loads(line, 0, NULL);
    bool valid = json_is_integer(json_object_get(json, "configuration"));
    *trial = (struct cli_trial){
        .configuration = (size_t)json_integer_value(json_object_get(json, "configuration")),
        .value = number_of(json, "value"),
        .seconds = json_number_value(json_object_get(json, "seconds")),
        .memory = number_of(json, "memory"),
        .ended = json_is_true(json_object_get(json, "ended")),
        .known = json_is_true(json_object_get(json, "known")),
        .confirms = json_is_true(json_object_get(json, "confirms")),
        .pairs = json_is_true(json_object_get(json, "pairs"))};
    take_text(json, "objective", trial->objective, sizeof trial->objective);
    take_text(json, "reason", trial->reason, sizeof trial->reason);
    json_t *advised = json_object_get(json, "advised");
    while (trial->advised_count < CLI_ADVISED_MOST &&
           trial->advised_count < json_array_size(advised)) {
        json_t *at = json_array_get(advised, trial->advised_count);
        trial->advised[trial->advised_count++] = (size_t)json_integer_value(at);
    }
    json_decref(json);
    return valid;
}

static int write_line(struct cli_journal *journal, json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(json);
    bool written = text && fprintf(journal->file, "%s\n", text) > 0 && !fflush(journal->file) &&
                   !fsync(fileno(journal->file));
    free(text);
    return written ? 0
                   : cli_error(TACHO_EIO, NULL, "tune: the trial could not be kept: %s",
                               strerror(errno));
}

/* Reads what is there: a first line that names the search, then trials. A last line without its end
 * was being written when the search was killed; it is cut off. */
static int read_lines(struct cli_journal *journal, const char *path, const char *search)
{
    char *line = NULL;
    size_t room = 0;
    off_t whole = 0;
    int code = 0;
    bool first = true;
    ssize_t length;
    while (!code && (length = getline(&line, &room, journal->file)) > 0) {
        if (line[length - 1] != '\n')
            break;
        json_t *head = first ? json_loads(line, 0, NULL) : NULL;
        const char *named = json_string_value(json_object_get(head, "search"));
        if (first && (!named || strcmp(named, search) != 0))
            code = cli_error(TACHO_EEXISTS, "name another folder with -o FOLDER",
                             "%s: the folder of another search", path);
        else if (!first && journal->count < CLI_TRIALS_MOST &&
                 read_trial(line, &journal->trial[journal->count]))
            journal->count++;
        json_decref(head);
        first = false;
        whole += length;
    }
    free(line);
    if (!code &&
        (ftruncate(fileno(journal->file), whole) || fseeko(journal->file, whole, SEEK_SET)))
        code = cannot(path, errno);
    if (!code && first) {
        json_t *head = json_object();
        json_object_set_new(head, "search", json_string(search));
        code = write_line(journal, head);
    }
    return code;
}

int cli_journal_open(struct cli_journal *journal, const char *folder, const char *search)
{
    char path[PATH_MAX];
    *journal = (struct cli_journal){0};
    if (mkdir(folder, 0700) && errno != EEXIST)
        return cannot(folder, errno);
    snprintf(path, sizeof path, "%s/trials.jsonl", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || !(journal->file = fdopen(fd, "r+")))
        return cannot(path, errno);
    if (flock(fd, LOCK_EX | LOCK_NB))
        return cli_error(TACHO_EBUSY, "wait until it has ended, or name another folder: -o FOLDER",
                         "%s: another search writes into it", path);
    journal->trial = calloc(CLI_TRIALS_MOST, sizeof *journal->trial);
    if (!journal->trial)
        return cli_error(TACHO_ENOMEM, NULL, "tune: out of memory");
    return read_lines(journal, path, search);
}

int cli_journal_add(struct cli_journal *journal, const struct cli_trial *trial)
{
    json_t *json = json_object();
    if (journal->count == CLI_TRIALS_MOST)
        return cli_error(TACHO_ENOTSUP, "name another folder with -o FOLDER",
                         "tune: more than %d trials", CLI_TRIALS_MOST);
    json_object_set_new(json, "configuration", json_integer((json_int_t)trial->configuration));
    set_number(json, "value", trial->value);
    set_number(json, "seconds", trial->seconds);
    set_number(json, "memory", trial->memory);
    json_object_set_new(json, "ended", json_boolean(trial->ended));
    json_object_set_new(json, "known", json_boolean(trial->known));
    json_object_set_new(json, "confirms", json_boolean(trial->confirms));
    json_object_set_new(json, "pairs", json_boolean(trial->pairs));
    if (*trial->objective)
        json_object_set_new(json, "objective", json_string(trial->objective));
    if (*trial->reason)
        json_object_set_new(json, "reason", json_string(trial->reason));
    json_t *advised = trial->advised_count ? json_array() : NULL;
    for (size_t i = 0; i < trial->advised_count; i++)
        json_array_append_new(advised, json_integer((json_int_t)trial->advised[i]));
    if (advised)
        json_object_set_new(json, "advised", advised);
    journal->trial[journal->count++] = *trial;
    return write_line(journal, json);
}

void cli_journal_close(struct cli_journal *journal)
{
    if (journal->file)
        fclose(journal->file);
    free(journal->trial);
    *journal = (struct cli_journal){0};
}
