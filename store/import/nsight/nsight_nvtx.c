/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads NVTX rows. The domain is the category. Ranges of PyTorch's emit_nvtx are operators, and
 * become what its profiler would have written: a name, a sequence number, shapes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/nsight/nsight_private.h"

#define LABELS_MAX 4096 /* domains and categories; no real program has more */

/* eventType */
enum {
    NVTX_CATEGORY = 33,
    NVTX_MARK = 34,
    NVTX_THREAD = 39,
    NVTX_PUSH_POP = 59,
    NVTX_START_END = 60,
    NVTXT_CATEGORY = 64,
    NVTXT_MARK = 65,
    NVTXT_PUSH_POP = 70,
    NVTXT_START_END = 71,
    NVTXT_META_FIRST = 72,
    NVTXT_META_LAST = 74,
    NVTX_DOMAIN_CREATE = 75,
    NVTX_DOMAIN_DESTROY = 76,
    NVTX_NAME_FIRST = 97,
    NVTX_NAME_LAST = 99
};

enum {
    COL_START,
    COL_END,
    COL_TYPE,
    COL_RANGE,
    COL_CATEGORY,
    COL_TEXT,
    COL_TEXT_ID,
    COL_TID,
    COL_DOMAIN,
    COL_PAYLOAD
};
/* nsight_payload.c reads what comes after COL_DOMAIN */
#define NVTX_COLUMNS \
    "start", "end", "eventType", "rangeId", "category", "text", "textId", "globalTid", "domainId", \
        "uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue", \
        "jsonText", "jsonTextId", "binaryData"

/* The text of a row, in the row itself or in StringIds. */
static const char *text_of(struct nsight *nsight, sqlite3_stmt *st)
{
    const char *text = nsight_text(st, COL_TEXT);
    return text ? text : nsight_string(nsight, nsight_int(st, COL_TEXT_ID));
}

/* ---- domains and categories ------------------------------------------------------------------------------------------------- */

/* Has the name a meaning as a category of the store? */
static bool is_reserved(const char *name)
{
    static const char *const words[] = {"kernel",  "memcpy",     "memset",   "graph",
                                        "sync",    "annotation", "op",       "python",
                                        "runtime", "driver",     "overhead", "instant"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i], name))
            return true;
    return false;
}

/* Number of a text: of a domain or a category, of which there are few. */
static int label(struct nsight *nsight, const char *text, int64_t *number)
{
    for (size_t i = 0; i < nsight->label_count; i++)
        if (!strcmp(nsight->label[i], text)) {
            *number = (int64_t)i;
            return 0;
        }
    char **bigger = realloc(nsight->label, (nsight->label_count + 1) * sizeof *bigger);
    if (!bigger)
        return TACHO_ENOMEM;
    nsight->label = bigger;
    nsight->label[nsight->label_count] = strdup(text);
    if (!nsight->label[nsight->label_count])
        return TACHO_ENOMEM;
    *number = (int64_t)nsight->label_count++;
    return 0;
}

/* Names a category of a domain of a process, or of any process (-1). */
static int name_category(struct nsight *nsight, int64_t process, int64_t domain, int64_t category,
                         int64_t number)
{
    const int64_t *known = imp_map_find(&nsight->places, process, domain);
    int64_t place = known ? *known : nsight->place_count++;
    int code = known ? 0 : imp_map_put(&nsight->places, process, domain, place);
    return code ? code : imp_map_put(&nsight->categories, place, category, number);
}

/* The label of a category; NULL: it has no name. */
static const int64_t *category_label(const struct nsight *nsight, int64_t process, int64_t domain,
                                     int64_t category)
{
    const int64_t *place = imp_map_find(&nsight->places, process, domain);
    return place ? imp_map_find(&nsight->categories, *place, category) : NULL;
}

/* Reads rows that name a domain or a category. They may come after rows that use the name, so this
 * is a pass of its own. */
