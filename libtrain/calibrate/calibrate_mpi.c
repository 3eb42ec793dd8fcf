/* SPDX-License-Identifier: Apache-2.0
 *
 * Time of one message between two ranks, as alpha + bytes / beta: ping-pong, half the round trip.
 * alpha is that of 8 bytes; beta is the largest message's bytes by what its time has more than
 * alpha.
 */
#include "libtrain/calibrate/calibrate.h"

#ifdef HAVE_MPI

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define LEAST 8
#define MOST  (8 << 20)

/* Seconds of one message of `bytes`, the mean of `rounds` round trips. */
static double ping_pong(char *buffer, int bytes, int rounds, int rank)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int i = 0; i < rounds; i++)
        if (rank == 0) {
            MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    return (MPI_Wtime() - begin) / (2.0 * rounds);
}

/* alpha from messages of 8 bytes, beta from large ones less the median of alpha. Both ranks run
 * it, rank 0 keeps the rows. */
static int measure(struct lt_calibration *calibration, const struct lt_calibrate_options *options,
                   int rank)
{
    int count = lt_calibrate_repeats(options).count;
    int small = options->quick ? 500 : 2000;
    int large = options->quick ? 4 : 10;
    double alpha[LT_CALIBRATE_REPEATS], beta[LT_CALIBRATE_REPEATS];
    char *buffer = calloc(1, MOST), name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (!buffer)
        return TACHO_ENOMEM;
    ping_pong(buffer, LEAST, small, rank); /* connections are made on the way */
    ping_pong(buffer, MOST, 2, rank);
    for (int i = 0; i < count; i++)
        alpha[i] = ping_pong(buffer, LEAST, small, rank);
    double least = lt_median(alpha, count);
    for (int i = 0; i < count; i++) {
        double whole = ping_pong(buffer, MOST, large, rank);
        beta[i] = whole > least ? whole - least : whole;
    }
    free(buffer);
    if (rank != 0)
        return 0;
    MPI_Get_library_version(name, &length);
    name[strcspn(name, ",\n")] = 0;
    int rc = lt_calibration_add(calibration, LT_CEILING_MPI_LATENCY, "", 0, alpha, count,
                                "alpha: half a round trip of %d bytes, 2 ranks of this machine, %s",
                                LEAST, name);
    return rc ? rc
              : lt_calibration_add(
                    calibration, LT_CEILING_MPI_BANDWIDTH, "", MOST, beta, count,
                    "beta: %d MiB by half its round trip less alpha, 2 ranks of this machine, %s",
                    MOST >> 20, name);
}

int lt_calibrate_mpi(struct lt_calibration *out, const struct lt_calibrate_options *options,
                     int *root)
{
    int rank = 0, ranks = 1, rc;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    *root = rank == 0;
    if (ranks == 2)
        rc = measure(out, options, rank);
    else {
        static const char fix[] = "start it with: mpirun -np 2 train calibrate --mpi";
        rc = lt_calibration_absent(out, LT_CEILING_MPI_LATENCY, "", fix, "%d rank%s, not 2", ranks,
                                   tacho_plural(ranks));
        if (rc == 0)
            rc = lt_calibration_absent(out, LT_CEILING_MPI_BANDWIDTH, "", fix, "%d rank%s, not 2",
                                       ranks, tacho_plural(ranks));
    }
    MPI_Finalize();
    return rc;
}

#else

int lt_calibrate_mpi(struct lt_calibration *out, const struct lt_calibrate_options *options,
                     int *root)
{
    static const char fix[] = "install libopenmpi-dev and openmpi-bin, then 'make' again",
                      why[] = "built without MPI";
    (void)options;
    *root = 1;
    int rc = lt_calibration_absent(out, LT_CEILING_MPI_LATENCY, "", fix, "%s", why);
    return rc ? rc : lt_calibration_absent(out, LT_CEILING_MPI_BANDWIDTH, "", fix, "%s", why);
}

#endif
