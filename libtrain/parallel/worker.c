/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that communicates: two counters under a lock, of jobs handed over and of jobs done.
 */
#include "libtrain/parallel/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/fail.h"
#include "libtrain/speak/trace.h"

struct lt_worker {
    void (*job)(void *arg, size_t number);
    void *arg;
    struct lt_trace *trace;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    size_t posted, done; /* under the lock, as is stop */
    int stop;
};

/* Does the jobs that are posted, in their order, outside of the lock. */
static void *work(void *arg)
{
    struct lt_worker *worker = arg;
    lt_trace_thread(worker->trace, "comm-0");
    pthread_mutex_lock(&worker->lock);
    while (!worker->stop) {
        if (worker->done == worker->posted) {
            pthread_cond_wait(&worker->work, &worker->lock);
            continue;
        }
        pthread_mutex_unlock(&worker->lock);
        worker->job(worker->arg, worker->done); /* no other thread writes `done` */
        pthread_mutex_lock(&worker->lock);
        worker->done++;
        pthread_cond_signal(&worker->idle);
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

int lt_worker_create(struct lt_worker **out, void (*job)(void *arg, size_t number), void *arg,
                     struct lt_trace *trace, struct tacho_error *err)
{
    struct lt_worker *worker = calloc(1, sizeof *worker);
    sigset_t all, before;
    if (!worker)
        return lt_no_memory(err);
    *worker = (struct lt_worker){.job = job, .arg = arg, .trace = trace};
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->work, NULL);
    pthread_cond_init(&worker->idle, NULL);
    sigfillset(&all); /* a signal for the program is the main thread's to handle */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&worker->thread, NULL, work, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        free(worker);
        return tacho_fail(err, TACHO_EINTERNAL, "use --no-overlap",
                          "cannot start the progress thread: %s", strerror(rc));
    }
    *out = worker;
    return 0;
}

void lt_worker_destroy(struct lt_worker *worker)
{
    if (!worker)
        return;
    pthread_mutex_lock(&worker->lock);
    worker->stop = 1;
    pthread_cond_signal(&worker->work);
    pthread_mutex_unlock(&worker->lock);
    pthread_join(worker->thread, NULL);
    pthread_cond_destroy(&worker->idle);
    pthread_cond_destroy(&worker->work);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}

void lt_worker_post(struct lt_worker *worker, size_t jobs)
{
    lt_trace_begin(worker->trace, LT_RANGE_COMM_POST, 0,
                   jobs - worker->posted); /* no other thread writes `posted` */
    pthread_mutex_lock(&worker->lock);
    worker->posted = jobs;
    pthread_cond_signal(&worker->work);
    pthread_mutex_unlock(&worker->lock);
    lt_trace_end(worker->trace);
}

void lt_worker_wait(struct lt_worker *worker, size_t jobs)
{
    pthread_mutex_lock(&worker->lock);
    while (worker->done < jobs)
        pthread_cond_wait(&worker->idle, &worker->lock);
    pthread_mutex_unlock(&worker->lock);
}

void lt_worker_drain(struct lt_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    while (worker->done < worker->posted)
        pthread_cond_wait(&worker->idle, &worker->lock);
    worker->posted = worker->done = 0;
    pthread_mutex_unlock(&worker->lock);
}
