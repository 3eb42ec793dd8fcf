/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of rank 0 about several ranks: before the run how they share the work, at its end what
 * was sent.
 */
#include <stdio.h>
#include <string.h>

#include "workloads/parallel.h"

/* What rounds of local steps do. */
static void print_local(const struct options *options)
{
    if (strcmp(options->local_kind, "gossip") == 0)
        printf("weights averaged by pairs");
    else if (strcmp(options->local_kind, "server") == 0)
        printf("weights by a server at most %lld rounds late", (long long)options->max_delay);
    else
        printf("weights averaged");
    printf(" every %lld steps,", (long long)options->local_steps);
}

/* How gradients travel, as the middle of the line about the ranks. */
static void print_way(const struct options *options, const struct lt_division_config *division)
{
    static const char *const shared[] = {"", "the optimizer's state", "its state and gradients",
                                         "its state, gradients and parameters"};
    if (division->shard.stage)
        printf("%s sharded (ZeRO %d)", shared[division->shard.stage], division->shard.stage);
    else if (options->local_steps)
        print_local(options);
    else if (options->bucket_mib > 0)
        printf("reduced %g MiB at a time", options->bucket_mib);
    else
        printf("reduced all at once");
    if (strcmp(options->all_reduce, "library") != 0)
        printf(" (%s)", options->all_reduce);
}

/* Among how many ranks the model, its sequences or its experts are divided, as the end of that
 * line. */
static void print_layout(const struct options *options, const struct lt_layout *layout)
{
    printf(" over %d replica%s", layout->dp, tacho_plural(layout->dp));
    if (layout->pp * layout->tp > 1)
        printf(", %d stage%s (%s), layers divided among %d rank%s", layout->pp,
               tacho_plural(layout->pp), options->pipeline, layout->tp, tacho_plural(layout->tp));
    if (layout->cp > 1)
        printf(", sequences divided among %d ranks", layout->cp);
    if (layout->ep > 1)
        printf(", experts divided among %d ranks", layout->ep);
    printf("\n");
}

#define TURNS_SHOWN 16

/* When buckets are sent, and in which order where that is not the one of backward, as the end of
 * that line. */
static void print_turns(const struct lt_parallel *parallel, const struct lt_model *model,
                        enum lt_dtype dtype)
{
    struct lt_buckets buckets = {0};
    if (!lt_parallel_early(parallel) ||
        lt_parallel_cut(parallel, (size_t)model->parameters.trainable, lt_dtype_on_wire(dtype),
                        &buckets)) {
        printf(" during backward, by thread comm-0\n");
        lt_buckets_destroy(&buckets);
        return;
    }
    printf(" during backward and the next forward pass, by thread comm-0, in the order");
    for (size_t i = 0; i < buckets.buckets && i < TURNS_SHOWN; i++)
        printf(" %zu", buckets.turn[i].bucket);
    printf("%s\n", buckets.buckets > TURNS_SHOWN ? " ..." : "");
    lt_buckets_destroy(&buckets);
}

void parallel_print(const struct lt_parallel *parallel, const struct options *options,
                    const struct lt_division_config *division, const struct lt_model *model,
                    enum lt_dtype dtype)
{
    const struct lt_mpi_place *place = lt_parallel_place(parallel);
    int divided = lt_layout_divides(&division->layout),
        overlaps = lt_parallel_overlaps(parallel) && !divided;
    int threads = lt_threads() + overlaps;
    if (place->ranks == 1)
        return;
    double gradients = (double)model->parameters.trainable * (double)lt_dtype_bytes(dtype);
    if (strcmp(options->device, "cpu") != 0) { /* there gradients travel in fp32 */
        printf(
            "%d ranks (%s), %d on this machine; %.2f MiB of gradients per rank and step, reduced "
            "by NCCL during backward\n",
            place->ranks, place->library, place->local_ranks,
            (double)model->parameters.trainable * sizeof(float) / (1 << 20));
        return;
    }
    printf(
        "%d ranks (%s), %d on this machine of %d cores; %.2f MiB of gradients per rank and step, ",
        place->ranks, place->library, place->local_ranks, place->machine_cores,
        gradients / (1 << 20));
    print_way(options, division);
    if (divided)
        print_layout(options, &division->layout);
    else if (overlaps)
        print_turns(parallel, model, dtype);
    else if (options->no_overlap)
        printf(" after backward\n");
    else
        printf(" after backward: %s allows no calls of MPI from a second thread\n", place->library);
    if (place->cores < place->machine_cores && threads > place->cores)
        printf("rank 0 is bound to %d of the cores, for %d computing thread%s%s\nhint: mpirun "
               "--bind-to none\n",
               place->cores, lt_threads(), tacho_plural(lt_threads()),
               overlaps ? " and comm-0" : "");
    else if (threads * place->sharers > place->cores && overlaps)
        printf("comm-0 takes its time from the %d computing thread%s of its rank\n", lt_threads(),
               tacho_plural(lt_threads()));
    fflush(stdout);
}

