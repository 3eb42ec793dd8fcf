/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/json/json_gpu.h"

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

static void put_causes(struct rep_writer *w, const struct an_absent *x)
{
    if (x->causes_reason) {
        rep_put_null(w, "causes", x->causes_reason);
        return;
    }
    size_t n = x->cause_count < CAUSES_MOST ? x->cause_count : CAUSES_MOST;
    int64_t rest = 0;
    rep_open_list(w, "causes");
    for (size_t i = 0; i < n; i++) {
        rep_open(w, NULL);
        rep_put_text(w, "cause", x->causes[i].cause);
        rep_put_text_or(w, "name", x->causes[i].name, "no range was open");
        rep_put_us(w, "us", x->causes[i].ns);
        rep_close(w);
    }
    rep_close(w);
    for (size_t i = n; i < x->cause_count; i++)
        rest += x->causes[i].ns;
    rep_put_us(w, "other_causes_us", rest);
}

static void put_row(struct rep_writer *w, const struct an_absent *x)
{
    rep_open(w, NULL);
    rep_put_int(w, "rank", x->rank);
    rep_put_count(w, "device", x->device);
    rep_put_text(w, "window", x->window);
    rep_put_int(w, "steps", x->steps);
    rep_put_us(w, "window_us", x->window_ns);
    rep_put_us(w, "absent_us", x->absent_ns);
    for (int k = 0; k < AN_ABSENT_PARTS; k++)
        rep_put_us_or(w, part_keys[k], x->part_ns[k]);
    rep_put_us_or(w, "unlinked_us", x->unlinked_ns);
    rep_put_us_or(w, "after_wait_us", x->after_wait_ns);
    rep_open(w, "occupied");
    for (int k = 0; k < AN_ABSENT_PARTS; k++) {
        rep_open(w, occupied_keys[k]);
        for (int i = 0; i < AN_OCCUPANTS; i++)
            rep_put_us_or(w, occupant_keys[i], x->occupied_ns[k][i]);
        rep_close(w);
    }
    rep_close(w);
    rep_open(w, "blocking_comm_us");
    for (int k = 0; k < AN_BLOCKING_COUNT; k++)
        rep_put_us_or(w, blocking_keys[k], x->blocking_ns[k]);
    rep_close(w);
    put_causes(w, x);
    rep_close(w);
}

void rep_json_compute_absent(struct rep_writer *w, const struct an_result *r)
{
    if (r->absence.reason) {
        rep_put_null(w, "compute_absent", r->absence.reason);
        return;
    }
    rep_open_list(w, "compute_absent");
    for (size_t i = 0; i < r->absent_count; i++)
        put_row(w, &r->absent[i]);
    rep_close(w);
}
