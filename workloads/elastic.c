/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor of a job whose ranks may die.
 */
#include "workloads/elastic.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libtrain/train/parallel_mpi.h"

#define LINE_CAP  4096
#define WORDS_CAP 32 /* of --launcher, and options that are added */

/* One job: what its lines have said. */
struct job {
    int ranks, replicas;
    int64_t micro;
    const char *resume; /* NULL: from the beginning */
    int dead;           /* a rank has died; -1: none */
    int64_t from;       /* steps made before it */
    int64_t reached;    /* and with it, as far as is known */
    double began, died; /* seconds: its first step was made, a rank died; 0: not so far */
};

/* A pipe of the job, and the line that is not complete yet. */
struct stream {
    int from, to;
    char line[LINE_CAP];
    size_t length;
};

/* What is the same for all jobs. */
struct elastic {
    const struct options *options;
    int argc;
    char **argv;
    const volatile sig_atomic_t *stop;
    char self[PATH_MAX];
    int inner; /* ranks of a replica */
    int64_t batches;
    int restarts, saved;      /* saved: a checkpoint of one of these jobs is there */
    int64_t lost, rank_steps; /* steps made again; times the ranks that had made them */
    double paused;            /* seconds, from deaths until steps went on */
};

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- layouts ----------------------------------------------------------------------------------- */

int elastic_replicas(int ranks, int inner, int64_t batches)
{
    int replicas = ranks / inner;
    while (replicas > 0 && batches % replicas)
        replicas--;
    return replicas;
}

/* Where the number of replicas stands in a layout; NULL: nowhere. */
static const char *replicas_in(const char *layout)
{
    const char *found = layout ? strstr(layout, "dp") : NULL;
    return found ? found + 2 : NULL;
}

const char *elastic_layout(const char *layout, int replicas, char *text, size_t size)
{
    const char *number = replicas_in(layout), *rest = number;
    if (!layout)
        return NULL;
    if (!number)
        snprintf(text, size, "dp%d.%s", replicas, layout);
    else {
        rest += strspn(number, "0123456789");
        snprintf(text, size, "%.*s%d%s", (int)(number - layout), layout, replicas, rest);
    }
    return text;
}

/* ---- what a job says --------------------------------------------------------------------------- */

/* The number after `words` in a line; -1: they are not there. */
static int64_t number_after(const char *line, const char *words)
{
    const char *found = strstr(line, words);
    char *end = NULL;
    long long number = found ? strtoll(found + strlen(words), &end, 10) : -1;
    return found && end != found + strlen(words) ? number : -1;
}

static int64_t larger(int64_t left, int64_t right)
{
    return left > right ? left : right;
}

/* Lines of train.c's, the watchdog's and mpirun's own. */
static void read_line(struct elastic *elastic, struct job *job, const char *line)
{
    int64_t step = -1, rank = -1;
    if (strncmp(line, "step ", 5) == 0) {
        step = number_after(line, "step ") + 1;
        job->began = job->began > 0 ? job->began : seconds();
    } else if (strncmp(line, "checkpoint after step ", 22) == 0)
        elastic->saved = 1;
    else if (strncmp(line, "resumed: ", 9) == 0)
        job->from = step = number_after(line, "resumed: ");
    else if (strstr(line, ") has died: "))
        rank = number_after(line, "train: rank ");
    else if (strstr(line, "mpirun noticed that process rank "))
        rank = number_after(line, "process rank ");
    if (rank >= 0 && strstr(line, "in step "))
        step = number_after(line, "in step ");
    job->reached = larger(job->reached, step);
    if (rank >= 0 && job->dead < 0) {
        job->dead = (int)rank;
        job->died = seconds();
    }
}

/* What there is, passed on; whole lines are read. 0 at the stream's end. */
static int take(struct elastic *elastic, struct stream *stream, struct job *job)
{
    char data[LINE_CAP];
    ssize_t got = read(stream->from, data, sizeof data);
    if (got < 0 && errno == EINTR)
        return 1;
    if (got <= 0)
        return 0;
    for (ssize_t at = 0; at < got;) {
        ssize_t written = write(stream->to, data + at, (size_t)(got - at));
        if (written < 0 && errno != EINTR)
            break; /* who reads it has gone; the job goes on */
        at += written > 0 ? written : 0;
    }
    for (ssize_t i = 0; i < got; i++) {
        if (data[i] != '\n') {
            if (stream->length + 1 < sizeof stream->line)
                stream->line[stream->length++] = data[i];
            continue;
        }
        stream->line[stream->length] = '\0';
        stream->length = 0;
        read_line(elastic, job, stream->line);
    }
    return 1;
}

