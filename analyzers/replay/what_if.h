/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room analyzers/: edits of a run's dependency graph, as people type them
 * (docs/advise.md):
 *
 *     comm=0.5x,loader.workers=8,op:attention=80%,launch=graph,cores=8,link=2x,micro=4x
 */
#ifndef ANALYZERS_WHAT_IF_H
#define ANALYZERS_WHAT_IF_H

#include <stddef.h>
#include <stdint.h>

#include "tacho_error.h"

#define AN_EDITS_MOST 24
#define AN_EDIT_KEY   160

/* What an edit does with the work it names. */
enum an_edit_kind {
    AN_EDIT_SCALE,     /* KEY=0.5x, KEY=50%, KEY=0: takes so much of its time */
    AN_EDIT_WORKERS,   /* loader.workers=N */
    AN_EDIT_AHEAD,     /* loader.prefetch=N: batches made ahead */
    AN_EDIT_CORES,     /* cores=N: of each host */
    AN_EDIT_OTHERS,    /* others=0.5: cores that other programs want */
    AN_EDIT_THREADS,   /* threads=N: of each team */
    AN_EDIT_LINK,      /* link=2x: twice as fast */
    AN_EDIT_MICRO,     /* micro=4x: micro-batches four times as large */
    AN_EDIT_PRECISION, /* precision=bf16: of GEMMs and activations */
    AN_EDIT_GRAPH,     /* launch=graph: one launch a step */
    AN_EDIT_OVERLAP,   /* comm=overlap: on a thread or stream of its own */
    AN_EDIT_PEERS, /* rank:2=peers, rank:2:backward=peers: as fast as the others; ranks=even: all
                      alike */
};

struct an_edit {
    enum an_edit_kind kind;
    char key[AN_EDIT_KEY];       /* "comm", "op:attention" */
    char text[AN_EDIT_KEY + 32]; /* as it was typed */
    double factor;  /* SCALE: what is left of the time; LINK: of the speed; OTHERS: cores */
    int64_t number; /* WORKERS, AHEAD, CORES, THREADS, MICRO: at least 1 */
};

/* Reads a list of edits. Returns 0, or TACHO_EUSAGE with *err and, in *wrong (may be NULL), the key
 * nothing is called by, to find what may have been meant; "" where something else is wrong. Names
 * of ops, kernels and collectives are not looked at. */
int an_edits_parse(const char *text, struct an_edit edit[AN_EDITS_MOST], size_t *count,
                   char wrong[AN_EDIT_KEY], struct tacho_error *err);
/* The keys that are the same for all runs; ends with NULL. Static storage. */
const char *const *an_edit_keys(void);

#endif
