/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of MPI that the engine makes, and their replacements for a build without MPI. A rank
 * that waits for the others first polls and then sleeps, because the library's own waiting takes a
 * whole core.
 */
#include "libtrain/train/parallel_mpi.h"

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Variables of Open MPI's mpirun, and of launchers that speak PMI: MPICH's, Slurm's. */
int lt_mpi_launched(void)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *text = getenv(sizes[i]);
        int ranks = text ? atoi(text) : 0;
        if (ranks > 0)
            return ranks;
    }
    return getenv("PMIX_RANK") ? -1 : 0;
}

static int cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

/* The place of a process that no launcher started. */
static void alone(struct lt_mpi_place *place)
{
    int mine = cores();
    *place = (struct lt_mpi_place){.ranks = 1,
                                   .local_ranks = 1,
                                   .cores = mine,
                                   .sharers = 1,
                                   .machine_cores = (int)sysconf(_SC_NPROCESSORS_ONLN),
                                   .serialized = 1};
}

#ifdef HAVE_MPI
#include <mpi.h>

#include "libtrain/speak/simulated.h"

/* Looks at whether the others have come, before this rank sleeps in between; then an eighth of what
 * it has waited so far. */
#define LOOKS       10
#define SHORTEST_NS 20000
#define LONGEST_NS  1000000
#define BUSY_LOOKS  20000 /* some 10 ms */

static struct {
    int open;
    MPI_Comm gradients, control, local;
    MPI_Win shared;
    void (*waits)(void *arg, int waiting);
    void *waits_arg;
    enum lt_call_fault fault;
    struct lt_order *order;
    uint64_t posts; /* messages that were begun to be sent */
    MPI_Op bf16_sum;
    int ranks;
} mpi;

static void add_bf16(void *in, void *inout, int *count, MPI_Datatype *type)
{
    const uint16_t *theirs = in;
    uint16_t *sums = inout;
    (void)type;
    for (int i = 0; i < *count; i++)
        sums[i] = lt_bf16_round(lt_bf16_float(theirs[i]) + lt_bf16_float(sums[i]));
}

/* Waits for the requests. The library's own waiting takes a whole core, which those may need that
 * are waited for. */
static void wait_for(MPI_Request *requests, int count)
{
    struct timespec pause = {.tv_nsec = SHORTEST_NS};
    int done = 0;
    for (int looks = 0; !done; looks++) {
        MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
        if (done || looks < LOOKS)
            continue;
        if (mpi.waits)
            mpi.waits(mpi.waits_arg, 1);
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < LONGEST_NS)
            pause.tv_nsec += pause.tv_nsec / 8;
    }
    if (mpi.waits)
        mpi.waits(mpi.waits_arg, 0);
}

/* Waits for a request that all ranks have begun. The others are at it as well, so this rank only
 * lets them have the core; after a while it waits as for any other, because one of them may have
 * died. */
static void wait_busily(MPI_Request *request)
{
    int done = 0;
    for (int looks = 0; !done && looks < BUSY_LOOKS; looks++) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (!done)
            sched_yield();
    }
    if (!done)
        wait_for(request, 1);
}

/* What is left of so many bytes, or of a call, where it is made wrong on purpose. */
static size_t kept(size_t bytes)
{
    return mpi.fault == LT_CALL_SHRINK ? bytes / 2 : bytes;
}

/* An operation that is made now; of a probe, what is answered. A departure from the order that is
 * enforced ends the job here: the other ranks wait for what this one would not do. */
static uint64_t note(struct lt_order_op op)
{
    char text[512];
    if (!mpi.order)
        return op.in;
    int rc = lt_order_note(mpi.order, &op, text, sizeof text);
    if (text[0])
        fprintf(stderr, "train: %s\n", text);
    if (rc) {
        fprintf(stderr, "hint: give the options of the run that was recorded, or leave "
                        "--replay-order out\n");
        fflush(stderr);
        lt_sleep(0.3); /* a launcher that ends the job forgets what it has not read yet */
        lt_mpi_abort(tacho_error_exit(rc));
    }
    return op.in;
}

void lt_mpi_order(struct lt_order *order)
{
    mpi.order = order;
}

