/* SPDX-License-Identifier: Apache-2.0
 *
 * The vocabulary of causes (causes.h), and how the cause of a range of a thread is found: from its
 * category, its role and its name. Names and categories repeat thousands of times, so what a string
 * says is remembered by its index; a range is asked for by every range in it, so its cause is, too.
 */
#include "analyzers/graph/causes.h"

#include <stdlib.h>
#include <string.h>

struct an_causes {
    uint8_t *category, *name; /* of strings */
    uint8_t *slice;           /* cause + 1; 0: not asked for yet */
};

static bool has_any(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strstr(text, *words))
            return true;
    return false;
}

static enum an_text_kind category_kind(const char *category)
{
    if (an_category_is_call(category))
        return AN_TEXT_API;
    return !strcmp(category, "overhead") ? AN_TEXT_OVERHEAD : AN_TEXT_PLAIN;
}

static enum an_text_kind name_kind(const char *name)
{
    static const char *const allocation[] = {"Malloc",  "MemAlloc",  "MemPool",      "MemCreate",
                                             "MemMap",  "HostAlloc", "HostRegister", "MemAddress",
                                             "hipFree", "cudaFree",  "cuMemFree",    NULL};
    static const char *const event[] = {"EventRecord", "StreamWait", NULL};
    if (!strncmp(name, "ProfilerStep#", 13))
        return AN_TEXT_STEP;
    if (has_any(name, event))
        return AN_TEXT_EVENT;
    if (has_any(name, allocation))
        return AN_TEXT_ALLOCATION;
    return !strcmp(name, "gc") || !strncmp(name, "gc.", 3) || !strncmp(name, "garbage", 7) ||
                   !strcmp(name, "Python GC") /* torch.profiler, record_python_gc_info */
               ? AN_TEXT_COLLECTION
               : AN_TEXT_PLAIN;
}

/* The kind of string `text`; kinds[] of every string is filled as it is asked for. */
static enum an_text_kind text_kind(const struct an_context *context, uint8_t *kinds, uint32_t text,
                                   enum an_text_kind (*kind_of)(const char *))
{
    if (text == AN_NONE)
        return AN_TEXT_PLAIN;
    if (kinds[text] == AN_TEXT_UNKNOWN)
        kinds[text] = (uint8_t)kind_of(an_trace_name(context->trace, text));
    return kinds[text];
}

enum an_text_kind an_slice_category_kind(const struct an_context *context,
                                         const struct an_causes *causes, size_t slice)
{
    return text_kind(context, causes->category, context->trace->slice.category[slice],
                     category_kind);
}

enum an_text_kind an_slice_name_kind(const struct an_context *context,
                                     const struct an_causes *causes, size_t slice)
{
    return text_kind(context, causes->name, context->trace->slice.name[slice], name_kind);
}

int an_causes_make(struct an_context *context, struct an_causes **out)
{
    struct an_causes *causes = *out = an_arena_zero(context->scratch, 1, sizeof *causes);
    if (!causes)
        return TACHO_ENOMEM;
    causes->category = an_arena_zero(context->scratch, context->trace->string_count + 1, 1);
    causes->name = an_arena_zero(context->scratch, context->trace->string_count + 1, 1);
    causes->slice = an_arena_zero(context->scratch, context->trace->slice.count + 1, 1);
    return causes->category && causes->name && causes->slice ? 0 : TACHO_ENOMEM;
}

static enum an_cause cause_of_role(enum an_role role)
{
    if (an_role_is_input(role))
        return AN_CAUSE_INPUT;
    switch (role) {
    case AN_ROLE_WORK:
        return AN_CAUSE_COMPUTE;
    case AN_ROLE_COMM:
    case AN_ROLE_COMM_WAIT:
        return AN_CAUSE_TRANSFER;
    case AN_ROLE_CHECKPOINT:
    case AN_ROLE_EVALUATION:
        return AN_CAUSE_PHASE;
    case AN_ROLE_COMPILE:
        return AN_CAUSE_COMPILE;
    case AN_ROLE_STEP:
        return AN_CAUSE_UNTRACED;
    default:
        return AN_CAUSE_FRAMEWORK;
    }
}

static enum an_cause cause_of_call(const struct an_context *context, const struct an_causes *causes,
                                   size_t slice)
{
    struct an_api_call call = an_slice_api(context->trace, slice);
    if (call.kind == AN_API_SYNC)
        return AN_CAUSE_SYNC;
    if (an_api_launches(call))
        return AN_CAUSE_LAUNCH;
    return an_slice_name_kind(context, causes, slice) == AN_TEXT_ALLOCATION ? AN_CAUSE_ALLOCATION
                                                                            : AN_CAUSE_FRAMEWORK;
}

static enum an_cause find_cause(const struct an_context *context, const struct an_causes *causes,
                                size_t slice)
{
    enum an_text_kind category = an_slice_category_kind(context, causes, slice);
    if (category == AN_TEXT_API)
        return cause_of_call(context, causes, slice);
    if (category == AN_TEXT_OVERHEAD)
        return AN_CAUSE_PROFILER;
    enum an_role role = an_slice_role(context->trace, slice);
    if (context->gpu && (role == AN_ROLE_COMM || role == AN_ROLE_WORK) &&
        an_trace_role(context->trace, context->trace->slice.detail[slice]) == AN_ROLE_NONE)
        return AN_CAUSE_FRAMEWORK; /* the host only asks for it */
    if (role != AN_ROLE_NONE &&
        (role != AN_ROLE_HOST || an_slice_name_kind(context, causes, slice) != AN_TEXT_COLLECTION))
        return cause_of_role(role);
    switch (an_slice_name_kind(context, causes, slice)) {
    case AN_TEXT_STEP:
        return AN_CAUSE_UNTRACED;
    case AN_TEXT_COLLECTION:
        return AN_CAUSE_COLLECTION;
    default:
        return AN_CAUSE_FRAMEWORK;
    }
}

enum an_cause an_slice_cause(const struct an_context *context, const struct an_causes *causes,
                             size_t slice)
{
    if (!causes->slice[slice])
        causes->slice[slice] = (uint8_t)(1 + find_cause(context, causes, slice));
    return (enum an_cause)(causes->slice[slice] - 1);
}

const char *an_cause_key(enum an_cause cause)
{
    static const char *const keys[] = {
#define CAUSE_KEY(name, key, text) key,
        AN_CAUSE_MAP(CAUSE_KEY)
#undef CAUSE_KEY
    };
    return cause < AN_CAUSE_COUNT ? keys[cause] : "";
}

const char *an_cause_text(enum an_cause cause)
{
    static const char *const texts[] = {
#define CAUSE_TEXT(name, key, text) text,
        AN_CAUSE_MAP(CAUSE_TEXT)
#undef CAUSE_TEXT
    };
    return cause < AN_CAUSE_COUNT ? texts[cause] : "";
}
