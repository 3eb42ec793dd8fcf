/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a pickle, as a stream, and its errors.
 */
#include <string.h>

#include "store/import/pickle/pickle_private.h"

static bool fill(struct pickle_machine *machine)
{
    size_t got = 0;
    int code = imp_input_read(machine->in, machine->buffer, PICKLE_BUFFER, &got, machine->err);
    machine->at = 0;
    machine->end = code ? 0 : got;
    machine->filled += machine->end;
    if (!code) {
        int64_t now = imp_input_position(machine->in);
        code = imp_progress(machine->reader->run, (now - machine->reported) / 2);
        machine->reported = now;
    }
    machine->code = machine->code ? machine->code : code;
    return !machine->code && got > 0;
}

/* Copies bytes of the file; `to` NULL: skips them. False: the file ends before. */
bool pickle_take(struct pickle_machine *machine, void *to, uint64_t bytes)
{
    unsigned char *out = to;
    while (bytes) {
        if (machine->at == machine->end && !fill(machine)) {
            machine->truncated = true;
            return false;
        }
        size_t some = machine->end - machine->at;
        if (some > bytes)
            some = (size_t)bytes;
        if (out) {
            memcpy(out, machine->buffer + machine->at, some);
            out += some;
        }
        machine->at += some;
        bytes -= some;
    }
    return true;
}

/* The same as pickle_take_number, across the end of the buffer. */
bool pickle_take_cut_number(struct pickle_machine *machine, size_t bytes, uint64_t *out)
{
    unsigned char raw[8] = {0};
    if (!pickle_take(machine, raw, bytes))
        return false;
    memcpy(out, raw, sizeof raw);
    *out = le64toh(*out);
    return true;
}

int pickle_refuse(struct pickle_machine *machine, int code, const char *hint, const char *what)
{
    if (!machine->code)
        machine->code = tacho_fail(machine->err, code, hint, "%s: %s", machine->path, what);
    return machine->code;
}

int pickle_refuse_limit(struct pickle_machine *machine, const char *what)
{
    return pickle_refuse(machine, TACHO_EFORMAT, "record fewer events: max_entries=100000", what);
}

int pickle_open_input(struct pickle_machine *machine)
{
    imp_input_close(machine->in);
    machine->in = NULL;
    machine->at = machine->end = machine->puts = machine->filled = 0;
    machine->reported = 0;
    machine->truncated = false;
    return machine->code = imp_input_open(machine->path, &machine->in, machine->err);
}
