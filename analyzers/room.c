/* SPDX-License-Identifier: Apache-2.0
 *
 * A result that a child process computes: a room is an arena that both processes have, and what the
 * child says of its analysis at the beginning of it.
 */
#include "analyzers/analyzers.h"
#include "analyzers/base/arena.h"

struct an_room {
    struct an_arena *arena; /* which the room itself lies in */
    struct an_result *result;
    int code; /* of the analysis; TACHO_EINTERNAL until it has ended */
    struct tacho_error error;
};

struct an_room *an_room_new(size_t bytes)
{
    struct an_arena *arena = an_arena_shared(bytes);
    struct an_room *room = NULL;
    if (arena)
        room = an_arena_zero(arena, 1, sizeof *room);
    if (!room) {
        an_arena_free(arena);
        return NULL;
    }
    room->arena = arena;
    room->code = TACHO_EINTERNAL;
    return room;
}

void an_room_fill(struct an_room *room, const char *path, const struct an_options *options)
{
    store_reader *reader = NULL;
    struct an_options own = *options;
    own.into = room->arena;
    int code = store_open(path, &reader, &room->error);
    if (!code)
        code = an_analyze(reader, &own, &room->result, &room->error);
    store_reader_close(reader);
    room->code = code;
}

int an_room_take(struct an_room *room, struct an_result **out, struct tacho_error *err)
{
    int code = room->code;
    *out = NULL;
    if (!code) {
        *out = room->result;
        return 0;
    }
    if (room->error.code)
        *err = room->error;
    else
        tacho_fail(err, code, NULL, "the analysis has not ended");
    an_room_free(room);
    return code;
}

void an_room_free(struct an_room *room)
{
    if (room)
        an_arena_free(room->arena);
}
