/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a stored command, and starts it again under `tacho run`.
 */
#include "cli/base/rerun.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analyzers/steps/change.h"
#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "store/files.h"
#include "store/store.h"

#define SETTING_BYTES 128

extern char **environ;

/* ---- may it be started? ---------------------------------------------------------------------- */

/* Could another user put another file in the place of one at this real path? Who can write to any
 * folder above it can. */
static bool is_exchangeable(const char *real)
{
    char folder[PATH_MAX];
    struct stat info;
    snprintf(folder, sizeof folder, "%s", real);
    for (char *slash; (slash = strrchr(folder, '/')) != NULL;) {
        slash[slash == folder] = 0; /* the root stays */
        if (stat(folder, &info))
            return true;
        bool others = info.st_mode & (S_IWGRP | S_IWOTH);
        if ((info.st_uid != geteuid() && info.st_uid) || (others && !(info.st_mode & S_ISVTX)))
            return true;
        if (slash == folder)
            return false;
    }
    return true;
}

/* Refuses, or warns where the user said --yes. */
static int doubt(const char *run, bool yes, const char *why)
{
    if (!yes)
        return cli_error(TACHO_EDENIED,
                         "read it with 'tacho report', then add --yes to start its command",
                         "%.300s: its command is not started: %s", run, why);
    cli_say("%.300s: %s; started because of --yes", run, why);
    return 0;
}

int cli_rerun_owned(struct col_found *found, bool yes)
{
    struct stat name, file; /* two, where the name is a link */
    char real[PATH_MAX];
    if (found->live)
        return cli_error(TACHO_EBUSY, "wait until it has ended", "%.300s: is still being recorded",
                         found->run);
    if (lstat(found->path, &name) || !realpath(found->path, real) || stat(real, &file))
        return cli_error(tacho_error_of_errno(errno), NULL, "%.300s: %s", found->run,
                         strerror(errno));
    uid_t other = name.st_uid != geteuid() ? name.st_uid : file.st_uid;
    if (geteuid() == 0 && other != 0)
        return cli_error(TACHO_EDENIED, "run it as that user",
                         "%.300s: belongs to user %ld; root never starts another user's command",
                         found->run, (long)other);
    bool is_open = is_exchangeable(real);
    if (geteuid() == 0 && is_open)
        return cli_error(TACHO_EDENIED, "copy it into a folder of your own",
                         "%.300s: other users can exchange it; root starts no command from there",
                         found->run);
    if (!S_ISREG(name.st_mode))
        return doubt(found->run, yes, "it is not a plain file");
    if (other != geteuid())
        return doubt(found->run, yes, "the file belongs to another user");
    if ((file.st_mode & (S_IWGRP | S_IWOTH)) || is_open)
        return doubt(found->run, yes, "other users can write to the file or its folder");
    snprintf(found->path, sizeof found->path, "%s", real); /* what was checked is what is read */
    return 0;
}

/* Was it recorded by this user on this host? */
static int check_origin(const char *run, const struct an_result *result, bool yes)
{
    char host[128] = "";
    const char *uid = an_run_key(&result->run, "uid"), *recorded = an_run_key(&result->run, "host");
    long user = uid ? strtol(uid, NULL, 10) : -1;
    gethostname(host, sizeof host - 1);
    if (geteuid() == 0 && user > 0)
        return cli_error(TACHO_EDENIED, "run it as that user",
                         "%.300s: recorded by user %ld; root never starts another user's command",
                         run, user);
    if (!uid)
        return doubt(run, yes, "the file does not say which user recorded it");
    if (user != (long)geteuid())
        return doubt(run, yes, "another user recorded it");
    if (!recorded || strcmp(recorded, host) != 0)
        return doubt(run, yes, "it was recorded on another host");
    return 0;
}

/* Is it a list of words, none of them redacted? */
static int check_words(const char *run, const json_t *words)
{
    if (!json_is_array(words) || !json_array_size(words))
        return cli_error(TACHO_ENOTSUP, "record it again without --no-command",
                         "%.300s: holds no command that could be started", run);
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *word = json_string_value(json_array_get(words, i));
        if (!word)
            return cli_error(TACHO_ECORRUPT, NULL, "%.300s: word %zu of its command is not text",
                             run, i + 1);
        if (strstr(word, STORE_REDACTED))
            return cli_error(
                TACHO_ENOTSUP,
                "type the command of 'Verify' in 'tacho report', with your own argument there",
                "%.300s: word %zu of its command is " STORE_REDACTED ", which replaces a secret",
                run, i + 1);
    }
    return 0;
}

int cli_rerun_read(const struct col_found *found, const struct an_result *result, bool yes,
                   struct cli_rerun *rerun)
{
    const char *command = an_run_key(&result->run, "command"),
               *environment = an_run_key(&result->run, "environment");
    *rerun = (struct cli_rerun){
        .words = command ? json_loads(command, 0, NULL) : NULL,
        .environment = environment ? json_loads(environment, 0, NULL) : NULL,
        .ranks = an_run_key(&result->run, "job.ranks"),
    };
    rerun->launcher = an_change_launcher(an_run_key(&result->run, "job.launcher"), rerun->ranks);
    int code = check_words(found->run, rerun->words);
    return code ? code : check_origin(found->run, result, yes);
}