int lt_mpi_answer(int seen)
{
    return (int)note(
        (struct lt_order_op){.kind = LT_ORDER_PROBE, .to = -1, .from = -1, .in = seen != 0});
}

/* Waits until all ranks are here. */
static void meet(MPI_Comm comm)
{
    MPI_Request request;
    MPI_Ibarrier(comm, &request);
    wait_for(&request, 1);
}

/* Which of the ranks on this machine may run where this one may. */
static void look_around(struct lt_mpi_place *place)
{
    MPI_Comm local;
    cpu_set_t mine, both;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
    MPI_Comm_rank(local, &place->local_rank);
    MPI_Comm_size(local, &place->local_ranks);
    CPU_ZERO(&mine);
    sched_getaffinity(0, sizeof mine, &mine);
    cpu_set_t *all = calloc((size_t)place->local_ranks, sizeof *all);
    if (!all)
        lt_mpi_abort(tacho_error_exit(TACHO_ENOMEM));
    MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, all, (int)sizeof mine, MPI_BYTE, local);
    place->sharers = 0;
    for (int i = 0; all && i < place->local_ranks; i++) {
        CPU_AND(&both, &mine, &all[i]);
        place->sharers += CPU_COUNT(&both) > 0;
    }
    place->sharers += place->sharers == 0; /* the mask is unknown */
    free(all);
    mpi.local = local;
}

int lt_mpi_share(size_t bytes, void **by_rank)
{
    int size = 0, unit;
    void *own = NULL;
    MPI_Aint there;
    MPI_Group near, all;
    MPI_Comm_size(mpi.local, &size);
    MPI_Comm_set_errhandler(mpi.local, MPI_ERRORS_RETURN);
    if (MPI_Win_allocate_shared((MPI_Aint)bytes, 1, MPI_INFO_NULL, mpi.local, &own, &mpi.shared))
        return TACHO_ENOTSUP;
    memset(own, 0, bytes);
    MPI_Comm_group(mpi.local, &near);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    for (int i = 0; i < size; i++) {
        int rank = 0;
        MPI_Group_translate_ranks(near, 1, &i, all, &rank);
        MPI_Win_shared_query(mpi.shared, i, &there, &unit, &by_rank[rank]);
    }
    MPI_Group_free(&near);
    MPI_Group_free(&all);
    MPI_Barrier(mpi.local);
    return 0;
}

void lt_mpi_watch(void (*waits)(void *arg, int waiting), void *arg)
{
    mpi.waits = waits;
    mpi.waits_arg = arg;
}

void lt_mpi_fault(enum lt_call_fault fault)
{
    mpi.fault = fault;
}

int lt_mpi_open(struct lt_mpi_place *place, struct tacho_error *err)
{
    int launched = lt_mpi_launched(), granted, length = 0;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    alone(place);
    if (!launched)
        return 0;
    setenv("OMPI_MCA_mpi_yield_when_idle", "1",
           0); /* what waits inside Open MPI lets others have the core */
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &granted);
    mpi.open = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &place->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &place->ranks);
    mpi.ranks = place->ranks;
    place->serialized = granted >= MPI_THREAD_SERIALIZED;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    snprintf(place->library, sizeof place->library, "%.*s", (int)sizeof place->library - 1,
             version);
    if (launched > 0 && launched != place->ranks)
        return tacho_fail(err, TACHO_ENOTSUP,
                          "start it with the mpirun of the MPI library that train was built with",
                          "the launcher started %d ranks, %s sees %d", launched, place->library,
                          place->ranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi.gradients);
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi.control);
    MPI_Op_create(add_bf16, 1, &mpi.bf16_sum);
    look_around(place);
    return 0;
}

void lt_mpi_close(void)
{
    if (!mpi.open)
        return;
    if (mpi.shared)
        MPI_Win_free(&mpi.shared);
    if (mpi.bf16_sum) {
        MPI_Comm_free(&mpi.local);
        MPI_Op_free(&mpi.bf16_sum);
        MPI_Comm_free(&mpi.control);
        MPI_Comm_free(&mpi.gradients);
    }
    mpi.open = 0;
    MPI_Finalize();
}

