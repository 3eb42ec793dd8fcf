/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory snapshots and flight recorders in the JSON report.
 */
#include "reports/json/json_private.h"

static void put_holder(struct rep_writer *writer, const void *row)
{
    const struct an_holder *holder = row;
    rep_put_text(writer, "name", holder->name);
    rep_put_text_or(writer, "category", holder->category,
                    "what grows, or may be done in place, has no category");
    rep_put_count(writer, "bytes", an_int(holder->bytes));
    rep_put_count(writer, "blocks", an_int(holder->blocks));
}

static void put_setting(struct rep_writer *writer, const void *row)
{
    const struct an_allocator_setting *setting = row;
    rep_put_text(writer, "setting", setting->setting);
    rep_put_count(writer, "reserved_peak_bytes", an_int(setting->reserved_peak));
    rep_put_count(writer, "requests", an_int(setting->requests));
    rep_put_value(writer, "saved_pct", setting->saved_pct);
    rep_put_text_or(writer, "fits", setting->fits,
                    "no request failed in the recording, or it does not say what was free");
}

/* One device: its totals, and the tables of settings, categories, holders and leaks. */
static void put_device(struct rep_writer *writer, const void *row)
{
    const struct an_allocator_device *device = row;
    const struct {
        const char *key;
        int64_t value;
    } counts[] = {{"device", device->device},
                  {"events", device->events},
                  {"requested_peak_bytes", device->requested_peak},
                  {"allocated_peak_bytes", device->allocated_peak},
                  {"reserved_peak_bytes", device->reserved_peak},
                  {"peak_time_ns", device->peak_time},
                  {"requested_bytes", device->requested},
                  {"allocated_bytes", device->allocated},
                  {"reserved_bytes", device->reserved},
                  {"segments", device->segments},
                  {"free_bytes", device->free},
                  {"largest_free_bytes", device->largest_free},
                  {"inactive_split_bytes", device->inactive_split},
                  {"rounding_bytes", device->allocated - device->requested},
                  {"failed_requests", device->failed},
                  {"replayed", device->replayed},
                  {"matched", device->matched}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        rep_put_count(writer, counts[i].key, an_int(counts[i].value));
    rep_put_value(writer, "fragmentation", device->fragmentation);
    rep_put_bool(writer, "exact", device->exact);
    rep_put_count(writer, "pool_bytes", device->pool);
    rep_put_count(writer, "pool_bound_bytes", device->pool_bound);
    rep_put_count(writer, "in_place_saved_bytes", an_int(device->in_place_saved));
    rep_put_text_or(writer, "best_setting",
                    device->best == SIZE_MAX ? NULL : device->setting[device->best].setting,
                    "no setting saves anything worth a change");
    REP_PUT_ROWS(writer, "settings", device->setting, device->setting_count, put_setting);
    REP_PUT_ROWS(writer, "categories", device->category, device->category_count, put_holder);
    REP_PUT_ROWS(writer, "holders", device->holder, device->holder_count, put_holder);
    REP_PUT_ROWS(writer, "leaks", device->leak, device->leak_count, put_holder);
    REP_PUT_ROWS(writer, "in_place", device->in_place, device->in_place_count, put_holder);
}

void rep_json_allocator(struct rep_writer *writer, const struct an_allocator *allocator)
{
    if (!rep_put_absent(writer, "allocator", allocator->reason))
        REP_PUT_ROWS(writer, "allocator", allocator->device, allocator->device_count, put_device);
}

static void put_group(struct rep_writer *writer, const void *row)
{
    const struct an_flight_group *group = row;
    const char *none = "no collective is unfinished";
    const char *empty = "a rank completed none that its buffer still holds";
    rep_put_text(writer, "name", group->name);
    rep_put_count(writer, "ranks", an_int(group->ranks));
    rep_put_count(writer, "ranks_seen", an_int(group->seen));
    rep_put_count(writer, "completed_low",
                  group->completed_low < 0 ? an_int_none(empty) : an_int(group->completed_low));
    rep_put_count(writer, "completed_high",
                  group->completed_high < 0 ? an_int_none(empty) : an_int(group->completed_high));
    rep_put_text_or(writer, "behind", group->behind, none);
    rep_put_text_or(writer, "missing", group->missing,
                    group->seen < group->ranks ? "no dump is known to be missing"
                                               : "every rank has a dump");
    rep_put_count(writer, "stuck", group->stuck < 0 ? an_int_none(none) : an_int(group->stuck));
    rep_put_text_or(writer, "stuck_collective", group->stuck_name, none);
    rep_put_text_or(writer, "stuck_at", group->stuck_at, "no stack was recorded");
    rep_put_text_or(writer, "mismatch", group->mismatch, "the ranks agree");
}

void rep_json_flight(struct rep_writer *writer, const struct an_flight *flight)
{
    if (!rep_put_absent(writer, "flight_recorder", flight->reason))
        REP_PUT_ROWS(writer, "flight_recorder", flight->group, flight->group_count, put_group);
}
