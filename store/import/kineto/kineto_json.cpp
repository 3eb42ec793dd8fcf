/* SPDX-License-Identifier: Apache-2.0 */
#include "store/import/kineto/kineto_json.h"

#include <cstring>
#include <functional>
#include <new>
#include <string_view>

#include <simdjson.h>

using namespace simdjson;

struct kj_parser {
    ondemand::parser parser;
    kj_arg arg[KJ_ARGS_MAX];
    kj_span text; /* what is being read */
};

static_assert(KJ_PADDING >= SIMDJSON_PADDING,
              "what the caller leaves behind a text is enough for simdjson");

extern "C" kj_parser *kj_new(void)
{
    return new (std::nothrow) kj_parser;
}

extern "C" void kj_free(kj_parser *k)
{
    delete k;
}

static kj_span trimmed(std::string_view t)
{
    while (!t.empty() &&
           (t.back() == ' ' || t.back() == '\n' || t.back() == '\r' || t.back() == '\t'))
        t.remove_suffix(1);
    return {t.data(), t.size()};
}

/* Is `inner` a part of `outer` that is not empty? On a text that ends too early simdjson hands out
 * spans that are not. */
static bool lies_in(kj_span outer, std::string_view inner)
{
    std::less_equal<const char *> before;
    return !inner.empty() && inner.size() <= outer.bytes && before(outer.text, inner.data()) &&
           before(inner.data() + inner.size(), outer.text + outer.bytes);
}

/* The text of a value, whatever it is: lists and objects are skipped over, scalars are not looked
 * into. */
static error_code span_of(kj_span whole, ondemand::value v, kj_span *out)
{
    std::string_view text = v.raw_json_token();
    if (!lies_in(whole, text))
        return TAPE_ERROR;
    if (text[0] == '{') {
        ondemand::object o;
        error_code e = v.get_object().get(o);
        if (!e)
            e = o.raw_json().get(text);
        if (e)
            return e;
    } else if (text[0] == '[') {
        ondemand::array a;
        error_code e = v.get_array().get(a);
        if (!e)
            e = a.raw_json().get(text);
        if (e)
            return e;
    }
    /* the span goes on to the next structural character. Behind a value that may be no colon:
     * simdjson would take the value for a key and what follows, up to the end of the object, for
     * its value */
    if (!lies_in(whole, text) || text.data() + text.size() >= whole.text + whole.bytes ||
        !strchr(",}]", text.data()[text.size()]))
        return TAPE_ERROR;
    *out = trimmed(text);
    return out->bytes ? SUCCESS : TAPE_ERROR;
}

static error_code key_of(kj_span whole, simdjson_result<ondemand::field> &field, kj_span *key)
{
    ondemand::raw_json_string raw;
    error_code e = field.key().get(raw);
    if (e)
        return e;
    const char *p = raw.raw(), *end = p, *last = whole.text + whole.bytes;
    while (end < last && *end != '"')
        end += *end == '\\' ? 2 : 1;
    if (end >= last)
        return TAPE_ERROR;
    *key = {p, static_cast<size_t>(end - p)};
    return SUCCESS;
}

static kj_field field_of(kj_span key)
{
    static const struct {
        const char *text;
        size_t n;
    } names[] = {
#define KJ_FIELD_ROW(name, text) {text, sizeof(text) - 1},
        KJ_FIELD_MAP(KJ_FIELD_ROW)
#undef KJ_FIELD_ROW
    };
    for (int i = 0; i < KJ_FIELD_COUNT; i++)
        if (names[i].n == key.bytes && !memcmp(names[i].text, key.text, key.bytes))
            return static_cast<kj_field>(i);
    return KJ_FIELD_COUNT;
}

static void arg_put(kj_parser *k, kj_event *e, kj_span key, kj_span value)
{
    enum kineto_arg id = kineto_arg_find(key.text, key.bytes);
    for (size_t i = 0; i < e->arg_count; i++)
        if (k->arg[i].id == id &&
            (id != KINETO_ARG_OTHER || (k->arg[i].key.bytes == key.bytes &&
                                        !memcmp(k->arg[i].key.text, key.text, key.bytes)))) {
            k->arg[i].value = value;
            return;
        }
    if (e->arg_count == KJ_ARGS_MAX) {
        e->args_cut = true;
        return;
    }
    k->arg[e->arg_count++] = {key, value, id};
}

