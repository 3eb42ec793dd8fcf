# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts that count what ranks send: sourced after ranks_common.sh, not run. Makes count.so, which stands between the
# engine and the MPI library (MPI's profiling interface) and at the end writes "BYTES MESSAGES" of rank R to $COUNTS.R, and to whom,
# lines "TO BYTES MESSAGES", to $COUNTS.R.peers. With BYTE_NS the link
# is slow: each message takes so many nanoseconds a byte longer.
# shellcheck shell=bash disable=SC2154 # variables of ranks_common.sh
has_mpirun || { echo "needs Open MPI's mpirun"; exit 77; }
command -v mpicc > /dev/null || { echo "needs mpicc"; exit 77; }
[ -z "$SAN" ] || { echo "the library in between is not for sanitizers"; exit 77; }
export OMP_NUM_THREADS=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat > count.c << 'C'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned long long bytes, messages, to_peer[64][2];

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    int size;
    MPI_Type_size(type, &size);
    bytes += (unsigned long long)count * (unsigned)size;
    messages++;
    to_peer[to][0] += (unsigned long long)count * (unsigned)size;
    to_peer[to][1]++;
    if (getenv("BYTE_NS")) {
        long long ns = atoll(getenv("BYTE_NS")) * count * size;
        nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
    }
    return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Finalize(void)
{
    char path[4096];
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof path, "%s.%d", getenv("COUNTS"), rank);
    FILE *file = fopen(path, "w");
    fprintf(file, "%llu %llu\n", bytes, messages);
    fclose(file);
    snprintf(path, sizeof path, "%s.%d.peers", getenv("COUNTS"), rank);
    file = fopen(path, "w");
    for (int i = 0; i < 64; i++)
        if (to_peer[i][1])
            fprintf(file, "%d %llu %llu\n", i, to_peer[i][0], to_peer[i][1]);
    fclose(file);
    return PMPI_Finalize();
}
C
mpicc -shared -fPIC -o count.so count.c || { echo "needs a working mpicc"; exit 77; }

# counted RANKS ARGUMENTS: a run of "${train[@]}" with counts; output into out and err
counted() {
    local ranks=$1
    shift
    rm -f sent.*
    timeout 300 mpirun -np "$ranks" --oversubscribe -x LD_PRELOAD="$work/count.so" -x COUNTS="$work/sent" "${train[@]}" "$@" > out 2> err ||
        { grep -q 'without MPI' err && { echo "train was built without MPI"; exit 77; }; wrong "$ranks ranks, $*: $(cat err)"; }
}
