/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plan is made of: the model that is trained, the machines, the layout over them. Part of
 * the public header of planner/ (plan.h includes it).
 */
#ifndef PLANNER_TYPES_H
#define PLANNER_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzers/hardware/accelerators.h"
#include "planner/base/constants.h"
#include "tacho_error.h"

#define PLAN_NAME 96

/* A decoder-only transformer. */
struct plan_model {
    char name[PLAN_NAME];
    int64_t layers, width, heads, kv_heads, head_dim;
    int64_t feed_forward; /* inner width; of one expert where there are experts */
    int64_t vocabulary;
    int64_t experts, experts_active; /* 0: dense */
    int64_t shared_forward;          /* inner width of the experts that every token visits */
    int64_t dense_layers;            /* leading layers without experts */
    int64_t dense_forward;           /* their inner width */
    int64_t latent;                  /* rank of compressed keys and values (MLA); 0: none */
    int64_t query_rank;              /* rank of compressed queries (MLA) */
    int64_t value_dim;               /* of a head; 0: head_dim */
    int64_t positions;               /* rows of a learned table of positions; 0: none */
    bool gated;                      /* three matrices in the feed-forward part instead of two */
    bool tied;                       /* input and output embedding share their weights */
};

/* How activations are recomputed. */
#define PLAN_RECOMPUTE_MAP(X) \
    X(NONE, "none", "everything is kept") \
    X(SELECTIVE, "selective", "attention is computed again") \
    X(BLOCK, "block", "half of the layers are computed again") \
    X(FULL, "full", "each layer is computed again from its input")
enum plan_recompute {
#define PLAN_RECOMPUTE_ENUM(name, key, text) PLAN_RECOMPUTE_##name,
    PLAN_RECOMPUTE_MAP(PLAN_RECOMPUTE_ENUM)
#undef PLAN_RECOMPUTE_ENUM
        PLAN_RECOMPUTES
};

/* The order of micro-batches in a pipeline. */
#define PLAN_SCHEDULE_MAP(X) \
    X(1F1B, "1f1b", "one forward, one backward; interleaved with chunks > 1") \
    X(GPIPE, "gpipe", "all forward passes first") \
    X(ZERO, "zb-h1", "weight gradients fill the bubble (ZB-H1)")
enum plan_schedule {
#define PLAN_SCHEDULE_ENUM(name, key, text) PLAN_SCHEDULE_##name,
    PLAN_SCHEDULE_MAP(PLAN_SCHEDULE_ENUM)
#undef PLAN_SCHEDULE_ENUM
        PLAN_SCHEDULES
};

/* How the ranks of cp divide attention: keys and values go around a ring, or all-to-alls bring each
 * rank all tokens of its heads. USUAL: as the program does it that the plan is for, the reference
 * engine by heads, others by a ring. */
#define PLAN_CONTEXT_MAP(X) X(USUAL, "") X(RING, "ring") X(ULYSSES, "ulysses")
enum plan_context {
#define PLAN_CONTEXT_ENUM(name, key) PLAN_CONTEXT_##name,
    PLAN_CONTEXT_MAP(PLAN_CONTEXT_ENUM)
#undef PLAN_CONTEXT_ENUM
        PLAN_CONTEXTS
};

/* 0 where a member is not given: what is missing is chosen (plan_search). */
struct plan_layout {
    int64_t devices, data, tensor, pipeline, chunks, context, expert;
    int64_t micro_batch, global_batch, sequence;
    int zero; /* stage of ZeRO, 0..3; -1: not given */
    bool sequence_parallel;
    enum plan_recompute recompute;
    bool recompute_given;
    enum plan_schedule schedule;
    enum plan_context attention; /* of cp */
};

/* What the training program does well. The present state is all true; runs that were published
 * before 2022 have none of it (docs/planner.md). */
struct plan_software {
    bool flash;         /* attention is fused: scores never reach memory */
    bool overlap;       /* gradients travel while the backward pass computes */
    bool all_rails;     /* a collective uses the network cards of all devices of a node */
    bool engine;        /* the reference engine on a processor: its own memory, one address space */
    int gradient_bytes; /* per gradient: 2 as the weights, 4 in fp32, 6 with an fp32 sum beside */
};

struct plan_machine {
    struct an_accelerator device;
    int64_t node;               /* devices of one machine */
    double network_bytes_per_s; /* of one device's share of the network cards, one direction */
    double sharing;             /* devices that share a network card; 0: each has its own */
    const char *type;           /* "bf16": of the products */
    int64_t threads;            /* of a process on a processor; 0: a device of its own */
    struct plan_software software;
};

/* A number for each kind of work of a step: GEMMs, attention, element-wise work, the optimizer, and
 * the rest: communication, waiting, bubbles. */
struct plan_kinds {
    double products, attention, elements, update, rest;
};

/* Everything that a prediction starts from. */
struct plan_case {
    struct plan_model model;
    struct plan_layout layout;
    struct plan_machine machine;
    const struct plan_constants *constants;
    /* Times of each kind are multiplied by it, where a run has shown how; 0: as predicted. */
    struct plan_kinds speed;
};

/* A member of plan_case.speed as a factor. */
static inline double plan_speed(double factor)
{
    return factor > 0 ? factor : 1;
}

/* Names of the enumerations above, as options and reports have them. */
const char *plan_recompute_name(enum plan_recompute recompute);
const char *plan_schedule_name(enum plan_schedule schedule);
/* -1: no such name. */
int plan_recompute_of(const char *name);
int plan_schedule_of(const char *name);
const char *plan_context_name(enum plan_context context); /* "" of USUAL */
int plan_context_of(const char *name);

/* Ranks that divide the heads of attention because they divide sequences: cp, or 1 with a ring; and
 * parts of equal length into which a sequence is cut: the ring of the reference engine gives each
 * rank two of them, which have as much of attention together. */
int64_t plan_turners(const struct plan_case *of);
int64_t plan_sequence_parts(const struct plan_case *of);

/* Fills the machine from the table: the link's domain, a network card of the usual speed for its
 * family. TACHO_EUSAGE: no such device; the hint names the nearest ones. */
int plan_machine_of(const char *device, const char *type, struct plan_machine *out,
                    struct tacho_error *err);

/* A processor as the device of each of `ranks` processes of the reference engine: they share its
 * peak (FLOP/s), its memory (bytes; 0: not known) and its cores. */
void plan_machine_of_cpu(const char *type, double peak, double memory, int64_t cores, int64_t ranks,
                         struct plan_machine *out);

/* Is the layout one that can run: factors whose product is the number of devices, heads and layers
 * that divide, a batch that divides? TACHO_EUSAGE with the sentence that says what does not. */
int plan_layout_check(const struct plan_case *of, struct tacho_error *err);
/* How different two runs are, in doublings of their settings; what changes the efficiency of
 * kernels counts most. */
double plan_distance(const struct plan_case *one, const struct plan_case *other);
/* Micro-batches that each pipeline runs in one step. */
int64_t plan_micro_batches(const struct plan_layout *layout);

#endif
