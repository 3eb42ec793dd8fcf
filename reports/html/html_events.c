/* SPDX-License-Identifier: Apache-2.0
 *
 * The events of the zoomable timeline as data of the page: for each track one text in base64 of
 * numbers of seven bits a byte, the lowest first. An event is the distance of its start from that
 * of the event before, its duration, and 8 x kind + class; all times are in `unit` ns. timeline.js
 * reads and draws them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "reports/html/html_private.h"
#include "reports/words/kernel_name.h"
#include "reports/words/phrase.h"
#include "tacho_error.h"

#define UNITS_MOST  134217728 /* of a window: finer times cost bytes */
#define BYTES_MOST  700000    /* of all events, before base64 */
#define KINDS_BYTES 160000    /* of the names of kinds */
#define SHORT_NAME  60        /* columns; a name in a box is not longer */
#define FULL_NAME   160

/* ---- numbers as text ------------------------------------------------------------------------- */

struct packed {
    unsigned char *byte;
    size_t count, room;
    bool failed;
};

static void put_byte(struct packed *packed, unsigned char byte)
{
    if (packed->count == packed->room) {
        size_t room = packed->room ? 2 * packed->room : 4096;
        unsigned char *more = realloc(packed->byte, room);
        if (!more) {
            packed->failed = true;
            return;
        }
        packed->byte = more;
        packed->room = room;
    }
    packed->byte[packed->count++] = byte;
}

static void put_number(struct packed *packed, uint64_t number)
{
    for (; number > 127; number >>= 7)
        put_byte(packed, (unsigned char)(number & 127) | 128);
    put_byte(packed, (unsigned char)number);
}

