/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory snapshots: who holds memory at the peak, what is reserved beyond it, what settings would
 * give. Flight recorders: how far each group of ranks came.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "reports/page/table.h"
#include "reports/sections/sections.h"

#define FLIGHT_GROUPS_MOST 64

static void holder_name(char name[REP_NAME], const void *row)
{
    snprintf(name, REP_NAME, "%s", ((const struct an_holder *)row)->name);
}

static void holder_bytes(char cell[REP_CELL], const void *row)
{
    rep_cell_text(cell, BYTES_TEXT((double)((const struct an_holder *)row)->bytes));
}

REP_CELL_OF(holder_blocks, an_holder, rep_cell_integer, blocks)
REP_CELL_OF(holder_category, an_holder, rep_cell_text, category)

static void setting_name(char name[REP_NAME], const void *row)
{
    snprintf(name, REP_NAME, "%s", ((const struct an_allocator_setting *)row)->setting);
}

static void setting_peak(char cell[REP_CELL], const void *row)
{
    rep_cell_text(cell,
                  BYTES_TEXT((double)((const struct an_allocator_setting *)row)->reserved_peak));
}

static void setting_fits(char cell[REP_CELL], const void *row)
{
    const char *fits = ((const struct an_allocator_setting *)row)->fits;
    rep_cell_text(cell, fits ? fits : "");
}

REP_CELL_OF(setting_requests, an_allocator_setting, rep_cell_integer, requests)
REP_CELL_OF(setting_saved, an_allocator_setting, rep_cell_pct, saved_pct)

static void tables(struct page *page, const struct an_allocator_device *device)
{
    static const struct rep_column holders[] = {
        {"bytes", 10, holder_bytes}, {"blocks", 7, holder_blocks}, {"for", 30, holder_category}};
    static const struct rep_column settings[] = {{"reserved", 10, setting_peak},
                                                 {"saved %", 8, setting_saved},
                                                 {"segments", 9, setting_requests},
                                                 {"fits", 5, setting_fits}};
    const struct rep_table held = {.title = "Memory at the peak, by place in the program",
                                   .name = holder_name,
                                   REP_COLUMNS(holders),
                                   REP_ROWS_OF(device->holder, device->holder_count)};
    const struct rep_table tried = {.title = "The same allocations under PYTORCH_CUDA_ALLOC_CONF",
                                    .name = setting_name,
                                    REP_COLUMNS(settings),
                                    REP_ROWS_OF(device->setting, device->setting_count)};
    rep_table_write(page, &held);
    rep_table_write(page, &tried);
}

/* Places in the program with their blocks. */
static void places(struct page *page, const char *label, const struct an_holder *place,
                   size_t count)
{
    if (!count)
        return;
    page_label(page, label);
    for (size_t i = 0; i < count; i++)
        page_item(page, "%.120s: %" PRId64 " blocks, %s", place[i].name, place[i].blocks,
                  BYTES_TEXT((double)place[i].bytes));
    page_end(page);
}

/* What a device holds and reserves, at the peak and at the end. */
static void device_lines(struct page *page, const struct an_allocator_device *device)
{
    page_label(page, "Allocator");
    page_item(page, "gpu:%" PRId64 " at most %s held, %s reserved", device->device,
              BYTES_TEXT((double)device->requested_peak),
              BYTES_TEXT((double)device->reserved_peak));
    page_item(page, "at the end %s in %" PRId64 " segments, %s free, largest %s",
              BYTES_TEXT((double)device->reserved), device->segments,
              BYTES_TEXT((double)device->free), BYTES_TEXT((double)device->largest_free));
    if (device->fragmentation.valid)
        page_item(page, "fragmentation %.2f", device->fragmentation.value);
    page_item(page, "split and inactive %s, rounding %s",
              BYTES_TEXT((double)device->inactive_split),
              BYTES_TEXT((double)(device->allocated - device->requested)));
    page_item(page,
              device->exact ? "replay exact"
                            : "replay: %" PRId64 " of %" PRId64 " at the recorded address",
              device->matched, device->replayed);
    page_end(page);
    page_label(page, "  at the peak");
    for (size_t i = 0; i < device->category_count; i++)
        page_item(page, "%s %s (%.0f %%)", device->category[i].name,
                  BYTES_TEXT((double)device->category[i].bytes),
                  device->requested_peak > 0
                      ? 100.0 * (double)device->category[i].bytes / (double)device->requested_peak
                      : 0.0);
    page_end(page);
    places(page, "  grows at", device->leak, device->leak_count);
    if (device->pool.valid) {
        page_label(page, "  as one pool");
        page_item(page, "%s laid out ahead of time, no less than %s",
                  BYTES_TEXT((double)device->pool.value),
                  BYTES_TEXT((double)device->pool_bound.value));
        page_end(page);
    }
    places(page, "  in place", device->in_place, device->in_place_count);
    if (!device->in_place_count)
        return;
    page_label(page, "  then");
    page_item(page, "%s less at the peak (out=, inplace=True, or the operators with _)",
              BYTES_TEXT((double)device->in_place_saved));
    page_end(page);
}

void rep_section_allocator(struct page *page, const struct an_result *result)
{
    const struct an_allocator *allocator = &result->allocator;
    for (size_t i = 0; !allocator->reason && i < allocator->device_count; i++) {
        device_lines(page, &allocator->device[i]);
        tables(page, &allocator->device[i]);
    }
}

/* How far the ranks of a process group came, and what they wait for. */
static void flight_group(struct page *page, const struct an_flight_group *group)
{
    page_label(page, "Group");
    page_item(page, "%.40s: %" PRId64 " of %" PRId64 " ranks", group->name, group->seen,
              group->ranks);
    if (group->completed_high < 0)
        page_item(page, "none completed");
    else if (group->completed_low == group->completed_high)
        page_item(page, "all completed %" PRId64, group->completed_low);
    else if (group->completed_low < 0)
        page_item(page, "some completed none, others up to %" PRId64, group->completed_high);
    else
        page_item(page, "completed %" PRId64 " to %" PRId64, group->completed_low,
                  group->completed_high);
    if (group->stuck >= 0)
        page_item(page, "waits in %" PRId64 " (%s) for rank %.80s", group->stuck, group->stuck_name,
                  group->behind);
    if (*group->missing)
        page_item(page, "no dump of rank %.80s", group->missing);
    if (group->mismatch)
        page_item(page, "%.160s", group->mismatch);
    page_end(page);
}

void rep_section_flight(struct page *page, const struct an_result *result)
{
    const struct an_flight *flight = &result->flight;
    size_t count = flight->reason ? 0 : flight->group_count;
    for (size_t i = 0; i < count && i < FLIGHT_GROUPS_MOST; i++)
        flight_group(page, &flight->group[i]);
    if (count <= FLIGHT_GROUPS_MOST)
        return;
    page_label(page, "More");
    page_item(page, "%zu groups are not shown; --json lists all", count - FLIGHT_GROUPS_MOST);
    page_end(page);
}
