/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame of a Kineto file, the JSON shim and the conversions of text. What must hold: where a
 * window is valid JSON, cutting it by the braces alone finds as many events as the parser; a strict
 * copy of a value can be copied again and stays the same.
 */
#include <string.h>

#include "fuzz.h"
#include "store/import/kineto/kineto_frame.h"
#include "store/import/kineto/kineto_text.h"

static kj_parser *json;

static void check(int ok)
{
    if (!ok)
        abort();
}

static void check_value(struct kj_span s)
{
    struct kineto_text a = {0}, b = {0};
    int64_t v;
    int decimals;
    bool rounded = false;
    kineto_int(s, &v);
    kineto_time(s, 1000, &v, &decimals, &rounded);
    kineto_time(s, 1, &v, &decimals, &rounded);
    kineto_unescape(&a, s);
    a.bytes = 0;
    if (kineto_json_copy(&a, s)) {
        check(kineto_json_copy(&b, (struct kj_span){a.data, a.bytes}));
        check(a.bytes == b.bytes && !memcmp(a.data, b.data, a.bytes));
    }
    kineto_text_clear(&a);
    kineto_text_clear(&b);
}

static int on_event(void *ctx, const struct kj_event *e)
{
    (void)ctx;
    for (size_t i = 0; i < KJ_FIELD_COUNT; i++)
        if (e->field[i].text)
            check_value(e->field[i]);
    for (size_t i = 0; i < e->arg_count; i++)
        check_value(e->arg[i].value);
    return 0;
}

static int on_single(void *ctx, struct kj_span text)
{
    ++*(size_t *)ctx;
    check(text.bytes > 0);
    return 0;
}

/* What is no JSON inside of a value the parser does not see; then it may count otherwise. */
static int is_strict(const char *text, size_t n)
{
    struct kineto_text t = {0};
    bool strict = kineto_json_copy(&t, (struct kj_span){text, n});
    kineto_text_clear(&t);
    return strict;
}

static int on_window(void *ctx, const char *text, size_t n)
{
    (void)ctx;
    size_t parsed = 0, split = 0;
    enum kj_result rc = kj_events(json, text, n, on_event, NULL, &parsed);
    kineto_frame_split(text, n, on_single, &split);
    check(rc != KJ_OK || parsed == split || !is_strict(text, n));
    struct kineto_text t = {0};
    kineto_sanitise(&t, text, n);
    kineto_text_clear(&t);
    return 0;
}

static int on_pair(void *ctx, struct kj_span key, struct kj_span value)
{
    (void)ctx, (void)key;
    check_value(value);
    return 0;
}

static int on_meta(void *ctx, struct kj_span key, struct kj_span value)
{
    (void)key;
    check_value(value);
    if (value.bytes && (value.text[0] == '[' || value.text[0] == '{'))
        kj_each(value, on_pair, ctx);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct kineto_frame_sink sink = {.events = on_window, .meta = on_meta};
    struct kineto_frame_result r;
    struct imp_input *in;
    char path[64];
    int fd = fuzz_file(data, size, path);
    if (!json)
        json = kj_new();
    if (!imp_input_open(path, &in, NULL)) {
        kineto_frame_read(in, &sink, &r, NULL);
        imp_input_close(in);
    }
    close(fd);
    return 0;
}
