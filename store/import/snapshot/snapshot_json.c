/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of flight recorder dumps as JSON (_dump_nccl_trace_json, the debug server of a
 * worker): the keys of the pickles, without stacks. Each entry becomes a dict like one of a pickle
 * and goes the same way.
 *
 * A dump is untrusted. Memory: the file, and one entry, of which ENTRY_VALUES values are kept.
 */
#include <stdlib.h>
#include <string.h>

#include "store/import/input/json.h"
#include "store/import/input/list.h"
#include "store/import/input/whole.h"
#include "store/import/snapshot/snapshot_import.h"
#include "store/import/snapshot/snapshot_private.h"

#define BYTES_MOST   ((size_t)1 << 30)
#define DEPTH_MOST   8
#define ENTRY_VALUES 65536
#define TEXT_MOST    4096

static bool recognises(const unsigned char *head, size_t bytes)
{
    if (!bytes || head[0] != '{' || imp_holds(head, bytes, "\"ph\""))
        return false;
    return (imp_holds(head, bytes, "\"entries\"") && imp_holds(head, bytes, "\"profiling_name\"") &&
            imp_holds(head, bytes, "\"collective_seq_id\"")) ||
           (imp_holds(head, bytes, "\"pg_config\"") && imp_holds(head, bytes, "\"pg_status\""));
}

/* ---- values ------------------------------------------------------------------------------------ */

/* What is read of one entry. */
struct building {
    struct ij *json;
    size_t values; /* so far */
    bool cut;      /* it has more */
    bool failed;   /* no memory */
};

static void clear(struct pickle_value value)
{
    if (value.type == PICKLE_TEXT)
        free(value.text);
    if (value.type != PICKLE_LIST && value.type != PICKLE_DICT)
        return;
    for (size_t i = 0; i < value.box->count; i++)
        clear(value.box->value[i]);
    free(value.box->value);
    free(value.box);
}

static struct pickle_value text_value(struct building *building, struct ij_text text)
{
    size_t bytes = text.bytes < TEXT_MOST ? text.bytes : TEXT_MOST;
    struct pickle_text *copy = calloc(1, sizeof *copy + bytes + 1);
    building->failed |= !copy;
    if (!copy)
        return (struct pickle_value){.type = PICKLE_NONE};
    memcpy(copy->text, text.text, bytes);
    copy->bytes = bytes;
    return (struct pickle_value){.type = PICKLE_TEXT, .text = copy};
}

static void add(struct building *building, struct pickle_box *box, struct pickle_value value)
{
    if (building->failed ||
        imp_list_room((void **)&box->value, &box->room, box->count, sizeof *box->value)) {
        building->failed = true;
        clear(value);
        return;
    }
    box->value[box->count++] = value;
    building->values++;
}

static struct pickle_value read_value(struct building *building, int depth);

/* An object becomes keys and values one after the other, a list its elements. */
static struct pickle_value read_box(struct building *building, int depth)
{
    struct ij *json = building->json;
    bool dict = ij_next(json) == '{';
    struct pickle_value value = {.type = dict ? PICKLE_DICT : PICKLE_LIST,
                                 .box = calloc(1, sizeof *value.box)};
    building->failed |= !value.box;
    if (!value.box) {
        ij_skip(json);
        return (struct pickle_value){.type = PICKLE_NONE};
    }
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        if (building->values >= ENTRY_VALUES) {
            building->cut = true;
            if (dict)
                ij_key(json);
            ij_skip(json);
            continue;
        }
        if (dict)
            add(building, value.box, text_value(building, ij_key(json)));
        add(building, value.box, read_value(building, depth + 1));
    }
    return value;
}

static struct pickle_value read_number(struct ij *json)
{
    struct pickle_value value = {.type = PICKLE_OTHER};
    struct ij text = *json;
    if (ij_int(json, &value.number))
        value.type = PICKLE_INT;
    size_t bytes = (size_t)(json->at - text.at);
    if ((memchr(text.at, '.', bytes) || memchr(text.at, 'e', bytes)) &&
        ij_number(&text, &value.real))
        value.type = PICKLE_FLOAT;
    return value;
}

