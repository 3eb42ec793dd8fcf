/* SPDX-License-Identifier: Apache-2.0
 *
 * What the reason of a row of the table `loss` says of events. Recorder and importers write the
 * reasons; what counts losses asks here, so that an import, a report and a verdict agree.
 */
#include <string.h>

#include "store/store.h"

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static bool begins_with_one(const char *text, const char *const *starts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strncmp(text, starts[i], strlen(starts[i])))
            return true;
    return false;
}

/* Done on purpose, only a name is shorter or an argument missing, or not of this run. */
static const char *const harmless[] = {"event not recorded: overhead",
                                       "not sampled: ",
                                       "not available to Nsight Systems: ",
                                       "slice not stored: outside of",
                                       "slice or counter sample not stored: file at --max-size",
                                       "name cut",
                                       "name lost",
                                       "payload cut",
                                       "domain merged",
                                       "not a trace: nothing was read",
                                       "earlier capture of the same worker",
                                       "argument is not valid JSON",
                                       "arguments beyond",
                                       "forward-backward flow arrow",
                                       "run metadata",
                                       "waits between streams not recorded",
                                       "pop without push"};

/* Cuts, damaged places and whole files. */
static const char *const places[] = {
    "file ends in the middle",
    "file ends between its planes",
    "gzip data damaged",
    "gzip data ends early",
    "text after the end of the trace",
    "text behind the end of the trace", /* what older versions wrote */
    "database page missing",
    "log beside the database",
    "plane or line is damaged",
    "compressed packets that are damaged",
    "entry with more than",
    "tags beyond",
    "cannot be read",
    "the file is empty",
    "capture in a format that has to be converted"};

enum store_loss_kind store_loss_kind(const char *source, const char *reason)
{
    /* What the machine did not let tacho sample or measure is no event of the program. */
    if (!strcmp(source, "system") || !strcmp(source, "peak") || !strncmp(source, "counter ", 8))
        return STORE_LOSS_NONE;
    if (strstr(reason, "(kept") || begins_with_one(reason, harmless, COUNT(harmless)))
        return STORE_LOSS_NONE;
    if (begins_with_one(reason, places, COUNT(places)) ||
        strstr(reason, "damaged: the rest of it was not read"))
        return STORE_LOSS_PLACES;
    return STORE_LOSS_EVENTS;
}