/* ---- a job --------------------------------------------------------------------------------------- */

/* The launcher's words, -np, this program, its own options, and those that replace some of them. */
static char **command_of(const struct elastic *elastic, const struct job *job, char *launcher,
                         char numbers[4][PATH_MAX])
{
    char **command = calloc((size_t)elastic->argc + WORDS_CAP, sizeof *command);
    char *rest = NULL;
    int count = 0;
    if (!command)
        return NULL;
    for (char *word = strtok_r(launcher, " ", &rest); word && count < WORDS_CAP / 2;
         word = strtok_r(NULL, " ", &rest))
        command[count++] = word;
    snprintf(numbers[0], PATH_MAX, "%d", job->ranks);
    snprintf(numbers[1], PATH_MAX, "%lld", (long long)job->micro);
    command[count++] = "-np";
    command[count++] = numbers[0];
    command[count++] = (char *)(uintptr_t)elastic->self;
    for (int i = 1; i < elastic->argc; i++)
        command[count++] = elastic->argv[i];
    command[count++] = "--elastic";
    command[count++] = "0";
    command[count++] = "--accumulate";
    command[count++] = numbers[1];
    if (elastic_layout(elastic->options->layout, job->replicas, numbers[2], PATH_MAX)) {
        command[count++] = "--layout";
        command[count++] = numbers[2];
    }
    if (job->resume) {
        command[count++] = "--resume";
        command[count++] = (char *)(uintptr_t)job->resume;
    }
    return command;
}

/* Starts the command with its outputs in two pipes. Its process, or -1 with errno. */
static pid_t start(char **command, int out[2], int err[2])
{
    int started[2] = {-1, -1}, code = 0;
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) || pipe2(started, O_CLOEXEC))
        return -1;
    pid_t child = fork();
    if (child == 0) {
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        execvp(command[0], command);
        code = errno;
        if (write(started[1], &code, sizeof code) < 0)
            _exit(127);
        _exit(127);
    }
    close(out[1]);
    close(err[1]);
    close(started[1]);
    if (child > 0 && read(started[0], &code, sizeof code) == sizeof code) {
        waitpid(child, NULL, 0);
        errno = code;
        child = -1;
    }
    close(started[0]);
    return child;
}