static int definition(struct nsight *nsight, sqlite3_stmt *st)
{
    int64_t type = nsight_int(st, COL_TYPE), domain = nsight_int(st, COL_DOMAIN),
            tid = nsight_int(st, COL_TID), number;
    if (type != NVTX_DOMAIN_CREATE && type != NVTX_CATEGORY && type != NVTXT_CATEGORY)
        return 0;
    const char *text = text_of(nsight, st);
    char name[300];
    if (!text || !*text || domain == STORE_ABSENT || nsight->label_count >= LABELS_MAX)
        return 0;
    snprintf(name, sizeof name, "%s%.256s",
             type == NVTX_DOMAIN_CREATE && is_reserved(text) ? "nvtx:" : "", text);
    int code = label(nsight, name, &number);
    if (code)
        return code;
    if (type != NVTX_DOMAIN_CREATE)
        code = name_category(nsight, -1, domain, nsight_int(st, COL_CATEGORY), number);
    if (!code && tid != STORE_ABSENT && type != NVTX_DOMAIN_CREATE)
        code = name_category(nsight, tid >> 24, domain, nsight_int(st, COL_CATEGORY), number);
    if (code || type != NVTX_DOMAIN_CREATE)
        return code;
    if (tid != STORE_ABSENT)
        code = imp_map_put(&nsight->domains, tid >> 24, domain, number);
    return code ? code : imp_map_put(&nsight->domains, -1, domain, number);
}

/* Number of the name of a domain. */
static int domain_of(struct nsight *nsight, int64_t process, int64_t domain, int64_t *number)
{
    char name[64];
    if (domain == STORE_ABSENT || domain == 0)
        return label(nsight, "nvtx", number);
    const int64_t *known = imp_map_find(&nsight->domains, process, domain);
    if (!known)
        known = imp_map_find(&nsight->domains, -1, domain);
    if (known) {
        *number = *known;
        return 0;
    }
    snprintf(name, sizeof name, "domain %" PRId64, domain);
    const char *text = nsight->label_count < LABELS_MAX ? name : "nvtx:unnamed";
    int code = label(nsight, nsight_domain_is_nccl(nsight, domain) ? "NCCL" : text, number);
    return code ? code : imp_map_put(&nsight->domains, -1, domain, *number);
}

/* "domain" or "domain:category" as a string of the store. */
static int category_of(struct nsight *nsight, sqlite3_stmt *st, int64_t process, int64_t *string)
{
    int64_t domain = nsight_int(st, COL_DOMAIN), category = nsight_int(st, COL_CATEGORY), number;
    char name[600];
    int code = domain_of(nsight, process, domain, &number);
    if (code)
        return code;
    domain = domain == STORE_ABSENT ? 0 : domain;
    const int64_t *sub = category_label(nsight, process, domain, category);
    if (!sub)
        sub = category_label(nsight, -1, domain, category);
    int64_t sub_number = sub ? *sub : -1;
    const int64_t *known = imp_map_find(&nsight->joined, number, sub_number);
    if (known) {
        *string = *known;
        return 0;
    }
    int used = snprintf(name, sizeof name, "%s", nsight->label[number]);
    if (sub)
        snprintf(name + used, sizeof name - (size_t)used, ":%s", nsight->label[*sub]);
    code = nsight_intern(nsight, name, string);
    return code ? code : imp_map_put(&nsight->joined, number, sub_number, *string);
}

/* ---- PyTorch's operators ---------------------------------------------------------------------------------------------------- */

/* `aten::mm, seq = 7, op_id = 12, sizes = [[2, 3], [3, 4]], input_op_ids = [...]`: the part before
 * the first of these keys is the name, and what differs in every call would make every name unique.
 */
static size_t operator_name(const char *text)
{
    static const char *const keys[] = {", seq = ", ", op_id = ", ", sizes = [",
                                       ", input_op_ids = ["};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *at = strstr(text, keys[i]);
        const char *value = at ? at + strlen(keys[i]) : NULL;
        bool fits =
            at && at != text && (i >= 2 || (*value >= '0' && *value <= '9') || *value == '-');
        if (fits && (!first || at < first))
            first = at;
    }
    return first ? (size_t)(first - text) : 0;
}

/* The sequence number of an operator. */
static int64_t sequence(const char *text)
{
    const char *at = strstr(text, ", seq = ");
    char *end;
    if (!at)
        return STORE_ABSENT;
    long long value = strtoll(at + 8, &end, 10);
    return end == at + 8 || value < 0 ? STORE_ABSENT : value;
}

