/* SPDX-License-Identifier: Apache-2.0
 *
 * Why devices, or the threads that run steps, do not compute: the section compute_absent of
 * tacho-report/1.
 */
#include "reports/json/json_private.h"

#define CAUSES_MOST 200

static const char *const part_keys[] = {
#define PART_KEY(name, key, text) #key "_us",
    AN_ABSENT_MAP(PART_KEY)
#undef PART_KEY
};
static const char *const occupied_keys[] = {
#define PART_KEY(name, key, text) #key,
    AN_ABSENT_MAP(PART_KEY)
#undef PART_KEY
};
static const char *const occupant_keys[AN_OCCUPANTS] = {"communication_us", "copy_us", "opaque_us",
                                                        "nothing_us"};
static const char *const blocking_keys[AN_BLOCKING_COUNT] = {"proven", "inferred", "unknown"};

static void put_cause(struct rep_writer *writer, const void *item)
{
    const struct an_absent_cause *row = item;
    rep_put_text(writer, "cause", row->cause);
    rep_put_text_or(writer, "name", row->name, "no range was open");
    rep_put_us(writer, "us", row->ns);
}

/* What the host did while the device did not compute, the largest first. Causes above the limit
 * are summed up. */
static void put_causes(struct rep_writer *writer, const struct an_absent *absent)
{
    if (rep_put_absent(writer, "causes", absent->causes_reason))
        return;
    size_t shown = absent->cause_count < CAUSES_MOST ? absent->cause_count : CAUSES_MOST;
    int64_t rest = 0;
    REP_PUT_ROWS(writer, "causes", absent->causes, shown, put_cause);
    for (size_t i = shown; i < absent->cause_count; i++)
        rest += absent->causes[i].ns;
    rep_put_us(writer, "other_causes_us", rest);
}

/* One device or thread: the parts of its non-compute time, what occupied the device in each
 * part, communication that compute waits for, and the causes on the host. */
static void put_row(struct rep_writer *writer, const void *item)
{
    const struct an_absent *absent = item;
    rep_put_int(writer, "rank", absent->rank);
    rep_put_count(writer, "device", absent->device);
    rep_put_text(writer, "window", absent->window);
    rep_put_int(writer, "steps", absent->steps);
    rep_put_us(writer, "window_us", absent->window_ns);
    rep_put_us(writer, "absent_us", absent->absent_ns);
    for (int part = 0; part < AN_ABSENT_PARTS; part++)
        rep_put_us_or(writer, part_keys[part], absent->part_ns[part]);
    rep_put_us_or(writer, "unlinked_us", absent->unlinked_ns);
    rep_put_us_or(writer, "after_wait_us", absent->after_wait_ns);
    rep_open(writer, "occupied");
    for (int part = 0; part < AN_ABSENT_PARTS; part++) {
        rep_open(writer, occupied_keys[part]);
        for (int i = 0; i < AN_OCCUPANTS; i++)
            rep_put_us_or(writer, occupant_keys[i], absent->occupied_ns[part][i]);
        rep_close(writer);
    }
    rep_close(writer);
    rep_open(writer, "blocking_comm_us");
    for (int part = 0; part < AN_BLOCKING_COUNT; part++)
        rep_put_us_or(writer, blocking_keys[part], absent->blocking_ns[part]);
    rep_close(writer);
    put_causes(writer, absent);
}

void rep_json_noncompute(struct rep_writer *writer, const struct an_result *result)
{
    if (rep_put_absent(writer, "compute_absent", result->absence.reason))
        return;
    REP_PUT_ROWS(writer, "compute_absent", result->absent, result->absent_count, put_row);
}