static error_code args_read(kj_parser *k, kj_event *e, ondemand::value v)
{
    ondemand::object args;
    std::string_view token = v.raw_json_token();
    if (!lies_in(k->text, token))
        return TAPE_ERROR;
    if (token[0] != '{') /* null, or something odd: no arguments */
        return SUCCESS;
    error_code code = v.get_object().get(args);
    if (code)
        return code;
    e->arg_count = 0;
    for (auto field : args) {
        kj_span key, value;
        ondemand::value inner;
        code = key_of(k->text, field, &key);
        if (!code)
            code = field.value().get(inner);
        if (!code)
            code = span_of(k->text, inner, &value);
        if (code)
            return code;
        arg_put(k, e, key, value);
    }
    return SUCCESS;
}

static error_code event_read(kj_parser *k, kj_event *e, simdjson_result<ondemand::value> element)
{
    ondemand::object object;
    error_code code = element.get_object().get(object);
    if (code)
        return code;
    memset(e, 0, sizeof *e);
    e->arg = k->arg;
    for (auto field : object) {
        kj_span key;
        ondemand::value value;
        code = key_of(k->text, field, &key);
        if (!code)
            code = field.value().get(value);
        if (code)
            return code;
        kj_field which = field_of(key);
        if (which < KJ_FIELD_COUNT)
            code = span_of(k->text, value, &e->field[which]);
        else if (key.bytes == 4 && !memcmp(key.text, "args", 4))
            code = args_read(k, e, value);
        if (code)
            return code;
    }
    return SUCCESS;
}

static kj_result result_of(error_code code)
{
    switch (code) {
    case SUCCESS:
        return KJ_OK;
    case MEMALLOC:
        return KJ_NOMEM;
    case UTF8_ERROR:
    case UNESCAPED_CHARS:
        return KJ_TEXT;
    default:
        return KJ_SHAPE;
    }
}

extern "C" kj_result kj_events(kj_parser *k, const char *text, size_t n,
                               int (*event)(void *ctx, const struct kj_event *e), void *ctx,
                               size_t *count)
{
    ondemand::document document;
    ondemand::array list;
    *count = 0;
    k->text = {text, n};
    error_code code = k->parser.iterate(text, n, n + KJ_PADDING).get(document);
    if (!code)
        code = document.get_array().get(list);
    if (code)
        return result_of(code);
    for (auto element : list) {
        kj_event e;
        code = event_read(k, &e, element);
        if (code)
            return result_of(code);
        ++*count;
        if (event(ctx, &e))
            return KJ_STOPPED;
    }
    return KJ_OK;
}

extern "C" kj_result kj_each(struct kj_span value,
                             int (*row)(void *ctx, struct kj_span key, struct kj_span value),
                             void *ctx)
{
    ondemand::parser parser;
    ondemand::document document;
    error_code code =
        parser.iterate(value.text, value.bytes, value.bytes + KJ_PADDING).get(document);
    if (code)
        return result_of(code);
    kj_span key = {"", 0}, inner;
    ondemand::value v;
    if (value.bytes && value.text[0] == '[') {
        ondemand::array list;
        code = document.get_array().get(list);
        if (code)
            return result_of(code);
        for (auto element : list) {
            if ((code = element.get(v)) || (code = span_of(value, v, &inner)))
                return result_of(code);
            if (row(ctx, key, inner))
                return KJ_STOPPED;
        }
        return KJ_OK;
    }
    ondemand::object object;
    code = document.get_object().get(object);
    if (code)
        return result_of(code);
    for (auto field : object) {
        if ((code = key_of(value, field, &key)) || (code = field.value().get(v)) ||
            (code = span_of(value, v, &inner)))
            return result_of(code);
        if (row(ctx, key, inner))
            return KJ_STOPPED;
    }
    return KJ_OK;
}
