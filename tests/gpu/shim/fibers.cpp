/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of a block as fibers of one thread of the machine. A fiber runs until it waits: at a
 * barrier for its block, at an exchange for its warp. Which one runs next is drawn at random, or,
 * in every second block, is the one that became ready last, so that a warp runs far ahead of the
 * others: a missing barrier changes results. Shared memory is a heap block of exactly the launched
 * size, filled with 0xff (a NaN) before each block: a read of what nobody wrote shows, and so does,
 * under the address sanitizer, one beyond its end.
 *
 * What the hardware may hang on ends the program with words: a barrier that some threads of the
 * block do not reach, an exchange that some lanes of the warp do not reach.
 */
#include <cuda_runtime.h>

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

dim3 threadIdx, blockIdx, blockDim, gridDim;

static const size_t stack_bytes = 256 << 10;
static const int lane_bytes = 64;

enum state { UNSTARTED, READY, AT_BARRIER, AT_EXCHANGE, ENDED };

/* A stack, and where it goes on. It takes up thread after thread of the block. */
struct fiber {
    void *stack;
    ucontext_t start;
    jmp_buf at;
    bool begun;
    void *fake; /* of the address sanitizer */
};

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

struct thread {
    state now;
    fiber *on;
    std::vector<std::vector<copy>> batches; /* of copies that are begun; the last one is open */
};

struct warp {
    int arrived;
    unsigned rounds;
    alignas(16) char given[2][32 * lane_bytes];
};

/* The block that runs. */
static std::vector<thread> threads;
static std::vector<warp> warps;
static std::vector<int> ready, unstarted;
static std::vector<fiber *> &idle = *new std::vector<fiber *>; /* to the end of the process */
static int current, at_barrier, ended;
static bool ahead; /* what became ready last goes on */
static const std::function<void()> *body;
static const char *kernel;
static char *shared;
static uint64_t draws = 88172645463325252u;

static ucontext_t scheduler;
static jmp_buf scheduler_at;
#ifdef __SANITIZE_ADDRESS__
static void *scheduler_fake;
static const void *scheduler_stack;
static size_t scheduler_size;
#endif

static unsigned draw(size_t below)
{
    draws ^= draws << 13;
    draws ^= draws >> 7;
    draws ^= draws << 17;
    return (unsigned)((draws >> 33) % below);
}

static int take(std::vector<int> &from)
{
    size_t i = ahead ? from.size() - 1 : draw(from.size());
    int taken = from[i];
    from[i] = from.back();
    from.pop_back();
    return taken;
}

static void fail(const char *what)
{
    fprintf(stderr, "%s, block %u %u, thread %u %u: %s\n", kernel, blockIdx.x, blockIdx.y,
            threadIdx.x, threadIdx.y, what);
    abort();
}

static void enter(int index)
{
    current = index;
    threadIdx = dim3((unsigned)index % blockDim.x, (unsigned)index / blockDim.x % blockDim.y,
                     (unsigned)index / blockDim.x / blockDim.y);
}

/* ---- changing stacks ---- */

static void fiber_main(void)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_size);
#endif
    fiber *self = threads[(size_t)current].on;
    for (;;) {
        (*body)();
        threads[(size_t)current].now = ENDED;
        ended++;
        if (!unstarted.empty()) { /* as good as any other to go on with */
            enter(take(unstarted));
            threads[(size_t)current].now = READY;
            threads[(size_t)current].on = self;
            continue;
        }
        idle.push_back(self);
#ifdef __SANITIZE_ADDRESS__
        __sanitizer_start_switch_fiber(&self->fake, scheduler_stack, scheduler_size);
        swapcontext(&self->start, &scheduler);
        __sanitizer_finish_switch_fiber(self->fake, nullptr, nullptr);
#else
        if (!_setjmp(self->at))
            _longjmp(scheduler_at, 1);
#endif
    }
}

/* From the scheduler to the fiber of thread `current`, and back when it waits or has no more. */
static void resume(fiber *next)
{
    bool first = !next->begun;
    next->begun = true;
#ifdef __SANITIZE_ADDRESS__
    (void)first;
    __sanitizer_start_switch_fiber(&scheduler_fake, next->stack, stack_bytes);
    swapcontext(&scheduler, &next->start);
    __sanitizer_finish_switch_fiber(scheduler_fake, nullptr, nullptr);
#else
    if (_setjmp(scheduler_at))
        return;
    if (first)
        swapcontext(&scheduler, &next->start);
    else
        _longjmp(next->at, 1);
#endif
}

