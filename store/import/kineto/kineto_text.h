/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: values of JSON text (spans of kineto_json.h) as numbers and strings,
 * without going through double.
 */
#ifndef STORE_IMPORT_KINETO_TEXT_H
#define STORE_IMPORT_KINETO_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "store/import/kineto/kineto_json.h"

/* Growing text. A failed allocation sets `failed` and drops what is put from then on. */
struct kineto_text {
    char *data;
    size_t bytes, cap;
    bool failed;
};
void kineto_text_put(struct kineto_text *text, const void *bytes, size_t count);
void kineto_text_puts(struct kineto_text *out, const char *text);
void kineto_text_clear(struct kineto_text *text); /* frees */

bool kineto_is_string(struct kj_span span);
bool kineto_is_null(struct kj_span span); /* absent or null */
/* The text between the quotes, escapes as they are; of anything else the span itself. */
struct kj_span kineto_inside(struct kj_span span);
/* Both of what is inside. */
bool kineto_equals(struct kj_span span, const char *text);
bool kineto_begins(struct kj_span span, const char *text);

/* A text that lives as long as the span. */
struct kj_span kineto_span(const char *text);
/* The argument of an event that has this key; NULL if it has none. */
struct kj_arg *kineto_argument(const struct kj_event *event, const char *key);
/* Its value; an empty span without text if there is no such argument. */
struct kj_span kineto_value(const struct kj_event *event, const char *key);
/* Appends an argument, if there is room for one more. Key and value live as long as the event. */
void kineto_put_argument(struct kj_event *event, enum kineto_arg id, const char *key,
                         struct kj_span value);

/* A whole number, also in quotes, hexadecimal (0x..), or with a fraction of zeros. false: it is
 * none, or too large. */
bool kineto_int(struct kj_span span, int64_t *out);

/* Time in decimal digits, also in quotes and with an exponent, times `unit` ns (1000: the text is
 * in us; 1: in ns), exact up to 10^-9 ns. What is finer than 1 ns is rounded half away from zero
 * and *rounded set. *decimals: digits after the point that are not trailing zeros beyond the third.
 * false: not a number (NaN, Infinity, text), or beyond 64 bits of ns. */
bool kineto_time(struct kj_span span, int unit, int64_t *ns, int *decimals, bool *rounded);

/* Appends the text of a JSON string (quotes optional), escapes decoded; what stands for no
 * character becomes U+FFFD. */
void kineto_unescape(struct kineto_text *out, struct kj_span span);
/* Appends a JSON value as strict JSON without white space: NaN and infinities become null, raw
 * control characters are escaped. false: it is no JSON value; nothing was appended. */
bool kineto_json_copy(struct kineto_text *out, struct kj_span span);
/* Appends text as a JSON string with quotes. */
void kineto_json_string(struct kineto_text *out, const char *text, size_t count);
/* Appends JSON text with control characters inside strings escaped and bytes that are not UTF-8
 * replaced by U+FFFD. */
void kineto_sanitise(struct kineto_text *out, const char *text, size_t count);

#endif