void lt_mpi_sum(enum lt_dtype dtype, const void *from, void *to, size_t count)
{
    const size_t most = (size_t)1 << 30; /* an MPI count is an int */
    size_t size = lt_dtype_bytes(dtype);
    MPI_Datatype type = sizeof(float) == sizeof(double) ? MPI_DOUBLE : MPI_FLOAT; /* double.h */
    MPI_Op sum = MPI_SUM;
    if (dtype == LT_DTYPE_BF16) {
        type = MPI_UINT16_T;
        sum = mpi.bf16_sum;
    }
    if (mpi.fault == LT_CALL_SKIP)
        return;
    count = kept(count);
    note((struct lt_order_op){
        .kind = LT_ORDER_SUM, .to = -1, .from = -1, .out = (uint64_t)(count * size)});
    meet(mpi.gradients);
    for (size_t first = 0; first < count; first += most) {
        const void *source = from == to ? MPI_IN_PLACE : (const char *)from + first * size;
        int part = (int)(count - first < most ? count - first : most);
        MPI_Request request;
        MPI_Iallreduce(source, (char *)to + first * size, part, type, sum, mpi.gradients, &request);
        wait_busily(&request);
    }
}

void lt_mpi_exchange(void *arg, int to, const void *out, size_t out_bytes, int from, void *in,
                     size_t in_bytes)
{
    const size_t most = (size_t)1 << 30; /* an MPI count is an int */
    int sends = to >= 0, receives = from >= 0;
    (void)arg;
    if (mpi.fault == LT_CALL_SKIP)
        return;
    out_bytes = kept(out_bytes);
    in_bytes = kept(in_bytes);
    note((struct lt_order_op){.kind = LT_ORDER_EXCHANGE,
                              .to = sends ? to : -1,
                              .out = sends ? out_bytes : 0,
                              .from = receives ? from : -1,
                              .in = receives ? in_bytes : 0});
    for (size_t first = 0; sends || receives; first += most) {
        MPI_Request requests[2];
        int count = 0;
        size_t left = out_bytes - first, room = in_bytes - first;
        if (receives)
            MPI_Irecv((char *)in + first, (int)(room < most ? room : most), MPI_BYTE, from, 0,
                      mpi.gradients, &requests[count++]);
        if (sends)
            MPI_Isend((const char *)out + first, (int)(left < most ? left : most), MPI_BYTE, to, 0,
                      mpi.gradients, &requests[count++]);
        wait_for(requests, count);
        sends = sends && left > most;
        receives = receives && room > most;
    }
}

/* A message under way, in parts that an int counts. */
struct posted {
    uint64_t number; /* among those that were sent */
    int count;
    MPI_Request request[];
};

/* Begins to send or receive all parts. */
static struct posted *begin(int sends, int peer, int tag, char *data, size_t bytes)
{
    const size_t most = (size_t)1 << 30;
    size_t parts = bytes ? (bytes + most - 1) / most : 1;
    struct posted *posted = malloc(sizeof *posted + parts * sizeof *posted->request);
    if (!posted) {
        fprintf(stderr, "train: out of memory for a message\n");
        MPI_Abort(MPI_COMM_WORLD, tacho_error_exit(TACHO_ENOMEM));
        abort(); /* it does not return, but is not declared so */
    }
    posted->count = (int)parts;
    for (size_t i = 0; i < parts; i++) {
        size_t left = bytes - i * most, size = left < most ? left : most;
        if (sends)
            MPI_Isend(data + i * most, (int)size, MPI_BYTE, peer, tag, mpi.gradients,
                      &posted->request[i]);
        else
            MPI_Irecv(data + i * most, (int)size, MPI_BYTE, peer, tag, mpi.gradients,
                      &posted->request[i]);
    }
    return posted;
}

/* A peer that waits already gets the message here; the library moves nothing between its calls. */
void *lt_mpi_post(void *arg, int to, int tag, const void *out, size_t bytes)
{
    int done = 0;
    (void)arg;
    if (mpi.fault == LT_CALL_SKIP)
        return NULL;
    note((struct lt_order_op){
        .kind = LT_ORDER_SEND, .to = to, .tag = tag, .from = -1, .out = kept(bytes)});
    struct posted *posted = begin(1, to, tag, (char *)(uintptr_t)out, kept(bytes));
    posted->number = ++mpi.posts;
    for (int looks = 0; !done && looks < LOOKS; looks++)
        MPI_Testall(posted->count, posted->request, &done, MPI_STATUSES_IGNORE);
    return posted;
}