void cli_rerun_clear(struct cli_rerun *rerun)
{
    json_decref(rerun->words);
    json_decref(rerun->environment);
    *rerun = (struct cli_rerun){0};
}

bool cli_rerun_has_program(const struct cli_rerun *rerun, const char *program)
{
    for (size_t i = 0; i < json_array_size(rerun->words); i++) {
        const char *word = json_string_value(json_array_get(rerun->words, i)),
                   *slash = strrchr(word, '/');
        if (!strcmp(slash ? slash + 1 : word, program))
            return true;
    }
    return false;
}

/* ---- its words ------------------------------------------------------------------------------- */

/* Adds the words of a list that ends with NULL. */
static int append(json_t *list, const char *const *word)
{
    int failed = 0;
    for (; word && *word; word++)
        failed |= json_array_append_new(list, json_string(*word));
    return failed;
}

/* All words: of the launcher, of `TACHO run -o OUTPUT --`, of the command after the change. */
static json_t *all_words(const struct cli_rerun *rerun, const json_t *change, const char *tacho,
                         const char *output)
{
    const char *ranks[] = {rerun->ranks, NULL}, *run[] = {tacho, "run", "-o", output, "--", NULL};
    json_t *out = json_array(), *words = an_change_words(rerun->words, change);
    int failed = !out || !words || append(out, rerun->launcher) ||
                 (rerun->launcher && append(out, ranks)) || append(out, run) ||
                 json_array_extend(out, words);
    json_decref(words);
    if (!failed)
        return out;
    json_decref(out);
    return NULL;
}

void cli_rerun_put_word(FILE *out, const char *word)
{
    char *quoted = cli_shell_word(word);
    const char *shown = quoted ? quoted : "?";
    fputs(word[0] == '-' && !strncmp(shown, "./", 2) ? shown + 2 : shown, out);
    free(quoted);
}

/* Copies the name of "NAME=value" if it is a setting that a change may replace. No setting has a
 * name of SETTING_BYTES. */
static bool setting_name(const char *entry, char *name)
{
    size_t length = strcspn(entry, "=");
    snprintf(name, SETTING_BYTES, "%.*s", (int)length, entry);
    return length < SETTING_BYTES && an_change_is_setting(entry);
}

/* Prints the variables that are set and those that are taken away. */
static void put_variables(FILE *out, const json_t *variables)
{
    const char *name;
    json_t *value;
    bool unset = false;
    for (char **at = environ; *at; at++) {
        char known[SETTING_BYTES];
        if (!setting_name(*at, known) || json_object_get(variables, known))
            continue;
        fprintf(out, "%s-u %s ", unset ? "" : "env ", known);
        unset = true;
    }
    json_object_foreach((json_t *)variables, name, value)
    {
        fprintf(out, "%s=", name);
        cli_rerun_put_word(out, json_string_value(value));
        fputc(' ', out);
    }
}

char *cli_rerun_text(const struct cli_rerun *rerun, const json_t *change, const char *output)
{
    char *text = NULL;
    size_t bytes = 0;
    json_t *words = all_words(rerun, change, "tacho", output),
           *variables = an_change_variables(rerun->environment, change);
    FILE *out = words && variables ? open_memstream(&text, &bytes) : NULL;
    if (out) {
        put_variables(out, variables);
        for (size_t i = 0; i < json_array_size(words); i++) {
            fputs(i ? " " : "", out);
            cli_rerun_put_word(out, json_string_value(json_array_get(words, i)));
        }
        fclose(out);
    }
    json_decref(words);
    json_decref(variables);
    return text;
}

/* ---- running it ------------------------------------------------------------------------------ */

static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
#define ENDS (sizeof ends / sizeof *ends)
static struct sigaction before[ENDS];
static volatile sig_atomic_t child, stopped_by;

/* Keeps the signal in mind. The terminal sends it to the whole group, a process only to this one:
 * then it is passed on. */
static void stop(int number, siginfo_t *info, void *context)
{
    (void)context;
    stopped_by = number;
    if (child > 0 && info->si_code <= 0)
        kill(child, number);
}

