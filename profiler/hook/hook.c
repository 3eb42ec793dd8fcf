/* SPDX-License-Identifier: Apache-2.0
 *
 * libtacho_hook.so: what the Python hook (tacho_hook) says, as NVTX. Loaded by Python through
 * ctypes; without a tool attached every call is a no-op, and any NVTX tool understands it. It asks
 * one thing of tacho's agent, if that is the tool: whether recording is paused for a step. The
 * functions that are called in every step are handed out as functions of Python too
 * (tacho_hook_function): ctypes takes 238 instead of 36 ns for a call.
 *
 * Payloads carry only what is known: a step its index, work its pass. Readers match fields by name,
 * so that a missing field is absent and not 0 (include/tacho_nvtx.h).
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tacho_nvtx.h"

#define HOOK_EXPORT __attribute__((visibility("default")))

struct step_index {
    uint64_t index;
};
struct work_pass {
    uint8_t pass; /* enum tacho_pass */
};

/* Work with known FLOPs (struct tacho_work has their conventions) and unknown bytes. */
struct work_cost {
    uint64_t flops, model_flops, palm_flops;
    uint8_t dtype, pass, kind, reserved[5]; /* enum tacho_dtype, tacho_pass, tacho_work_kind */
};

struct unsized_comm {
    uint64_t communicator, sequence;
    uint32_t op, ranks;
};

#define HOOK_FIELD(owner, field, kind) \
    { \
        .type = NVTX_PAYLOAD_ENTRY_TYPE_##kind, .name = #field, \
        .offset = offsetof(struct owner, field) \
    }

static struct tacho_nvtx hook;
/* Steps have a domain, and so a stack, of their own: a range of the program may begin in one step
 * and end in the next one. */
static struct tacho_nvtx steps;
static nvtxStringHandle_t step_name;
static uint64_t step_schema, work_schema, cost_schema, comm_schema;
static bool is_on_device;             /* an accelerator does the work, and the host launches it */
static int (*recording_paused)(void); /* of the agent; NULL: another tool, or none */

HOOK_EXPORT int tacho_hook_open(const char *name);
HOOK_EXPORT void *tacho_hook_name(const char *text);
HOOK_EXPORT void tacho_hook_push(void *name);
HOOK_EXPORT void tacho_hook_push_role(void *name, unsigned kind);
HOOK_EXPORT void tacho_hook_on_device(int on_device);
HOOK_EXPORT void tacho_hook_push_work(void *name, unsigned pass);
HOOK_EXPORT void *tacho_hook_cost(uint64_t flops, uint64_t model_flops, uint64_t palm_flops,
                                  unsigned dtype, unsigned pass);
HOOK_EXPORT void tacho_hook_push_cost(void *name, const void *cost);
HOOK_EXPORT int tacho_hook_push_step(uint64_t index);
HOOK_EXPORT void tacho_hook_pop_step(void);
HOOK_EXPORT void tacho_hook_push_comm(void *name, unsigned op, uint64_t bytes,
                                      uint64_t communicator, uint64_t sequence, unsigned ranks);
HOOK_EXPORT void tacho_hook_pop(void);
struct python_object;
HOOK_EXPORT int tacho_hook_functions(void);
HOOK_EXPORT struct python_object *tacho_hook_function(int i);
HOOK_EXPORT uint64_t tacho_hook_counter(const char *name);
HOOK_EXPORT void tacho_hook_sample(uint64_t counter, double value);