static void complete(struct posted *message)
{
    wait_for(message->request, message->count);
    free(message);
}

void lt_mpi_settle(void *arg, void *posted)
{
    struct posted *message = posted;
    (void)arg;
    if (!message)
        return;
    uint64_t later = mpi.posts - message->number;
    complete(message);
    note((struct lt_order_op){.kind = LT_ORDER_SENT, .to = -1, .from = -1, .out = later});
}

void lt_mpi_take(void *arg, int from, int tag, void *in, size_t bytes)
{
    (void)arg;
    if (mpi.fault == LT_CALL_SKIP)
        return;
    note((struct lt_order_op){
        .kind = LT_ORDER_RECEIVE, .to = -1, .tag = tag, .from = from, .in = kept(bytes)});
    complete(begin(0, from, tag, in, kept(bytes)));
}

int lt_mpi_arrived(void *arg, int from, int tag)
{
    int there = 0;
    (void)arg;
    MPI_Iprobe(from, tag, mpi.gradients, &there, MPI_STATUS_IGNORE);
    return (int)note((struct lt_order_op){
        .kind = LT_ORDER_PROBE, .to = -1, .tag = tag, .from = from, .in = there != 0});
}

void lt_mpi_gather(const void *mine, void *all, size_t bytes)
{
    if (mpi.fault == LT_CALL_SKIP)
        return;
    MPI_Request request;
    note((struct lt_order_op){.kind = LT_ORDER_GATHER, .to = -1, .from = -1, .out = bytes});
    MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, mpi.control, &request);
    wait_for(&request, 1); /* another rank may die at any moment of it */
}

void lt_mpi_abort(int exit_code)
{
    MPI_Abort(MPI_COMM_WORLD, exit_code);
}

#else

int lt_mpi_open(struct lt_mpi_place *place, struct tacho_error *err)
{
    int launched = lt_mpi_launched();
    alone(place);
    if (launched > 1)
        return tacho_fail(
            err, TACHO_ENOTSUP,
            "install libopenmpi-dev and openmpi-bin, remove config.mk from the build folder, make",
            "started as one of %d ranks, but this train was built without MPI", launched);
    return 0;
}

void lt_mpi_close(void)
{
}

int lt_mpi_share(size_t bytes, void **by_rank)
{
    (void)bytes, (void)by_rank;
    return TACHO_ENOTSUP;
}

void lt_mpi_watch(void (*waits)(void *arg, int waiting), void *arg)
{
    (void)waits, (void)arg;
}

void lt_mpi_order(struct lt_order *order)
{
    (void)order;
}

int lt_mpi_answer(int seen)
{
    return seen;
}

void lt_mpi_fault(enum lt_call_fault fault)
{
    (void)fault;
}

void lt_mpi_sum(enum lt_dtype dtype, const void *from, void *to, size_t count)
{
    if (from != to)
        memcpy(to, from, count * lt_dtype_bytes(dtype));
}

void lt_mpi_exchange(void *arg, int to, const void *out, size_t out_bytes, int from, void *in,
                     size_t in_bytes)
{
    (void)arg, (void)to, (void)out, (void)out_bytes, (void)from, (void)in, (void)in_bytes;
}

void *lt_mpi_post(void *arg, int to, int tag, const void *out, size_t bytes)
{
    (void)arg, (void)to, (void)tag, (void)out, (void)bytes;
    return NULL;
}

void lt_mpi_settle(void *arg, void *posted)
{
    (void)arg, (void)posted;
}

void lt_mpi_take(void *arg, int from, int tag, void *in, size_t bytes)
{
    (void)arg, (void)from, (void)tag, (void)in, (void)bytes;
}

int lt_mpi_arrived(void *arg, int from, int tag)
{
    (void)arg, (void)from, (void)tag;
    return 0;
}

void lt_mpi_gather(const void *mine, void *all, size_t bytes)
{
    memcpy(all, mine, bytes);
}

void lt_mpi_abort(int exit_code)
{
    exit(exit_code);
}
#endif
