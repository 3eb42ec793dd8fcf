/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of a snapshot as stacks of the store. Frames of the interpreter and of C++ are left out
 * where the stack has Python frames: they say how Python works, not where the program was.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/list.h"
#include "store/import/snapshot/snapshot_private.h"
#include "tacho_hash.h"

#define FRAMES_MOST 256

/* Is a file one of Python? */
static bool is_python(const struct pickle_text *file)
{
    return file && (strstr(file->text, ".py") || file->text[0] == '<');
}

/* Is it a file of a library that programs call, not of the program? */
static bool is_library(const struct pickle_text *file)
{
    static const char *const parts[] = {"/torch/",     "site-packages/", "dist-packages/",
                                        "/lib/python", "<frozen",        "<string>"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(file->text, parts[i]))
            return true;
    return false;
}

/* Is it a frame that every allocation has: of the unwinder, of the allocator, of dispatching? */
static bool is_noise(const struct pickle_text *name)
{
    static const char *const parts[] = {
        "torch::unwind", "CapturedTraceback", "gather_with_cpp", "CachingAllocator",
        "c10::",         "at::detail::",      "at::empty",       "::redispatch",
        "wrapper_CUDA",  "create_out",        "structured_",     "TensorIteratorBase"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!name || strstr(name->text, parts[i]))
            return true;
    return false;
}

/* The string of a frame, "file.py(12): name", kept with the frame where that is shared. */
static int frame_string(struct snapshot *snapshot, struct pickle_box *frame, int64_t *string)
{
    const struct pickle_text *file = pickle_text(frame, "filename"),
                             *name = pickle_text(frame, "name");
    int64_t line = pickle_int(frame, "line");
    char text[1024];
    if (frame->note) {
        *string = frame->note;
        return 0;
    }
    const char *path = file && file->bytes ? file->text : "??";
    int length = is_python(file) ? snprintf(text, sizeof text, "%.700s(%lld): %.250s", path,
                                            (long long)line, name ? name->text : "?")
                                 : snprintf(text, sizeof text, "%.900s", name ? name->text : "?");
    size_t bytes = length < (int)sizeof text ? (size_t)length : sizeof text - 1;
    int rc = imp_rows_string(&snapshot->rows, text, bytes, string);
    frame->note = rc ? 0 : *string;
    return rc;
}

/* Fills `kept` with the frames that count, innermost first; *top is the one that names the stack.
 */
static size_t choose_frames(const struct pickle_box *frames, struct pickle_box **kept, size_t *top)
{
    size_t count = 0, python = 0, own = SIZE_MAX, first = SIZE_MAX;
    for (size_t i = 0; i < frames->count; i++)
        if (frames->value[i].type == PICKLE_DICT)
            python += is_python(pickle_text(frames->value[i].box, "filename"));
    for (size_t i = 0; i < frames->count && count < FRAMES_MOST; i++) {
        if (frames->value[i].type != PICKLE_DICT)
            continue;
        struct pickle_box *frame = frames->value[i].box;
        const struct pickle_text *file = pickle_text(frame, "filename");
        if (python ? !is_python(file) : is_noise(pickle_text(frame, "name")))
            continue;
        if (python && own == SIZE_MAX && !is_library(file))
            own = count;
        first = first == SIZE_MAX ? count : first;
        kept[count++] = frame;
    }
    *top = own != SIZE_MAX ? own : first;
    return count;
}

/* What tells a frame from others: where it is in memory, if it is one object, or where its texts
 * are, and its line. 0: they do not live until the end. */
static uint64_t identity(struct pickle_value value)
{
    if (value.type != PICKLE_DICT)
        return 0;
    if (value.box->shared)
        return (uintptr_t)value.box;
    const struct pickle_text *file = pickle_text(value.box, "filename"),
                             *name = pickle_text(value.box, "name");
    if (!file || !name || !file->shared || !name->shared)
        return 0;
    uint64_t hash = tacho_hash_number(TACHO_HASH_BEGIN, (uintptr_t)file);
    hash = tacho_hash_number(hash, (uintptr_t)name);
    return tacho_hash_number(hash, (uint64_t)pickle_int(value.box, "line"));
}

/* Adds the frames to a key. False: one of them could be another one later. */
static bool add_frames(const struct pickle_box *frames, struct snapshot_key *key)
{
    for (size_t i = 0; i < frames->count; i++) {
        uint64_t frame = identity(frames->value[i]);
        if (!frame)
            return false;
        snapshot_key_add(key, frame);
    }
    return true;
}

/* Makes the stack of frames that were not seen before. */
static int make_stack(struct snapshot *snapshot, const struct pickle_box *frames,
                      struct snapshot_stack *stack)
{
    struct pickle_box *kept[FRAMES_MOST];
    int64_t string;
    size_t top, count = choose_frames(frames, kept, &top);
    int rc = 0;
    for (size_t i = count; i-- > 0 && !rc;) {
        rc = frame_string(snapshot, kept[i], &string);
        if (!rc && i == top)
            stack->name = string;
        if (!rc && !snapshot->rows.run->salvage_only)
            rc = store_stack(snapshot->rows.run->db, stack->id, string, &stack->id);
    }
    return rc;
}

/* Keeps a stack for the next time that it comes. */
static int keep_stack(struct snapshot *snapshot, struct snapshot_stack stack, int64_t *place)
{
    if (imp_list_room((void **)&snapshot->known, &snapshot->known_room, snapshot->known_count,
                      sizeof stack))
        return TACHO_ENOMEM;
    snapshot->known[snapshot->known_count++] = stack;
    *place = (int64_t)snapshot->known_count;
    return 0;
}

int snapshot_stack(struct snapshot *snapshot, struct pickle_box *frames,
                   struct snapshot_stack *stack)
{
    struct snapshot_key key = SNAPSHOT_KEY_BEGIN;
    const int64_t *found = NULL;
    *stack = (struct snapshot_stack){STORE_ABSENT, snapshot->no_stack};
    if (!frames || !frames->count)
        return 0;
    int64_t place = frames->note; /* of a list that comes again */
    bool keep = !place && add_frames(frames, &key);
    if (keep && (found = imp_map_find(&snapshot->stacks, key.first, key.second)))
        place = *found;
    if (!place) {
        int rc = make_stack(snapshot, frames, stack);
        if (rc || (!keep && !frames->shared))
            return rc;
        rc = keep_stack(snapshot, *stack, &place);
        if (!rc && keep)
            rc = imp_map_put(&snapshot->stacks, key.first, key.second, place);
        if (rc)
            return rc;
    }
    *stack = snapshot->known[place - 1];
    if (frames->shared)
        frames->note = place;
    return 0;
}