/* Finds the agent's function. Call after the first call of NVTX, which loads the tool. */
static void find_agent(void)
{
    const char *tool = getenv("NVTX_INJECTION64_PATH");
    void *agent = tool && *tool ? dlopen(tool, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *symbol = agent ? dlsym(agent, "tacho_recording_paused") : NULL;
    memcpy(&recording_paused, &symbol, sizeof symbol);
}

/* Registers the NVTX domain of that name, the one of its steps ("NAME.steps") and the payload
 * schemas, which live as long as the process. Returns the version of this interface. */
int tacho_hook_open(const char *name)
{
    char of_steps[64];
    static const nvtxPayloadSchemaEntry_t index = HOOK_FIELD(step_index, index, UINT64);
    static const nvtxPayloadSchemaEntry_t pass = HOOK_FIELD(work_pass, pass, UINT8);
    static const nvtxPayloadSchemaEntry_t cost[] = {
        HOOK_FIELD(work_cost, flops, UINT64),      HOOK_FIELD(work_cost, model_flops, UINT64),
        HOOK_FIELD(work_cost, palm_flops, UINT64), HOOK_FIELD(work_cost, dtype, UINT8),
        HOOK_FIELD(work_cost, pass, UINT8),        HOOK_FIELD(work_cost, kind, UINT8)};
    static const nvtxPayloadSchemaEntry_t comm[] = {
        HOOK_FIELD(unsized_comm, communicator, UINT64), HOOK_FIELD(unsized_comm, sequence, UINT64),
        HOOK_FIELD(unsized_comm, op, UINT32), HOOK_FIELD(unsized_comm, ranks, UINT32)};
    snprintf(of_steps, sizeof of_steps, "%s.steps", name);
    tacho_nvtx_open(&hook, name);
    steps.domain = nvtxDomainCreateA(of_steps);
    step_name = tacho_nvtx_name(&steps, "step");
    comm_schema = tacho_nvtx_schema(hook.domain, "tacho.comm", comm, sizeof comm / sizeof *comm,
                                    sizeof(struct unsized_comm));
    step_schema =
        tacho_nvtx_schema(steps.domain, "tacho.step", &index, 1, sizeof(struct step_index));
    work_schema = tacho_nvtx_schema(hook.domain, "tacho.work", &pass, 1, sizeof(struct work_pass));
    cost_schema = tacho_nvtx_schema(hook.domain, "tacho.work", cost, sizeof cost / sizeof *cost,
                                    sizeof(struct work_cost));
    find_agent();
    return 1;
}

void *tacho_hook_name(const char *text)
{
    return tacho_nvtx_name(&hook, text);
}

/* A range that says nothing but its name. */
void tacho_hook_push(void *name)
{
    nvtxEventAttributes_t attributes = {.version = NVTX_VERSION,
                                        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                        .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
                                        .message.registered = name};
    nvtxDomainRangePushEx(hook.domain, &attributes);
}

/* kind: enum tacho_range_kind */
void tacho_hook_push_role(void *name, unsigned kind)
{
    struct tacho_range range = {.kind = kind};
    tacho_nvtx_push_range(&hook, name, &range);
}

/* From now on an accelerator does the work of this process (1), or the CPU (0), as at first. */
void tacho_hook_on_device(int on_device)
{
    is_on_device = on_device != 0;
}

/* Work of the CPU, or of the host for an accelerator, which says nothing but its name: pass is an
 * enum tacho_pass. */
void tacho_hook_push_work(void *name, unsigned pass)
{
    struct work_pass work_pass = {.pass = (uint8_t)pass};
    if (is_on_device) {
        tacho_hook_push(name);
        return;
    }
    tacho_nvtx_push(&hook, name, work_schema, &work_pass, sizeof work_pass);
}

/* What ranges of the same work share: memory that lives as long as the process; NULL when memory is
 * short. dtype is an enum tacho_dtype, pass an enum tacho_pass. */
void *tacho_hook_cost(uint64_t flops, uint64_t model_flops, uint64_t palm_flops, unsigned dtype,
                      unsigned pass)
{
    struct work_cost *cost = malloc(sizeof *cost);
    if (cost)
        *cost = (struct work_cost){.flops = flops,
                                   .model_flops = model_flops,
                                   .palm_flops = palm_flops,
                                   .dtype = (uint8_t)dtype,
                                   .pass = (uint8_t)pass,
                                   .kind = TACHO_WORK_MATRIX};
    return cost;
}

/* Work of the CPU with a cost of tacho_hook_cost. */
void tacho_hook_push_cost(void *name, const void *cost)
{
    tacho_nvtx_push(&hook, name, cost_schema, cost, sizeof(struct work_cost));
}

/* Begins a step on the calling thread. Returns whether recording is paused until it ends. */
int tacho_hook_push_step(uint64_t index)
{
    struct step_index step_index = {.index = index};
    tacho_nvtx_push(&steps, step_name, step_schema, &step_index, sizeof step_index);
    return recording_paused && recording_paused();
}

/* Ends the step that the calling thread has begun last. */
void tacho_hook_pop_step(void)
{
    tacho_nvtx_pop(&steps);
}

/* A collective that the calling thread is in until it is done: op is an enum tacho_comm_op. bytes
 * UINT64_MAX: not known. */
void tacho_hook_push_comm(void *name, unsigned op, uint64_t bytes, uint64_t communicator,
                          uint64_t sequence, unsigned ranks)
{
    struct unsized_comm unsized = {
        .communicator = communicator, .sequence = sequence, .op = op, .ranks = ranks};
    if (bytes == UINT64_MAX) {
        tacho_nvtx_push(&hook, name, comm_schema, &unsized, sizeof unsized);
        return;
    }
    struct tacho_comm comm = {.bytes = bytes,
                              .communicator = communicator,
                              .sequence = sequence,
                              .op = op,
                              .ranks = ranks};
    tacho_nvtx_push_comm(&hook, name, &comm);
}

void tacho_hook_pop(void)
{
    tacho_nvtx_pop(&hook);
}

uint64_t tacho_hook_counter(const char *name)
{
    return tacho_nvtx_counter(&hook, name);
}

void tacho_hook_sample(uint64_t counter, double value)
{
    tacho_nvtx_sample(&hook, counter, value);
}

/* ---- functions of Python ---------------------------------------------------------------------------------------------------
 * What is needed of Python's stable ABI (docs.python.org/3/c-api/stable.html), found in the
 * interpreter that runs: this library is built without Python's headers and serves every version.
 */

typedef struct python_object *python_call(struct python_object *self,
                                          struct python_object *const *argument, ptrdiff_t count);
struct python_method {
    const char *name;
    python_call *call;
    int flags;
    const char *text;
};
#define PYTHON_FASTCALL 0x80

static struct {
    struct python_object *none, *yes;
    void (*keep)(struct python_object *);
    unsigned long long (*number)(struct python_object *);
    struct python_object *(*error)(void);
    struct python_object *(*function)(struct python_method *, struct python_object *self,
                                      struct python_object *module);
} python;

/* Argument i, a number or None; absent: 0. */
static uint64_t number(struct python_object *const *argument, ptrdiff_t count, ptrdiff_t i)
{
    return i < count && argument[i] != python.none ? python.number(argument[i]) : 0;
}

/* None, or the exception that a number was none. */
static struct python_object *done(uint64_t name, uint64_t value)
{
    if ((name == UINT64_MAX || value == UINT64_MAX) && python.error())
        return NULL;
    python.keep(python.none);
    return python.none;
}

static struct python_object *call_push(struct python_object *self,
                                       struct python_object *const *argument, ptrdiff_t count)
{
    uint64_t name = number(argument, count, 0);
    (void)self;
    tacho_hook_push((void *)(uintptr_t)name);
    return done(name, 0);
}

static struct python_object *call_push_role(struct python_object *self,
                                            struct python_object *const *argument, ptrdiff_t count)
{
    uint64_t name = number(argument, count, 0), kind = number(argument, count, 1);
    (void)self;
    tacho_hook_push_role((void *)(uintptr_t)name, (unsigned)kind);
    return done(name, kind);
}

static struct python_object *call_push_work(struct python_object *self,
                                            struct python_object *const *argument, ptrdiff_t count)
{
    uint64_t name = number(argument, count, 0), pass = number(argument, count, 1);
    (void)self;
    tacho_hook_push_work((void *)(uintptr_t)name, (unsigned)pass);
    return done(name, pass);
}

static struct python_object *call_push_cost(struct python_object *self,
                                            struct python_object *const *argument, ptrdiff_t count)
{
    uint64_t name = number(argument, count, 0), cost = number(argument, count, 1);
    (void)self;
    if (cost && cost != UINT64_MAX)
        tacho_hook_push_cost((void *)(uintptr_t)name, (const void *)(uintptr_t)cost);
    return done(name, cost);
}

static struct python_object *call_push_step(struct python_object *self,
                                            struct python_object *const *argument, ptrdiff_t count)
{
    uint64_t index = number(argument, count, 0);
    (void)self;
    if (!tacho_hook_push_step(index))
        return done(index, 0);
    python.keep(python.yes);
    return python.yes;
}

static struct python_object *call_pop_step(struct python_object *self,
                                           struct python_object *const *argument, ptrdiff_t count)
{
    (void)self, (void)argument, (void)count;
    tacho_hook_pop_step();
    return done(0, 0);
}

static struct python_object *call_pop(struct python_object *self,
                                      struct python_object *const *argument, ptrdiff_t count)
{
    (void)self, (void)argument, (void)count;
    tacho_hook_pop();
    return done(0, 0);
}

static struct python_method methods[] = {
    {"push", call_push, PYTHON_FASTCALL, NULL},
    {"push_role", call_push_role, PYTHON_FASTCALL, NULL},
    {"push_work", call_push_work, PYTHON_FASTCALL, NULL},
    {"push_cost", call_push_cost, PYTHON_FASTCALL, NULL},
    {"push_step", call_push_step, PYTHON_FASTCALL, NULL},
    {"pop_step", call_pop_step, PYTHON_FASTCALL, NULL},
    {"pop", call_pop, PYTHON_FASTCALL, NULL},
};

static bool found(void *target, const char *name)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);
    memcpy(target, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* How many there are; 0: this interpreter does not show its symbols, and ctypes has to do. */
int tacho_hook_functions(void)
{
    bool all =
        found(&python.none, "_Py_NoneStruct") && found(&python.yes, "_Py_TrueStruct") &&
        found(&python.keep, "Py_IncRef") && found(&python.number, "PyLong_AsUnsignedLongLong") &&
        found(&python.error, "PyErr_Occurred") && found(&python.function, "PyCFunction_NewEx");
    return all ? (int)(sizeof methods / sizeof *methods) : 0;
}

/* Function i, below tacho_hook_functions(), with its name; a new reference. */
struct python_object *tacho_hook_function(int i)
{
    return python.function(&methods[i], NULL, NULL);
}
