/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by tests of what ranks send each other: threads are the ranks, and messages lie in queues
 * until they are received, in the order in which they were sent.
 */
#ifndef LT_RANKS_H
#define LT_RANKS_H

#include "lt_support.h"

#include <pthread.h>

#include "libtrain/collectives/group.h"

enum { MOST = 9 };

struct message {
    struct message *next;
    size_t bytes;
    int tag;
    char data[];
};

struct post {
    pthread_mutex_t lock;
    pthread_cond_t come;
    struct message *first[MOST][MOST];
    int sent[MOST][MOST]; /* messages so far */
};

/* A rank's place at the post; the argument of its group. */
struct seat {
    struct post *post;
    int rank;
};

static inline void open_post(struct post *post)
{
    *post = (struct post){0};
    pthread_mutex_init(&post->lock, NULL);
    pthread_cond_init(&post->come, NULL);
}

/* Every message must have been received. */
static inline void close_post(struct post *post)
{
    for (int i = 0; i < MOST; i++)
        for (int j = 0; j < MOST; j++)
            assert_null(post->first[i][j]);
    pthread_cond_destroy(&post->come);
    pthread_mutex_destroy(&post->lock);
}

static inline void send_message(const struct seat *seat, int to, int tag, const void *out,
                                size_t bytes)
{
    struct post *post = seat->post;
    struct message *message = malloc(sizeof *message + bytes), **end;
    *message = (struct message){.bytes = bytes, .tag = tag};
    if (bytes)
        memcpy(message->data, out, bytes);
    pthread_mutex_lock(&post->lock);
    for (end = &post->first[seat->rank][to]; *end; end = &(*end)->next)
        ;
    *end = message;
    post->sent[seat->rank][to]++;
    pthread_cond_broadcast(&post->come);
    pthread_mutex_unlock(&post->lock);
}

/* The first message of a rank with that tag; the lock is held. */
static inline struct message **find_message(const struct seat *seat, int from, int tag)
{
    struct message **at = &seat->post->first[from][seat->rank];
    while (*at && (*at)->tag != tag)
        at = &(*at)->next;
    return at;
}

static inline void take_message(void *arg, int from, int tag, void *in, size_t bytes)
{
    const struct seat *seat = arg;
    struct post *post = seat->post;
    pthread_mutex_lock(&post->lock);
    while (!*find_message(seat, from, tag))
        pthread_cond_wait(&post->come, &post->lock);
    struct message **at = find_message(seat, from, tag), *message = *at;
    *at = message->next;
    pthread_mutex_unlock(&post->lock);
    assert_int_equal(message->bytes, bytes);
    if (bytes)
        memcpy(in, message->data, bytes);
    free(message);
}

static inline int message_arrived(void *arg, int from, int tag)
{
    const struct seat *seat = arg;
    pthread_mutex_lock(&seat->post->lock);
    int there = *find_message(seat, from, tag) != NULL;
    pthread_mutex_unlock(&seat->post->lock);
    return there;
}

static inline void *post_message(void *arg, int to, int tag, const void *out, size_t bytes)
{
    send_message(arg, to, tag, out, bytes);
    return NULL;
}

static inline void settle_message(void *arg, void *posted)
{
    (void)arg, (void)posted;
}

static inline void exchange(void *arg, int to, const void *out, size_t out_bytes, int from,
                            void *in, size_t in_bytes)
{
    if (to >= 0)
        send_message(arg, to, 0, out, out_bytes);
    if (from >= 0)
        take_message(arg, from, 0, in, in_bytes);
}

static inline struct lt_group seated_group(struct seat *seat, struct post *post, int rank,
                                           int ranks)
{
    *seat = (struct seat){post, rank};
    return (struct lt_group){.rank = rank,
                             .ranks = ranks,
                             .exchange = exchange,
                             .post = post_message,
                             .settle = settle_message,
                             .take = take_message,
                             .arrived = message_arrived,
                             .arg = seat};
}

#endif
