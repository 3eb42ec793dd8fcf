/* SPDX-License-Identifier: Apache-2.0
 *
 * The top of the agent: how it starts and ends with the process, what a fork does, and the three
 * symbols that the loaders in NVTX look for. Each of them puts the agent's callbacks into the
 * tables that it is given.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "profiler/agent/core/agent.h"
#include "profiler/agent/core/record.h"

#define AGENT_EXPORT __attribute__((visibility("default"), used))

/* ---- the life of the process ---- */

static pthread_once_t start_once = PTHREAD_ONCE_INIT;
static bool start_ok;

/* Kernels before 4.14 cannot wipe pages at fork. There the fork handler does it, which does not
 * cover children made by a raw clone. */
static bool wipe_by_hand;

static void in_child(void)
{
    if (wipe_by_hand) {
        memset(agent_process, 0, sizeof *agent_process);
        if (agent_tls)
            memset(agent_tls, 0, sizeof *agent_tls);
    }
    agent_thread_in_child();
}

/* Maps the state that a child must not inherit, and installs the fork handlers. */
static bool process_page_map(void)
{
    void *page = mmap(NULL, sizeof *agent_process, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return false;
    agent_process = page;
    wipe_by_hand = madvise(page, sizeof *agent_process, MADV_WIPEONFORK) != 0;
    return pthread_atfork(agent_thread_before_fork, NULL, in_child) == 0;
}

/* Reads what `tacho record` put into the environment. */
static void setup_read(const char *folder)
{
    const char *mib = getenv(WIRE_ENV_POOL_MIB), *pause = getenv(WIRE_ENV_PAUSE);
    memcpy(agent_setup.folder, folder, strlen(folder) + 1);
    agent_lender_setup(getenv(WIRE_ENV_LENDER));
    agent_setup.clock = agent_clock_choose();
    agent_setup.tick_ms = agent_setup.clock == WIRE_CLOCK_TSC ? ticks_ms() : 1000000;
    unsigned long long cap = WIRE_SEGMENT_CAP;
    if (mib) {
        cap = strtoull(mib, NULL, 10) * ((1u << 20) / WIRE_SEGMENT_BYTES);
        if (cap < WIRE_GROW)
            cap = WIRE_GROW;
        else if (cap > 1u << 20)
            cap = 1u << 20;
    }
    agent_setup.segment_cap = (uint32_t)cap;
    double share = pause ? strtod(pause, NULL) : 0;
    if (share >= 1)
        agent_setup.pause_below = UINT64_MAX;
    else if (share > 0)
        agent_setup.pause_below = (uint64_t)(share * 18446744073709549568.0);
}

/* Runs once a process, and not again in forked children: their setup and pages are inherited. */
static void start(void)
{
    const char *folder = getenv(WIRE_ENV_SEGMENTS);
    int saved = errno;
    if (!folder || folder[0] != '/' || strlen(folder) >= sizeof agent_setup.folder)
        return;
    setup_read(folder);
    start_ok = process_page_map() && agent_thread_start() == 0;
    errno = saved;
}

bool agent_start(void)
{
    pthread_once(&start_once, start);
    return start_ok;
}

/* The process ends without a pool. What it lost before the pool of an ancestor counted for it is
 * added there; else the name of its mark says how many events that were, whatever the reason. */
static void finish_without_pool(void)
{
    static const bool is_event[] = {
#define IS_EVENT(name, event_lost, text) event_lost,
        WIRE_LOSS_MAP(IS_EVENT)
#undef IS_EVENT
    };
    bool has_ancestor = atomic_load_explicit(&agent_process->ancestor, memory_order_acquire);
    uint64_t lost = 0;
    for (unsigned i = 0; i < WIRE_LOSS_COUNT; i++) {
        uint64_t count = atomic_exchange(&agent_process->early[i], 0);
        if (count && has_ancestor)
            agent_lose((enum wire_loss_reason)i, count);
        else if (is_event[i])
            lost += count;
    }
    if (lost)
        agent_pool_never(lost);
}

/* Runs with the exit handlers of the process. Other threads may still record, so nothing that they
 * use is released. */
__attribute__((destructor)) static void process_finish(void)
{
    if (!start_ok)
        return;
    struct wire_pool *pool = atomic_load_explicit(&agent_process->pool, memory_order_acquire);
    if (!pool) {
        finish_without_pool();
        return;
    }
    agent_thread_flush_all();
    atomic_store_explicit(&pool->finished, 1, memory_order_release);
}

/* ---- NVTX ---- */

/* Puts the callbacks into one table of NVTX, as far as that version has places for them. */
static bool attach_table(const NvtxExportTableCallbacks *tables, NvtxCallbackModule module,
                         const struct agent_slot *slot)
{
    NvtxFunctionTable table = NULL;
    unsigned int size = 0;
    if (!tables->GetModuleFunctionTable(module, &table, &size) || !table)
        return false;
    for (; slot->function; slot++)
        if (slot->index < size && table[slot->index])
            *table[slot->index] = slot->function;
    return true;
}

static bool attach_extension(const nvtxExtModuleInfo_t *module, const struct agent_slot *slot)
{
    if (module->segmentsCount < 1 || !module->segments || !module->segments[0].functionSlots)
        return false;
    for (; slot->function; slot++)
        if (slot->index < module->segments[0].slotCount)
            module->segments[0].functionSlots[slot->index] = (intptr_t)slot->function;
    return true;
}

/* Both versions of NVTX's core: returns 1, or 0 to leave NVTX off. */
static int attach(NvtxGetExportTableFunc_t get)
{
    const NvtxExportTableCallbacks *tables = get ? get(NVTX_ETID_CALLBACKS) : NULL;
    if (!tables || tables->struct_size < sizeof *tables || !tables->GetModuleFunctionTable ||
        !agent_start())
        return 0;
    agent_device_look();
    bool ok = attach_table(tables, NVTX_CB_MODULE_CORE, agent_core);
    attach_table(tables, NVTX_CB_MODULE_CORE2, agent_core2); /* version 1 has none */
    return ok;
}

AGENT_EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);
AGENT_EXPORT int InitializeInjectionNvtx(NvtxGetExportTableFunc_t get);
AGENT_EXPORT int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module);
AGENT_EXPORT int tacho_recording_paused(void);

/* Called by each loaded object that has the NVTX 3 headers in it: each has tables of its own.
 * Returns 1, or 0 = leave NVTX off.
 */
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    return attach(get);
}

/* The same for libnvToolsExt.so of NVTX 1 and 2. */
int InitializeInjectionNvtx(NvtxGetExportTableFunc_t get)
{
    return attach(get);
}

/* Called for each extension in each object. Returns 1, or 0 = leave it off. */
int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module)
{
    if (!module || !agent_start())
        return 0;
    if (module->moduleId == NVTX_EXT_PAYLOAD_MODULEID)
        return attach_extension(module, agent_payload);
    if (module->moduleId == NVTX_EXT_COUNTERS_MODULEID)
        return attach_extension(module, agent_counters);
    return 0;
}

/* For the Python hook, after it has begun a step: is recording paused for it? What the hook itself
 * costs is to be missing in such a step as well. */
int tacho_recording_paused(void)
{
    return agent_paused();
}