/* {"shapes":[[2,3],[3,4]]} of `sizes = ...`; NULL: there are none. Caller frees. */
static char *shapes(const char *text)
{
    const char *at = strstr(text, ", sizes = [");
    if (!at)
        return NULL;
    at += 10;
    char *out = malloc(strlen(at) + 16);
    if (!out)
        return NULL;
    size_t used = (size_t)sprintf(out, "{\"shapes\":");
    int depth = 0;
    for (; *at; at++) {
        if (*at == ' ')
            continue;
        if (!strchr("[],-0123456789", *at) || depth > 8)
            break;
        depth += (*at == '[') - (*at == ']');
        out[used++] = *at;
        if (!depth)
            break;
    }
    if (*at != ']' || depth) {
        free(out);
        return NULL;
    }
    memcpy(out + used, "}", sizeof "}");
    return out;
}

/* Fills a slice for an operator of PyTorch. */
static int operator_slice(struct nsight *nsight, const char *text, size_t bytes,
                          struct store_slice *slice)
{
    struct store_detail detail = STORE_DETAIL_NONE;
    char *payload = shapes(text);
    slice->correlation = sequence(text);
    int code = store_string(nsight->out, text, bytes, &slice->name);
    if (!code)
        code = nsight_intern(nsight, "op", &slice->category);
    if (!code && payload) {
        detail.schema = "torch.op";
        detail.payload = payload;
        code = store_detail_intern(nsight->out, &detail, &slice->detail);
    }
    free(payload);
    return code;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------- */

/* Is it a row that only names something? */
static bool is_definition(int64_t type)
{
    return type == NVTX_CATEGORY || type == NVTX_THREAD || type == NVTXT_CATEGORY ||
           type == NVTX_DOMAIN_CREATE || type == NVTX_DOMAIN_DESTROY ||
           (type >= NVTXT_META_FIRST && type <= NVTXT_META_LAST) ||
           (type >= NVTX_NAME_FIRST && type <= NVTX_NAME_LAST);
}

/* Fills name, category and detail of a range: those of an operator, or what the row says itself. */
static int name_range(struct nsight *nsight, sqlite3_stmt *st, bool global, size_t process,
                      struct store_slice *slice)
{
    int64_t domain = nsight_int(st, COL_DOMAIN);
    const char *text = text_of(nsight, st);
    if (!text)
        text = "";
    size_t bytes = domain > 0 ? 0 : operator_name(text);
    if (bytes)
        return operator_slice(nsight, text, bytes, slice);
    if (global)
        slice->correlation = nsight_int(st, COL_RANGE);
    int code = nsight_intern(nsight, text, &slice->name);
    if (!code) {
        bool nccl = nsight_domain_is_nccl(nsight, domain) || !strncmp(text, "nccl", 4);
        code = nsight_payload(nsight, st, text, nccl, process, &slice->detail);
    }
    return code ? code : category_of(nsight, st, nsight_int(st, COL_TID) >> 24, &slice->category);
}

/* Reads a row that is a range or a mark. */
static int range(struct nsight *nsight, sqlite3_stmt *st)
{
    struct store_slice slice = {.detail = STORE_ABSENT, .correlation = STORE_ABSENT};
    int64_t type = nsight_int(st, COL_TYPE), tid = nsight_int(st, COL_TID),
            start = nsight_int(st, COL_START);
    bool mark = type == NVTX_MARK || type == NVTXT_MARK,
         global = type == NVTX_START_END || type == NVTXT_START_END, ok = true;
    size_t process;
    if (is_definition(type))
        return 0;
    nsight->run->events++;
    if (!mark && !global && type != NVTX_PUSH_POP && type != NVTXT_PUSH_POP) {
        nsight->lost[NSIGHT_LOSS_NVTX_TYPE]++;
        return 0;
    }
    nsight_time(nsight, start, mark ? start : nsight_int(st, COL_END), &slice, &ok);
    if (ok && tid == STORE_ABSENT) {
        nsight->lost[NSIGHT_LOSS_PROCESS]++;
        ok = false;
    }
    if (!ok)
        return 0;
    int code = nsight_process(nsight, tid, &process);
    if (!code)
        code = global ? nsight_range_track(nsight, process, &slice.track)
                      : nsight_thread(nsight, tid, &slice.track);
    if (!code)
        code = name_range(nsight, st, global, process, &slice);
    return code ? code : nsight_slice(nsight, &slice);
}

const struct nsight_table nsight_nvtx_tables[] = {
    {"NVTX_EVENTS", definition, {NVTX_COLUMNS}},
    {"NVTX_EVENTS", range, {NVTX_COLUMNS}},
    {0},
};