void cli_rerun_begin(void)
{
    struct sigaction action = {.sa_sigaction = stop, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    stopped_by = 0;
    for (size_t i = 0; i < ENDS; i++)
        sigaction(ends[i], &action, &before[i]);
}

void cli_rerun_end(void)
{
    for (size_t i = 0; i < ENDS; i++)
        sigaction(ends[i], &before[i], NULL);
}

/* In the child: the streams, the folder, the environment (`variables` NULL: as it is) and the
 * signals of the program to start. */
static void become(const json_t *variables, const char *folder, const char *log)
{
    const char *name;
    json_t *value;
    int null = open("/dev/null", O_RDONLY), file = store_path_open(log, O_WRONLY | O_CREAT);
    if (file < 0 || ftruncate(file, 0))
        dprintf(STDERR_FILENO, "tacho: %s: %s\n", log, strerror(errno));
    if (null < 0 || file < 0 || dup2(null, 0) < 0 || dup2(file, 1) < 0 || dup2(file, 2) < 0)
        _exit(125);
    if (folder && chdir(folder)) {
        dprintf(STDERR_FILENO, "tacho: %s: %s\n", folder, strerror(errno));
        _exit(125);
    }
    cli_rerun_end();
    for (char **at = environ;
         variables && *at;) { /* a variable that goes moves the later ones up */
        char known[SETTING_BYTES];
        if (!setting_name(*at, known) || unsetenv(known))
            at++;
    }
    json_object_foreach((json_t *)variables, name, value) setenv(name, json_string_value(value), 1);
}

#define TURNS 10 /* of waiting, between two looks at a program that is watched */

/* Waits for the program; with a watch it looks at it meanwhile. */
static int wait_for(pid_t pid, struct cli_rerun_watch *watch)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    int status = -1;
    for (int turn = 1;; turn++) {
        bool looks = watch && !watch->ended;
        pid_t gone = waitpid(pid, &status, looks ? WNOHANG : 0);
        if (gone == pid || (gone < 0 && errno != EINTR))
            return status;
        if (!looks || gone < 0)
            continue;
        watch->ended = turn % TURNS == 0 && watch->enough(watch->ctx);
        if (watch->ended)
            kill(pid, SIGTERM);
        else
            nanosleep(&pause, NULL);
    }
}

/* Starts the program with the words and waits for it. The status of waitpid; -1: no process. */
static int run_words(char **words, const json_t *variables, const char *folder, const char *log,
                     struct cli_rerun_watch *watch)
{
    sigset_t all, old;
    int status = -1;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old); /* no signal between the start and knowing whom to tell */
    pid_t pid = stopped_by ? -1 : fork();
    if (!pid) {
        become(variables, folder, log);
        sigprocmask(SIG_SETMASK, &old, NULL);
        execvp(words[0], words);
        dprintf(STDERR_FILENO, "tacho: %s: %s\n", words[0], strerror(errno));
        _exit(errno == ENOENT ? 127 : 126);
    }
    child = pid > 0 ? pid : 0;
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (pid > 0)
        status = wait_for(pid, watch);
    child = 0;
    return status;
}

/* The exit code of a shell for a status of waitpid. */
static int exit_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int start_watched(char **words, const char *folder, const char *log,
                         struct cli_rerun_watch *watch, int *stopped)
{
    int status = run_words(words, NULL, folder, log, watch);
    *stopped = stopped_by;
    if (status == -1 && !stopped_by)
        return cli_error(TACHO_ENOMEM, NULL, "%s: no process could be started", words[0]);
    return exit_code(status);
}

int cli_rerun_start(char **words, const char *folder, const char *log, int *stopped)
{
    return start_watched(words, folder, log, NULL, stopped);
}

/* This program, for `tacho run`; "": it cannot be found. */
static void find_self(char self[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", self, PATH_MAX - 1);
    self[length > 0 ? length : 0] = 0;
}

int cli_rerun_measure(char *const *command, const char *folder, const char *file, const char *log,
                      struct cli_rerun_watch *watch, int *stopped, struct an_result **result)
{
    char self[PATH_MAX];
    char *const head[] = {self,         (char *)"run", (char *)"--no-peak",
                          (char *)"-o", (char *)file,  (char *)"--"};
    size_t fixed = sizeof head / sizeof *head, count = 0;
    while (command[count])
        count++;
    *result = NULL;
    char **words = calloc(fixed + count + 1, sizeof *words);
    if (!words)
        return cli_error(TACHO_ENOMEM, NULL, "%s: out of memory", file);
    find_self(self);
    memcpy(words, head, sizeof head);
    memcpy(words + fixed, command, count * sizeof *words);
    unlink(file);
    int code = start_watched(words, folder, log, watch, stopped);
    struct col_found found = {0};
    snprintf(found.path, sizeof found.path, "%s", file);
    snprintf(found.run, sizeof found.run, "%s", file);
    bool came_to_end = !code || (watch && watch->ended);
    if (came_to_end && !*stopped)
        cli_run_analyze(&found, &(struct an_options){0}, result);
    unlink(file);
    free(words);
    return code;
}

int cli_rerun_record(const struct cli_rerun *rerun, const json_t *change, const char *output,
                     const char *log, int *stopped)
{
    char self[PATH_MAX];
    find_self(self);
    json_t *words = all_words(rerun, change, self, output),
           *variables = an_change_variables(rerun->environment, change);
    size_t count = json_array_size(words);
    char **argv = calloc(count + 1, sizeof *argv);
    int status = -1;
    for (size_t i = 0; argv && i < count; i++)
        argv[i] = (char *)json_string_value(json_array_get(words, i));
    if (argv && count && variables)
        status = run_words(argv, variables, NULL, log, NULL);
    free(argv);
    json_decref(words);
    json_decref(variables);
    *stopped = stopped_by;
    if (status == -1 && !stopped_by)
        return cli_error(TACHO_ENOMEM, NULL, "%s: no process could be started", output);
    return exit_code(status);
}