/* The time of a step's passes beside what the schedule gives with the stages' own times. */
static void print_pipeline(const struct lt_mpi_place *place, const struct lt_sent_table *table)
{
    printf(
        "pipeline: passes of a step %.3f ms, bubble %.1f %%; by simulation with each step's mean "
        "passes %.3f ms, %.1f %%\n",
        1e3 * table->measured, 100 * table->measured_bubble, 1e3 * table->simulated,
        100 * table->simulated_bubble);
    if (place->local_ranks > place->machine_cores)
        printf(
            "pipeline: %d ranks share %d cores: only the simulation says what the schedule costs\n",
            place->local_ranks, place->machine_cores);
}

/* What was chosen by measurement, and beside it what each way was predicted to take. */
static void print_adapt(const struct lt_adapt *adapt)
{
    if (!adapt->done || !adapt->measured) {
        printf("adaptive: none: %s\n",
               adapt->done ? "the link could not be measured" : "the run ended before the choice");
        return;
    }
    printf("adaptive: %s%s after %llu steps, by a link of %.1f us a message and %.3g GB/s; ms a "
           "reduction:",
           lt_codec_name(adapt->choice[adapt->chosen].codec.kind),
           adapt->choice[adapt->chosen].codec.level ? "+zstd" : "",
           (unsigned long long)adapt->after, 1e6 * adapt->message_seconds,
           1e-9 / adapt->byte_seconds);
    for (int i = 0; i < adapt->choices; i++)
        printf("%s %s%s %.3f", i ? "," : "", lt_codec_name(adapt->choice[i].codec.kind),
               adapt->choice[i].codec.level ? "+zstd" : "", 1e3 * adapt->choice[i].predicted);
    printf("; measuring sent %llu bytes in %llu messages\n", (unsigned long long)adapt->sent_bytes,
           (unsigned long long)adapt->sent_messages);
}

void parallel_print_sent(const struct lt_parallel *parallel, const struct options *options,
                         const struct lt_sent_table *table)
{
    struct lt_group_sent sent = lt_parallel_sent(parallel);
    for (int i = 0; i < table->rows; i++) {
        const struct lt_sent_row *row = &table->row[i];
        printf("%s: rank 0 sent %llu bytes in %llu messages; %sby formula %llu in %llu\n",
               row->purpose, (unsigned long long)row->sent.bytes,
               (unsigned long long)row->sent.messages, row->bound ? "at most " : "",
               (unsigned long long)row->formula.bytes, (unsigned long long)row->formula.messages);
    }
    if (options->local_steps && strcmp(options->local_kind, "server") == 0)
        printf("server: weights were at most %lld of %lld rounds behind\n", (long long)table->delay,
               (long long)options->max_delay);
    if (table->adapt.choices)
        print_adapt(&table->adapt);
    if (table->packed.before)
        printf("zstd: rank 0 packed %llu bytes into %llu (%.4f) in %.3f s of processor time, "
               "unpacking included\n",
               (unsigned long long)table->packed.before, (unsigned long long)table->packed.after,
               (double)table->packed.after / (double)table->packed.before, table->packed.seconds);
    if (table->attention_most > 0)
        printf("attention: %.6g GFLOP a rank; rank %d has the most, %.6g (%.4f times the mean)\n",
               1e-9 * table->attention_mean, table->attention_rank, 1e-9 * table->attention_most,
               table->attention_most / table->attention_mean);
    if (table->measured > 0)
        print_pipeline(lt_parallel_place(parallel), table);
    if (strcmp(options->compress, "none") != 0 && table->gradients_as_floats)
        printf("%s: gradients took %.4f of the %llu bytes that floats take\n", options->compress,
               (double)table->row[0].sent.bytes / (double)table->gradients_as_floats,
               (unsigned long long)table->gradients_as_floats);
    if (table->gradients_as_floats && table->row[0].sent.bytes >= table->gradients_as_floats)
        if (strcmp(options->compress, "none") != 0 && !table->adapt.choices)
            printf("%s: it does not pay: floats take fewer bytes\n", options->compress);
    if (table->rows == 0 && sent.messages)
        printf("gradients: rank 0 sent %llu bytes in %llu messages (%s)\n",
               (unsigned long long)sent.bytes, (unsigned long long)sent.messages,
               options->all_reduce);
}