static struct pickle_value read_value(struct building *building, int depth)
{
    struct ij *json = building->json;
    char first = ij_next(json);
    struct pickle_value value = {.type = PICKLE_OTHER};
    if (first == '"')
        return text_value(building, ij_text_of(json));
    if ((first == '{' || first == '[') && depth < DEPTH_MOST && building->values < ENTRY_VALUES)
        return read_box(building, depth);
    if (first == '-' || (first >= '0' && first <= '9'))
        return read_number(json);
    if (first == 't' || first == 'f') {
        value.type = PICKLE_BOOL;
        value.number = first == 't';
    } else if (first == 'n') {
        value.type = PICKLE_NONE;
    }
    ij_skip(json);
    return value;
}

/* ---- the dump ---------------------------------------------------------------------------------- */

typedef int take(struct snapshot *snapshot, const struct pickle_box *dict);

/* Hands out each object of the list or object that a key of the dump has. */
static int each_of(struct snapshot *snapshot, struct ij *json, const char *wanted, take *take_one)
{
    int64_t cut = 0;
    int rc = 0;
    for (bool more = ij_enter(json); more && !rc; more = more && ij_more(json)) {
        if (!ij_is(ij_key(json), wanted)) {
            ij_skip(json);
            continue;
        }
        bool named = ij_next(json) == '{';
        for (bool next = ij_enter(json); next && !rc; next = next && ij_more(json)) {
            struct building building = {.json = json};
            if (named)
                ij_key(json);
            struct pickle_value value = read_value(&building, 0);
            if (building.failed)
                rc = TACHO_ENOMEM;
            else if (value.type == PICKLE_DICT && !json->bad)
                rc = take_one(snapshot, value.box);
            cut += building.cut;
            clear(value);
        }
    }
    return rc || !cut
               ? rc
               : imp_loss(snapshot->rows.run,
                          "entry with more than 65,536 values: the others were not read", cut);
}

static int read_dump(struct snapshot *snapshot, struct imp_run *run, const struct imp_whole *whole)
{
    struct ij groups = ij_of(whole->data, whole->bytes), entries = groups;
    int rc = imp_rows_begin(&snapshot->rows, run, snapshot_rank(run), STORE_ABSENT, NULL,
                            "PyTorch program");
    if (!rc)
        rc = imp_rows_string(&snapshot->rows, "(no stack)", 10, &snapshot->no_stack);
    if (!rc)
        rc = each_of(snapshot, &groups, "pg_config", snapshot_flight_group);
    if (!rc)
        rc = each_of(snapshot, &entries, "entries", snapshot_flight_entry);
    if (!rc && entries.bad) {
        run->truncated = true;
        rc = imp_loss(run, "file ends in the middle", 1);
    }
    if (!rc && !run->salvage_only)
        rc = store_run_set(run->db, "source.tool", "PyTorch flight recorder");
    return imp_rows_end(&snapshot->rows, rc);
}

static int nothing(const char *path, bool cut, struct tacho_error *err)
{
    if (cut)
        return tacho_fail(err, TACHO_EFORMAT, "copy it again: nothing before the cut could be read",
                          "%s: a flight recorder dump that is cut off", path);
    return tacho_fail(err, TACHO_EFORMAT,
                      "set TORCH_NCCL_TRACE_BUFFER_SIZE (TORCH_FR_BUFFER_SIZE) to 2000 or more "
                      "before the program starts",
                      "%s: a flight recorder dump without a collective", path);
}

/* Reads one dump; this is the `read` of the importer. */
static int read_file(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct imp_whole whole;
    int64_t slices = run->slices;
    struct snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (!snapshot)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    int rc = imp_whole_read(run, path, BYTES_MOST, &whole, err);
    if (!rc) {
        rc = store_begin(run->db);
        if (!rc)
            rc = read_dump(snapshot, run, &whole);
        if (!rc)
            rc = store_commit(run->db);
        if (!rc && run->slices == slices)
            rc = nothing(path, run->truncated, err);
        imp_whole_free(&whole);
    }
    snapshot_memory_clear(snapshot);
    free(snapshot);
    return rc;
}

const struct importer imp_flight = {
    .source = "torch-json", .recognises = recognises, .read = read_file};
