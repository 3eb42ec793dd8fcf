/* SPDX-License-Identifier: Apache-2.0
 *
 * --offload: arrays of a purpose lie in files.
 */
#include "workloads/offload.h"

#include <string.h>
#include <sys/statvfs.h>

#include "libtrain/base/arena.h"

static const enum lt_memory_tag offered[] = {LT_MEMORY_OPTIMIZER, LT_MEMORY_ACTIVATIONS};
#define OFFERED (sizeof offered / sizeof *offered)

/* The folder of a purpose in an option's text; NULL: it is of another one. */
static const char *folder_of(const char *text, enum lt_memory_tag tag)
{
    size_t length = strlen(lt_memory_name(tag));
    return strncmp(text, lt_memory_name(tag), length) == 0 && text[length] == '='
               ? text + length + 1
               : NULL;
}

int offload_open(const struct options *options, struct tacho_error *err)
{
    for (size_t i = 0; i < options->offload.count; i++) {
        const char *text = options->offload.text[i], *folder = NULL;
        size_t at = 0;
        while (at < OFFERED && !(folder = folder_of(text, offered[at])))
            at++;
        if (!folder || !*folder)
            return tacho_fail(err, TACHO_EUSAGE, "optimizer=FOLDER or activations=FOLDER",
                              "--offload %s: not understood", text);
        if (strcmp(options->device, "cpu") != 0)
            return tacho_fail(err, TACHO_ENOTSUP, "leave it out, or --device",
                              "--offload: a device has memory of its own");
        if (lt_arena_offload(offered[at], folder))
            return tacho_fail(err, TACHO_EIO, "give a folder on a disk that can be written to",
                              "%s: no file for --offload can be made there", folder);
    }
    return 0;
}

int offload_plan(const struct options *options, struct lt_memory_plan *plan, uint64_t *bytes,
                 struct tacho_error *err)
{
    *bytes = 0;
    for (size_t i = 0; i < options->offload.count; i++)
        for (size_t at = 0; at < OFFERED; at++) {
            const char *folder = folder_of(options->offload.text[i], offered[at]);
            struct statvfs disk;
            uint64_t needed = plan->tag[offered[at]];
            if (!folder)
                continue;
            plan->tag[offered[at]] = 0;
            *bytes += needed;
            if (statvfs(folder, &disk) == 0 &&
                (double)disk.f_bavail * (double)disk.f_frsize < (double)needed)
                return tacho_fail(err, TACHO_ENOSPACE, "give a folder on a disk with more room",
                                  "%s: --offload needs %.1f MiB there", folder,
                                  (double)needed / (1 << 20));
        }
    return 0;
}
