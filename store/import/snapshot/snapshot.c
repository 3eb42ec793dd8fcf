/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of pickles of PyTorch: memory snapshots (torch.cuda.memory._dump_snapshot) and dumps
 * of the NCCL flight recorder. What a dict is, its keys say.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/pickle/pickle.h"
#include "store/import/snapshot/snapshot_import.h"
#include "store/import/snapshot/snapshot_private.h"

static bool recognises(const unsigned char *head, size_t bytes)
{
    return bytes >= 3 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5;
}

/* The divisions of roundup_power2_divisions as one text, "0,4,4...": by size, for requests from 1
 * MiB, 2 MiB, 4 MiB ... on. The snapshot has a dict whose keys are these MiB. */
static int round_settings(struct imp_run *run, const struct pickle_value *divisions)
{
    char key[16], text[16 * 22] = "";
    int length = 0;
    bool any = false;
    for (int i = 0; i < 16; i++) {
        snprintf(key, sizeof key, "%d", 1 << i);
        int64_t number = pickle_int(divisions->box, key);
        number = number > 0 ? number : 0;
        any |= number > 0;
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%" PRId64, i ? "," : "",
                           number);
    }
    return any ? store_run_set(run->db, "allocator.roundup_power2_divisions", text) : 0;
}

/* The settings of the allocator, as the snapshot has them. */
static int settings(struct snapshot *snapshot, const struct pickle_box *dict)
{
    static const char *const keys[] = {"max_split_size", "expandable_segments"};
    struct imp_run *run = snapshot->rows.run;
    static const char *const texts[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
                                        "PYTORCH_NPU_ALLOC_CONF"};
    const struct pickle_value *divisions = pickle_get(dict, "roundup_power2_divisions");
    const struct pickle_text *text = NULL;
    char key[96];
    int rc = 0;
    if (run->salvage_only)
        return 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts && !text; i++)
        text = pickle_text(dict, texts[i]);
    if (text && text->bytes)
        rc = store_run_set(run->db, "allocator.settings", text->text);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !rc; i++) {
        int64_t value = pickle_int(dict, keys[i]);
        snprintf(key, sizeof key, "allocator.%s", keys[i]);
        if (value != STORE_ABSENT)
            rc = store_run_set_int(run->db, key, value);
    }
    if (!rc && divisions && divisions->type == PICKLE_DICT)
        rc = round_settings(run, divisions);
    return rc;
}

/* Of several dumps each is a rank's: the number at the end of its name, where that does not say
 * "rank" ("_dump_12", "mem_3.pickle"). STORE_ABSENT: it has none. */
int64_t snapshot_rank(const struct imp_run *run)
{
    const char *name = basename(run->path), *end = strchr(name, '.');
    end = end ? end : name + strlen(name);
    const char *digits = end;
    while (digits > name && digits[-1] >= '0' && digits[-1] <= '9')
        digits--;
    if (!run->many || digits == end || end - digits > 6 || digits == name ||
        !strchr("_-", digits[-1]) || imp_rank_in_name(run->path) != STORE_ABSENT)
        return STORE_ABSENT;
    return strtol(digits, NULL, 10);
}

/* A dict that is whole: takes what it is. Frames are kept until their stack is read. */
static bool on_dict(void *ctx, struct pickle_box *dict, size_t place, int *code)
{
    struct snapshot *snapshot = ctx;
    if (pickle_text(dict, "action"))
        *code = snapshot_event(snapshot, dict, place);
    else if (pickle_text(dict, "filename") && pickle_get(dict, "line"))
        return false;
    else if (pickle_get(dict, "total_size") && pickle_get(dict, "blocks"))
        *code = snapshot_segment(snapshot, dict);
    else if (pickle_text(dict, "state") && pickle_get(dict, "size"))
        *code = snapshot_block(snapshot, dict);
    else if (pickle_text(dict, "state") && pickle_get(dict, "profiling_name"))
        *code = snapshot_flight_entry(snapshot, dict);
    else if (pickle_get(dict, "ranks") && pickle_text(dict, "name"))
        *code = snapshot_flight_group(snapshot, dict);
    else if (pickle_text(dict, "stage") && pickle_text(dict, "name"))
        *code = snapshot_annotation(snapshot, dict);
    else if (pickle_get(dict, "max_split_size"))
        *code = settings(snapshot, dict);
    else
        return false;
    return true;
}

/* Says why a pickle of which nothing was read is none of these. */
static int refuse(const struct snapshot *snapshot, const char *path, bool truncated,
                  struct tacho_error *err)
{
    if (truncated)
        return tacho_fail(err, TACHO_EFORMAT, "copy it again: nothing before the cut could be read",
                          "%s: a pickle that is cut off", path);
    if (snapshot->segments_seen)
        return tacho_fail(err, TACHO_EFORMAT,
                          "record a history: torch.cuda.memory._record_memory_history() before the "
                          "steps, _dump_snapshot() after them",
                          "%s: a memory snapshot without a block in use and without a history",
                          path);
    return tacho_fail(
        err, TACHO_ENOTSUP,
        "give a file of torch.cuda.memory._dump_snapshot(), or a dump of the NCCL "
        "flight recorder (TORCH_NCCL_DUMP_ON_TIMEOUT)",
        "%s: a Python pickle, but neither a memory snapshot nor a flight recorder dump", path);
}

static int write_keys(const struct snapshot *snapshot)
{
    struct imp_run *run = snapshot->rows.run;
    if (run->salvage_only)
        return 0;
    return store_run_set(run->db, "source.tool",
                         snapshot->entries ? "PyTorch flight recorder" : "PyTorch memory snapshot");
}

/* Reads one pickle; this is the `read` of the importer. */
static int read_pickle(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct snapshot *snapshot = calloc(1, sizeof *snapshot);
    struct pickle_reader reader = {.run = run, .dict = on_dict, .ctx = snapshot};
    int64_t slices = run->slices;
    bool truncated = false;
    if (!snapshot)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    int rc = store_begin(run->db);
    if (!rc)
        rc = imp_rows_begin(&snapshot->rows, run, snapshot_rank(run), STORE_ABSENT, NULL,
                            "PyTorch program");
    if (!rc)
        rc = imp_rows_string(&snapshot->rows, "(no stack)", 10, &snapshot->no_stack);
    if (!rc)
        rc = pickle_read(path, &reader, &truncated, err);
    if (!rc)
        rc = snapshot_finish(snapshot);
    if (!rc && truncated) {
        run->truncated = true;
        rc = imp_loss(run, "file ends in the middle", 1);
    }
    if (!rc)
        rc = write_keys(snapshot);
    rc = imp_rows_end(&snapshot->rows, rc);
    if (!rc)
        rc = store_commit(run->db);
    if (!rc && run->slices == slices)
        rc = refuse(snapshot, path, truncated, err);
    snapshot_memory_clear(snapshot);
    free(snapshot);
    return rc;
}

const struct importer imp_snapshot = {
    .source = "torch-pickle", .recognises = recognises, .read = read_pickle};
