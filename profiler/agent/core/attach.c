/* SPDX-License-Identifier: Apache-2.0
 *
 * The three symbols that the loaders in NVTX look for, each to put our callbacks into the tables it
 * is given.
 */
#include "profiler/agent/core/agent.h"

#define AGENT_EXPORT __attribute__((visibility("default"), used))

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

static int attach(NvtxGetExportTableFunc_t get)
{
    const NvtxExportTableCallbacks *tables = get ? get(NVTX_ETID_CALLBACKS) : NULL;
    if (!tables || tables->struct_size < sizeof *tables || !tables->GetModuleFunctionTable ||
        !agent_start())
        return 0;
    agent_cuda_look();
    bool ok = attach_table(tables, NVTX_CB_MODULE_CORE, agent_core);
    attach_table(tables, NVTX_CB_MODULE_CORE2, agent_core2); /* version 1 has none */
    return ok;
}

AGENT_EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);
AGENT_EXPORT int InitializeInjectionNvtx(NvtxGetExportTableFunc_t get);
AGENT_EXPORT int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module);

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