static void put_base64(FILE *out, const struct packed *packed)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < packed->count; i += 3) {
        uint32_t bits = 0;
        size_t left = packed->count - i < 3 ? packed->count - i : 3;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (k < left ? packed->byte[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            fputc(k <= left ? letters[bits >> (18 - 6 * k) & 63] : '=', out);
    }
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* Kinds in the order of the page, the most frequent first: small numbers are short. */
struct kinds {
    const struct an_events *events;
    uint32_t *place; /* of a kind on the page */
    size_t shown;    /* the rest has no name on the page */
};

struct counted {
    uint32_t kind, count;
};

static int most_first(const void *left, const void *right)
{
    const struct counted *first = left, *second = right;
    if (first->count != second->count)
        return first->count > second->count ? -1 : 1;
    return (first->kind > second->kind) - (first->kind < second->kind);
}

/* A name that is short enough for a box: of a C++ kernel without its types, of a frame of Python
 * ("model.py(12): forward") the function. */
static void short_name(char *out, size_t size, const char *name)
{
    const char *function = strstr(name, "): ");
    if (function && function[3] && function[3] != '<')
        snprintf(out, size, "%s", function + 3);
    else if (!strncmp(name, "void ", 5) || (strstr(name, "::") && strchr(name, '(')))
        rep_kernel_name(out, size, name);
    else
        snprintf(out, size, "%s", name);
}

/* A kind as [name in a box, full name or 0, type, pass, FLOPs, bytes]; -1: not known. */
static void write_kind(FILE *out, const struct an_event_kind *kind)
{
    char name[1200];
    short_name(name, sizeof name, rep_or(kind->name, "(unnamed)"));
    fputc('[', out);
    html_json(out, name, SHORT_NAME);
    fputc(',', out);
    if (strcmp(name, kind->name) != 0 || strlen(name) > SHORT_NAME)
        html_json(out, rep_or(kind->name, "(unnamed)"), FULL_NAME);
    else
        fputc('0', out);
    fputc(',', out);
    html_json(out, kind->dtype, 16);
    fputc(',', out);
    html_json(out, kind->pass, 16);
    fprintf(out, ",%" PRId64 ",%" PRId64 "]", kind->flops >= 0 ? kind->flops : -1,
            kind->bytes >= 0 ? kind->bytes : -1);
}

/* Writes the kinds that fit, and notes the place of each. 0 or TACHO_ENOMEM. */
static int write_kinds(FILE *out, struct kinds *kinds)
{
    const struct an_events *events = kinds->events;
    struct counted *all = calloc(events->kind_count, sizeof *all);
    kinds->place = calloc(events->kind_count, sizeof *kinds->place);
    if (!all || !kinds->place) {
        free(all);
        return TACHO_ENOMEM;
    }
    for (uint32_t i = 0; i < events->kind_count; i++)
        all[i].kind = i;
    for (size_t k = 0; k < events->track_count; k++)
        for (size_t i = 0; i < events->track[k].count; i++)
            all[events->track[k].event[i].kind].count++;
    qsort(all, events->kind_count, sizeof *all, most_first);
    long begin = ftell(out);
    fputs("\"kinds\":[", out);
    for (; kinds->shown < events->kind_count; kinds->shown++) {
        if (!all[kinds->shown].count || ftell(out) - begin > KINDS_BYTES)
            break;
        fputs(kinds->shown ? ",\n" : "", out);
        write_kind(out, &events->kind[all[kinds->shown].kind]);
    }
    fputs(",\n[\"(of many names)\",0,\"\",\"\",-1,-1]],", out);
    for (size_t i = 0; i < events->kind_count; i++)
        kinds->place[all[i].kind] = (uint32_t)(i < kinds->shown ? i : kinds->shown);
    free(all);
    return 0;
}

/* ---- tracks ---------------------------------------------------------------------------------- */

/* Ends are rounded as starts are, so that what is nested stays nested. */
static size_t pack_track(struct packed *packed, const struct kinds *kinds,
                         const struct an_event_track *track, int64_t unit, int64_t least_ns)
{
    int64_t before = 0;
    size_t count = 0;
    packed->count = 0;
    for (size_t i = 0; i < track->count; i++) {
        const struct an_event *event = &track->event[i];
        int64_t from = event->start_ns / unit, to = (event->start_ns + event->dur_ns) / unit;
        if (event->dur_ns < least_ns)
            continue;
        put_number(packed, (uint64_t)(from - before));
        put_number(packed, (uint64_t)(to - from));
        put_number(packed, (uint64_t)kinds->place[event->kind] * 8 + (event->what & 7));
        before = from;
        count++;
    }
    return count;
}

static size_t pack_path(struct packed *packed, const struct an_event_track *track, int64_t unit)
{
    int64_t before = 0;
    packed->count = 0;
    for (size_t i = 0; i < track->path_count; i++) {
        int64_t from = track->path[i].start_ns / unit,
                to = (track->path[i].start_ns + track->path[i].dur_ns) / unit;
        put_number(packed, (uint64_t)(from - before));
        put_number(packed, (uint64_t)(to - from));
        before = to;
    }
    return track->path_count;
}

/* Finds how long an event must be so that all of them fit, counting the bytes. */
static int64_t find_least(struct packed *packed, const struct kinds *kinds, int64_t unit)
{
    const struct an_events *events = kinds->events;
    for (int64_t least = 0;; least = least ? 2 * least : unit) {
        size_t bytes = 0;
        for (size_t k = 0; k < events->track_count; k++) {
            pack_track(packed, kinds, &events->track[k], unit, least);
            bytes += packed->count;
            pack_path(packed, &events->track[k], unit);
            bytes += packed->count;
        }
        if (bytes <= BYTES_MOST || packed->failed || least > events->window_ns)
            return least;
    }
}

static size_t rank_place(const struct an_events *events, int64_t rank)
{
    for (size_t i = 0; i < events->rank_count; i++)
        if (events->rank[i].rank == rank)
            return i;
    return 0;
}

/* Writes a track; returns the number of its events that are left out. */
static size_t write_track(FILE *out, struct packed *packed, const struct kinds *kinds, size_t k,
                          int64_t unit, int64_t least_ns)
{
    const struct an_event_track *track = &kinds->events->track[k];
    fprintf(out, "%s{\"name\":", k ? ",\n" : "");
    html_json(out, track->name, 60);
    fputs(",\"kind\":", out);
    html_json(out, track->kind, 20);
    fputs(",\"device\":", out);
    html_json(out, track->device, 20);
    size_t count = pack_track(packed, kinds, track, unit, least_ns);
    fprintf(out, ",\"rank\":%zu,\"main\":%d,\"n\":%zu,\"data\":\"",
            rank_place(kinds->events, track->rank), track->main, count);
    put_base64(out, packed);
    fprintf(out, "\",\"p\":%zu,\"path\":\"", pack_path(packed, track, unit));
    put_base64(out, packed);
    fputs("\"}", out);
    return track->count - count;
}

/* Writes all tracks. Returns how many events are left out. */
static int64_t write_tracks(FILE *out, const struct kinds *kinds, int64_t unit, int64_t *least_ns,
                            bool *failed)
{
    struct packed packed = {0};
    int64_t omitted = kinds->events->omitted;
    *least_ns = find_least(&packed, kinds, unit);
    fputs("\"tracks\":[", out);
    for (size_t k = 0; k < kinds->events->track_count; k++)
        omitted += (int64_t)write_track(out, &packed, kinds, k, unit, *least_ns);
    fputs("],", out);
    *failed = packed.failed;
    free(packed.byte);
    return omitted;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void write_ranks(FILE *out, const struct an_events *events)
{
    fputs("\"ranks\":[", out);
    for (size_t i = 0; i < events->rank_count; i++)
        fprintf(out, "%s[%" PRId64 ",\"%s\"]", i ? "," : "", events->rank[i].rank,
                events->rank[i].why);
    fputs("],", out);
}

static void write_steps(FILE *out, const struct an_events *events, int64_t unit)
{
    fputs("\"steps\":[", out);
    for (size_t i = 0; i < events->step_count; i++) {
        const struct an_event_step *step = &events->step[i];
        fprintf(out, "%s[%zu,%" PRId64 ",%" PRId64 ",%" PRId64 ",%d]", i ? "," : "",
                rank_place(events, step->rank), step->index, step->start_ns / unit,
                step->dur_ns / unit, step->typical);
    }
    fputs("],", out);
}

/* A finding's mark: its number, id, track, start and duration, and what it claims. */
static void write_marks(FILE *out, const struct an_result *result, int64_t unit)
{
    const struct an_events *events = &result->events;
    fputs("\"marks\":[", out);
    for (size_t i = 0; i < events->mark_count; i++) {
        const struct an_event_mark *mark = &events->mark[i];
        const struct an_finding *finding = &result->findings[mark->finding];
        fprintf(out, "%s[%zu,", i ? "," : "", mark->finding + 1);
        html_json(out, finding->id, 60);
        fprintf(out, ",%zu,%" PRId64 ",%" PRId64 ",", mark->track, mark->start_ns / unit,
                (mark->start_ns + mark->dur_ns) / unit - mark->start_ns / unit);
        html_json(out, finding->claim, 300);
        fputc(']', out);
    }
    fputs("]},\n", out);
}

/* The unit of times in the page, in ns: a power of ten that keeps every time below UNITS_MOST. */
static int64_t unit_of(int64_t window_ns)
{
    int64_t unit = 1;
    while (window_ns / unit > UNITS_MOST)
        unit *= 10;
    return unit;
}

/* What of the run the timeline shows, in words. */
static void write_scope(struct page *page, const struct an_events *events, int64_t omitted,
                        int64_t least_ns)
{
    const char *part = events->step_count ? "the steps around the typical one" : "the beginning";
    fprintf(page->out, "<p class=\"more\">Shown: %s", events->whole ? "the whole run" : part);
    if (!events->whole)
        fprintf(page->out, ", %s from %s on", TIME_TEXT((double)events->window_ns),
                TIME_TEXT(1e9 * events->start_s));
    if (events->ranks_omitted > 0)
        fprintf(page->out, "; %" PRId64 " other ranks are in the tables only",
                events->ranks_omitted);
    if (omitted)
        fprintf(page->out, "; %" PRId64 " events shorter than %s are excluded", omitted,
                TIME_TEXT((double)(least_ns > events->least_ns ? least_ns : events->least_ns)));
    fputs(".</p>\n", page->out);
}

static unsigned used_classes(const struct an_events *events)
{
    unsigned used = 0;
    for (size_t k = 0; k < events->track_count; k++)
        for (size_t i = 0; i < events->track[k].count; i++)
            used |= 1u << events->track[k].event[i].what;
    return used;
}

void html_events(struct page *page, const struct an_result *result)
{
    const struct an_events *events = &result->events;
    struct html *html = page->format;
    struct kinds kinds = {.events = events};
    bool failed = false;
    if (events->reason || !events->track_count)
        return;
    int64_t unit = unit_of(events->window_ns), least_ns = 0;
    html_block(page);
    fprintf(html->data, "\"events\":{\"unit\":%" PRId64 ",\"ns\":%" PRId64 ",\"start\":%.9g,", unit,
            events->window_ns, events->start_s);
    if (!write_kinds(html->data, &kinds)) {
        write_ranks(html->data, events);
        int64_t omitted = write_tracks(html->data, &kinds, unit, &least_ns, &failed);
        write_steps(html->data, events, unit);
        write_marks(html->data, result, unit);
        fputs("<div class=\"zoom\" id=\"zoom\" hidden=\"\">\n", page->out);
        write_scope(page, events, omitted, least_ns);
        fputs("</div>\n", page->out);
        if (result->timeline.reason) /* no drawing below it that says so */
            html_classes(page, used_classes(events));
    }
    free(kinds.place);
    html->failed = html->failed || failed || !kinds.place;
}