/* From the current thread to the scheduler, until it is resumed. */
static void wait_here(state why)
{
    int index = current;
    fiber *self = threads[(size_t)index].on;
    threads[(size_t)index].now = why;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&self->fake, scheduler_stack, scheduler_size);
    swapcontext(&self->start, &scheduler);
    __sanitizer_finish_switch_fiber(self->fake, &scheduler_stack, &scheduler_size);
#else
    if (!_setjmp(self->at))
        _longjmp(scheduler_at, 1);
#endif
    enter(index);
}

static fiber *fiber_for_thread(void)
{
    if (!idle.empty()) {
        fiber *old = idle.back();
        idle.pop_back();
        return old;
    }
    fiber *made = new fiber();
    made->stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made->stack == MAP_FAILED)
        fail("no memory for a fiber");
    getcontext(&made->start);
    made->start.uc_stack.ss_sp = made->stack;
    made->start.uc_stack.ss_size = stack_bytes;
    made->start.uc_link = nullptr;
    makecontext(&made->start, fiber_main, 0);
    return made;
}

/* ---- waiting for each other ---- */

static void release(int index)
{
    threads[(size_t)index].now = READY;
    ready.push_back(index);
}

void shim_barrier(void)
{
    if (ended)
        fail("waits at a barrier that a thread which has ended does not reach");
    if (++at_barrier < (int)threads.size()) {
        wait_here(AT_BARRIER);
        return;
    }
    at_barrier = 0;
    for (int i = 0; i < (int)threads.size(); i++)
        if (i != current)
            release(i);
    ready.push_back(current); /* the last one has no advantage */
    wait_here(READY);
}

const void *shim_gather(const void *mine, size_t bytes)
{
    warp &own = warps[(size_t)current / 32];
    char *given = own.given[own.rounds % 2];
    if (bytes > lane_bytes)
        fail("an exchange of more than there is room for");
    memcpy(given + (size_t)(current % 32) * bytes, mine, bytes);
    if (++own.arrived < 32) {
        wait_here(AT_EXCHANGE);
        return given;
    }
    own.arrived = 0;
    own.rounds++;
    for (int i = current / 32 * 32, end = i + 32; i < end; i++)
        if (i != current)
            release(i);
    return given;
}

void shim_copy_later(void *to, const void *from, size_t bytes)
{
    auto &batches = threads[(size_t)current].batches;
    if (batches.empty())
        batches.emplace_back();
    batches.back().push_back({to, from, bytes});
}

void shim_copies_closed(void)
{
    threads[(size_t)current].batches.emplace_back();
}

void shim_copies_done(int left)
{
    auto &batches = threads[(size_t)current].batches;
    while ((int)batches.size() - 1 > left) {
        for (const copy &one : batches.front())
            if (one.from)
                memcpy(one.to, one.from, one.bytes);
            else
                memset(one.to, 0, one.bytes);
        batches.erase(batches.begin());
    }
}

void *shim_shared(void)
{
    return shared;
}

/* ---- a kernel ---- */

static void explain_hang(void)
{
    for (int i = 0; i < (int)threads.size(); i++)
        if (threads[(size_t)i].now != ENDED) {
            enter(i);
            fail(threads[(size_t)i].now == AT_BARRIER
                     ? "waits at a barrier that other threads do not reach"
                     : "waits for an exchange that other lanes do not reach");
        }
}

static void run_block(size_t bytes)
{
    size_t count = threads.size();
    shared = (char *)malloc(bytes ? bytes : 1);
    memset(shared, 0xff, bytes);
    ended = at_barrier = 0;
    ahead = draw(2);
    unstarted.clear();
    for (size_t i = 0; i < count; i++) {
        threads[i] = {UNSTARTED, nullptr, {}};
        unstarted.push_back((int)i);
    }
    for (warp &own : warps)
        own.arrived = 0;
    while (ended < (int)count) {
        size_t waiting = ready.size();
        if (!waiting && unstarted.empty())
            explain_hang();
        if (unstarted.empty() || (waiting && draw(waiting + unstarted.size()) < waiting)) {
            enter(take(ready));
        } else {
            enter(take(unstarted));
            threads[(size_t)current].on = fiber_for_thread();
        }
        threads[(size_t)current].now = READY;
        resume(threads[(size_t)current].on);
    }
    free(shared);
    shared = nullptr;
}

void shim_run(const char *name, dim3 grid, dim3 block, size_t bytes,
              const std::function<void()> &thread)
{
    kernel = name;
    body = &thread;
    gridDim = grid;
    blockDim = block;
    threads.resize((size_t)block.x * block.y * block.z);
    if (threads.size() % 32)
        fail("not whole warps: the kernels exchange with all lanes");
    warps.resize(threads.size() / 32);
    for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++)
                run_block(bytes);
}
