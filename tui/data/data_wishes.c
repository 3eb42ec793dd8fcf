/* SPDX-License-Identifier: Apache-2.0
 *
 * What the frame asks of the thread that follows a run: the newest model, another part, the list of
 * runs, another run.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tui/data/data_private.h"

int tui_data_fd(const struct tui_data *data)
{
    return data->event;
}

/* Reading the event first: a model that is published in between makes the descriptor readable
 * again. */
struct tui_model *tui_data_take(struct tui_data *data)
{
    uint64_t news;
    if (read(data->event, &news, sizeof news) < 0 && errno != EAGAIN)
        return NULL;
    pthread_mutex_lock(&data->lock);
    struct tui_model *model = data->ready;
    data->ready = NULL;
    pthread_mutex_unlock(&data->lock);
    return model;
}

/* A key that repeats must not pile up wishes without end. */
void tui_data_move(struct tui_data *data, int parts)
{
    pthread_mutex_lock(&data->lock);
    if (abs(data->move + parts) < 1000)
        data->move += parts;
    pthread_cond_signal(&data->wake);
    pthread_mutex_unlock(&data->lock);
}

void tui_data_list(struct tui_data *data)
{
    pthread_mutex_lock(&data->lock);
    data->list = true;
    pthread_cond_signal(&data->wake);
    pthread_mutex_unlock(&data->lock);
}

void tui_data_choose(struct tui_data *data, const char *run)
{
    char *copy = strdup(run);
    pthread_mutex_lock(&data->lock);
    free(data->choice);
    data->choice = copy;
    pthread_cond_signal(&data->wake);
    pthread_mutex_unlock(&data->lock);
}

void tui_data_refresh(struct tui_data *data)
{
    pthread_mutex_lock(&data->lock);
    data->again = true;
    pthread_cond_signal(&data->wake);
    pthread_mutex_unlock(&data->lock);
}