/* Passes on what the job prints, and the signal that stops this program, until the job's end. */
static int follow(struct elastic *elastic, struct job *job, pid_t child, int out, int err)
{
    struct stream streams[2] = {{.from = out, .to = STDOUT_FILENO},
                                {.from = err, .to = STDERR_FILENO}};
    int open = 2, told = 0, status = 0;
    while (open) {
        struct pollfd polls[2] = {{.fd = streams[0].from, .events = POLLIN},
                                  {.fd = streams[1].from, .events = POLLIN}};
        if (*elastic->stop && !told) {
            kill(child, *elastic->stop);
            told = 1;
        }
        poll(polls, 2, 200);
        for (int i = 0; i < 2; i++)
            if (polls[i].revents && !take(elastic, &streams[i], job)) {
                close(streams[i].from);
                streams[i].from = -1; /* poll leaves it out */
                open--;
            }
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

/* One job from its start to its end. *status: as waitpid has it. */
static int run_job(struct elastic *elastic, struct job *job, int *status, struct tacho_error *err)
{
    static char numbers[4][PATH_MAX];
    int out[2], wrong[2];
    char *launcher = strdup(elastic->options->launcher);
    char **command = launcher ? command_of(elastic, job, launcher, numbers) : NULL;
    int rc = 0;
    if (!command) {
        free(launcher);
        return tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    }
    pid_t child = start(command, out, wrong);
    if (child < 0)
        rc = tacho_fail(err, TACHO_ENOTFOUND, "install openmpi-bin, or give --launcher",
                        "--elastic: %s: %s", command[0], strerror(errno));
    else
        *status = follow(elastic, job, child, out[0], wrong[0]);
    free(command);
    free(launcher);
    return rc;
}

/* ---- the supervisor ------------------------------------------------------------------------------ */

/* What was lost between a job and the one that went on from it, once that has said from where. */
static void count_lost(struct elastic *elastic, const struct job *before, const struct job *after)
{
    int64_t lost = larger(before->reached - after->from, 0);
    elastic->lost += lost;
    elastic->rank_steps += lost * before->ranks;
    if (after->began > 0 && before->died > 0)
        elastic->paused += after->began - before->died;
}

/* What the next job is, after a rank of the last one has died. False: there is none. */
static int next_job(struct elastic *elastic, const struct job *before, struct job *job)
{
    int left = before->ranks - 1,
        replicas = elastic_replicas(left, elastic->inner, elastic->batches);
    if (!replicas) {
        fprintf(stderr, "train: --elastic: %d rank%s left: too few for a replica of %d\n", left,
                tacho_plural(left), elastic->inner);
        return 0;
    }
    *job = (struct job){.ranks = replicas * elastic->inner,
                        .replicas = replicas,
                        .micro = elastic->batches / replicas,
                        .resume = elastic->options->resume,
                        .dead = -1};
    if (elastic->saved)
        job->resume = elastic->options->checkpoint;
    elastic->restarts++;
    printf("elastic: rank %d of %d died after %lld steps; going on with %d rank%s, %lld "
           "micro-batch%s each\n",
           before->dead, before->ranks, (long long)before->reached, job->ranks,
           tacho_plural(job->ranks), (long long)job->micro, job->micro == 1 ? "" : "es");
    fflush(stdout);
    return 1;
}

/* How the options describe the first job. */
static int first_job(struct elastic *elastic, struct job *job, struct tacho_error *err)
{
    const struct options *options = elastic->options;
    const char *number = replicas_in(options->layout);
    int ranks = (int)options->elastic, replicas = ranks;
    if (lt_mpi_launched())
        return tacho_fail(err, TACHO_EUSAGE, "start it without mpirun: it starts mpirun itself",
                          "--elastic: started by a launcher");
    if (!options->checkpoint || !options->checkpoint_every)
        return tacho_fail(err, TACHO_EUSAGE, "give --checkpoint FILE and --checkpoint-every N",
                          "--elastic: nothing to go on from when a rank dies");
    if (options->record_order || options->replay_order)
        return tacho_fail(err, TACHO_EUSAGE, "leave one of them out",
                          "--elastic: the order of communication is that of one job, not with "
                          "--record-order or --replay-order");
    if (options->layout)
        replicas = number ? atoi(number) : 1;
    if (replicas < 1 || ranks % replicas)
        return tacho_fail(err, TACHO_EUSAGE, "the factors multiply to the ranks of --elastic",
                          "--layout %s: not of %d ranks", options->layout, ranks);
    elastic->inner = ranks / replicas;
    elastic->batches = options->accumulate * replicas;
    *job = (struct job){.ranks = ranks,
                        .replicas = replicas,
                        .micro = options->accumulate,
                        .resume = options->resume,
                        .dead = -1};
    return 0;
}

/* The exit status of a job as this program's. */
static int exit_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Jobs, one after the other, until one ends for another reason than a rank's death. */
static int run_jobs(struct elastic *elastic, struct job *job, int *status, struct tacho_error *err)
{
    struct job before = *job;
    int rc = run_job(elastic, job, status, err);
    while (rc == 0 && job->dead >= 0 && exit_of(*status) && !*elastic->stop) {
        if (elastic->restarts)
            count_lost(elastic, &before, job);
        before = *job;
        if (!next_job(elastic, &before, job))
            return 0;
        rc = run_job(elastic, job, status, err);
    }
    if (elastic->restarts)
        count_lost(elastic, &before, job);
    return rc;
}

int elastic_run(const struct options *options, int argc, char **argv,
                const volatile sig_atomic_t *stop, int *status, struct tacho_error *err)
{
    struct elastic elastic = {.options = options, .argc = argc, .argv = argv, .stop = stop};
    struct job job = {.dead = -1};
    int end = 0, rc = first_job(&elastic, &job, err);
    ssize_t length = readlink("/proc/self/exe", elastic.self, sizeof elastic.self - 1);
    if (rc == 0 && length <= 0)
        rc = tacho_fail(err, TACHO_EINTERNAL, NULL, "--elastic: %s", strerror(errno));
    rc = rc ? rc : run_jobs(&elastic, &job, &end, err);
    if (elastic.restarts)
        printf("elastic: %d restart%s; %lld steps were made again (%lld of one rank), %.1f s until "
               "steps went on\n",
               elastic.restarts, tacho_plural(elastic.restarts), (long long)elastic.lost,
               (long long)elastic.rank_steps, elastic.paused);
    *status = exit_of(end);
    return rc;
}
