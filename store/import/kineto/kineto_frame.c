/* SPDX-License-Identifier: Apache-2.0
 *
 * The scan takes 64 bytes at a time. Four bit masks say where quotes, backslashes, opening and
 * closing brackets are (64 bit each); a prefix xor over the quotes that no backslash escapes gives
 * the bytes inside of strings. Only blocks in which the depth can come back to zero are looked at
 * bit by bit.
 */
#include "store/import/kineto/kineto_frame.h"

#include <stdlib.h>
#include <string.h>

#include "store/import/import.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

struct masks {
    uint64_t quote, backslash, open, close;
};

#ifdef __SSE2__
static struct masks masks_of(const char *p)
{
    struct masks m = {0};
    for (int i = 0; i < 4; i++) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i));
        __m128i lower =
            _mm_or_si128(x, _mm_set1_epi8(0x20)); /* [ and { differ in this bit, as ] and } do */
        m.quote |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(x, _mm_set1_epi8('"')))
                   << 16 * i;
        m.backslash |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(x, _mm_set1_epi8('\\')))
                       << 16 * i;
        m.open |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(lower, _mm_set1_epi8('{')))
                  << 16 * i;
        m.close |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(lower, _mm_set1_epi8('}')))
                   << 16 * i;
    }
    return m;
}
#else
static struct masks masks_of(const char *p)
{
    struct masks m = {0};
    for (int i = 0; i < 64; i++) {
        uint64_t bit = (uint64_t)1 << i;
        m.quote |= p[i] == '"' ? bit : 0;
        m.backslash |= p[i] == '\\' ? bit : 0;
        m.open |= (p[i] | 0x20) == '{' ? bit : 0;
        m.close |= (p[i] | 0x20) == '}' ? bit : 0;
    }
    return m;
}
#endif

struct scan {
    uint64_t inside;  /* all ones: the block before ended inside of a string */
    uint64_t escaped; /* 1: it ended with a backslash that escapes the next byte */
    int64_t depth;
};

/* Bits of the bytes that a backslash escapes. Runs of backslashes are rare, so they are walked. */
static uint64_t escaped_by(uint64_t backslash, uint64_t *carry)
{
    uint64_t escaped = *carry;
    *carry = 0;
    if (!backslash)
        return escaped;
    backslash &= ~escaped; /* an escaped backslash escapes nothing */
    while (backslash) {
        uint64_t bit = backslash & -backslash;
        if (bit >> 63) {
            *carry = 1;
            break;
        }
        escaped |= bit << 1;
        backslash &= ~(bit | bit << 1);
    }
    return escaped;
}

/* Takes the next 64 bytes; *open and *close are the brackets outside of strings. */
static void scan_block(struct scan *s, const char *p, uint64_t *open, uint64_t *close)
{
    struct masks m = masks_of(p);
    uint64_t x = m.quote & ~escaped_by(m.backslash, &s->escaped);
    x ^= x << 1;
    x ^= x << 2;
    x ^= x << 4;
    x ^= x << 8;
    x ^= x << 16;
    x ^= x << 32;
    x ^= s->inside;
    s->inside = (uint64_t)((int64_t)x >> 63);
    *open = m.open & ~x;
    *close = m.close & ~x;
}

/* ---- the buffer ---------------------------------------------------------------------------------------------------------- */

struct frame {
    struct imp_input *in;
    const struct kineto_frame_sink *sink;
    struct kineto_frame_result *r;
    struct tacho_error *err;
    char *buffer; /* one byte before `at` is always ours, for the bracket that opens a window */
    size_t cap, at, end;
    bool end_of_file;
    int code;
};

#define MARGIN 64 /* free bytes at the front of the buffer */

/* Reads more behind `end`; bytes before `keep` may go. Makes the buffer larger up to a window.
 * false: nothing more, or `code` is set. *keep moves with the bytes. */
static bool more(struct frame *f, size_t *keep)
{
    if (f->code || f->end_of_file)
        return false;
    if (*keep > MARGIN) {
        size_t gone = *keep - MARGIN;
        memmove(f->buffer + MARGIN, f->buffer + *keep, f->end - *keep);
        f->end -= gone;
        *keep = MARGIN;
    }
    size_t room = f->cap - f->end;
    if (room < KINETO_FRAME_WINDOW / 2 && f->cap < STORE_IMPORT_WINDOW + 2 * KINETO_FRAME_WINDOW) {
        size_t cap = 2 * f->cap;
        char *b = realloc(f->buffer, cap + 2 * KJ_PADDING);
        if (!b) {
            f->code = tacho_fail(f->err, TACHO_ENOMEM, NULL, "out of memory");
            return false;
        }
        f->buffer = b;
        f->cap = cap;
        room = cap - f->end;
    }
    size_t got = 0;
    f->code = imp_input_read(f->in, f->buffer + f->end,
                             room < KINETO_FRAME_WINDOW ? room : KINETO_FRAME_WINDOW, &got, f->err);
    f->end += got;
    f->r->bytes += (int64_t)got;
    f->end_of_file = !got;
    return got > 0 && !f->code;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Goes on to the first byte that is neither white space nor in `skip`. -1: the end. */
static int peek(struct frame *f, const char *skip)
{
    for (;;) {
        for (; f->at < f->end; f->at++) {
            char c = f->buffer[f->at];
            if (!is_space(c) && !(c && strchr(skip, c)))
                return (unsigned char)c;
        }
        size_t keep = f->at;
        bool came = more(f, &keep);
        f->at = keep;
        if (!came)
            return -1;
    }
}

/* A block of 64 bytes at `at`, the missing ones at the end of the file as spaces. NULL: no byte is
 * there. */
static const char *block_at(struct frame *f, size_t at, char spare[64])
{
    if (at + 64 <= f->end)
        return f->buffer + at;
    if (at >= f->end)
        return NULL;
    memset(spare, ' ', 64);
    memcpy(spare, f->buffer + at, f->end - at);
    return spare;
}

/* ---- the list of events ---------------------------------------------------------------------------------------------------- */

struct events {
    struct scan scan;
    size_t first, next,
        cut; /* start of the window; bytes scanned; end of the last whole element, 0: none */
    size_t list_end; /* where the bracket is that closes the list, 0: not seen */
    bool skipping;   /* inside of an event that is too large */
};

/* Hands out [first, cut). */
static int events_emit(struct frame *f, struct events *e)
{
    size_t from = e->first, to = e->cut;
    while (from < to && (is_space(f->buffer[from]) || f->buffer[from] == ','))
        from++;
    e->first = e->cut;
    e->cut = 0;
    if (from >= to)
        return 0;
    char *text = f->buffer + from - 1, before = *text, after = f->buffer[to];
    *text = '[';
    f->buffer[to] = ']';
    int rc = f->sink->events(f->sink->ctx, text, to - from + 2);
    f->buffer[to] = after;
    *text = before;
    return rc;
}

/* The depth came back to zero at `at`. */
static void element_ends(struct frame *f, struct events *e, size_t at)
{
    e->cut = at + 1;
    if (e->skipping) {
        e->skipping = false;
        f->r->too_large++;
        e->first = e->cut;
    }
}

/* Scans the block at e->next. */
static void events_block(struct frame *f, struct events *e, const char *p)
{
    uint64_t open, close;
    scan_block(&e->scan, p, &open, &close);
    int up = __builtin_popcountll(open), down = __builtin_popcountll(close);
    if (e->scan.depth > down) {
        e->scan.depth += up - down;
        return;
    }
    for (uint64_t both = open | close; both; both &= both - 1) {
        uint64_t bit = both & -both;
        if (open & bit) {
            e->scan.depth++;
            continue;
        }
        size_t at = e->next + (size_t)__builtin_ctzll(bit);
        if (--e->scan.depth == 0) {
            element_ends(f, e, at);
        } else if (e->scan.depth < 0) {
            e->scan.depth = 0;
            if (p[at - e->next] == '}') /* one too many: the parser will find where */
                continue;
            e->list_end = at;
            return;
        }
    }
}

/* No whole element in a buffer that is as large as it may get: its bytes go, the scan goes on. */
static int events_skip(struct frame *f, struct events *e)
{
    size_t from = e->first;
    e->skipping = true;
    f->at = e->first = e->next;
    return f->sink->damaged ? f->sink->damaged(f->sink->ctx, f->buffer + from, e->next - from) : 0;
}

static int events_end(struct frame *f, struct events *e)
{
    if (e->list_end) {
        /* what stands between the last event and the bracket is for the parser to judge: it may be
         * a number or a word */
        size_t tail = e->cut ? e->cut : e->first;
        for (size_t i = tail; i < e->list_end; i++)
            if (!is_space(f->buffer[i]) && f->buffer[i] != ',')
                e->cut = i + 1;
    } else {
        f->r->truncated = true;
        for (size_t i = e->cut ? e->cut : e->first; i < f->end; i++)
            f->r->partial_event |= !is_space(f->buffer[i]) && f->buffer[i] != ',';
        f->r->partial_event |= e->skipping;
    }
    int rc = e->cut ? events_emit(f, e) : 0;
    if (!rc && !e->list_end && f->sink->damaged && e->first < f->end)
        rc = f->sink->damaged(f->sink->ctx, f->buffer + e->first, f->end - e->first);
    f->at = e->list_end ? e->list_end + 1 : f->end;
    return rc;
}

/* f->at is behind the bracket that opens the list. */
static int events_read(struct frame *f)
{
    struct events e = {.first = f->at, .next = f->at};
    char spare[64];
    int rc = 0;
    while (!rc && !f->code && !e.list_end) {
        while (!e.list_end && e.next + 64 <= f->end) {
            events_block(f, &e, f->buffer + e.next);
            e.next += 64;
        }
        if (e.list_end)
            break;
        if (e.cut && e.next - e.first >= KINETO_FRAME_WINDOW && (rc = events_emit(f, &e)))
            break;
        if (!e.cut && e.next - e.first >= STORE_IMPORT_WINDOW && (rc = events_skip(f, &e)))
            break;
        size_t keep = e.first, first = e.first;
        bool came = more(f, &keep);
        size_t gone = first - keep; /* the bytes have moved, also when none came */
        e.first = keep;
        e.next -= gone;
        e.cut -= e.cut ? gone : 0;
        if (!came) {
            const char *last = block_at(f, e.next, spare);
            if (last)
                events_block(f, &e, last);
            break;
        }
    }
    if (rc || f->code)
        return rc ? rc : f->code;
    return events_end(f, &e);
}

/* ---- what stands beside it --------------------------------------------------------------------------------------------------- */

/* End of the value at f->at: behind its last byte, or 0 when the file ends in it. A value larger
 * than a window is skipped. */
static size_t value_end(struct frame *f, bool *skipped)
{
    struct scan s = {0};
    char spare[64];
    size_t next = f->at;
    *skipped = false;
    for (;;) {
        const char *p = next + 64 <= f->end || f->end_of_file ? block_at(f, next, spare) : NULL;
        if (!p) {
            size_t keep = f->at;
            if (next - f->at >= STORE_IMPORT_WINDOW) {
                *skipped = true;
                f->at = keep = next;
            }
            size_t was = keep;
            bool came = more(f, &keep);
            next -= was - keep; /* the bytes have moved, also when none came */
            f->at = keep;
            if (!came && (f->code || next >= f->end))
                return 0;
            continue;
        }
        uint64_t open, close;
        scan_block(&s, p, &open, &close);
        for (int i = 0; i < 64 && next + (size_t)i < f->end; i++) {
            uint64_t bit = (uint64_t)1 << i;
            if (open & bit)
                s.depth++;
            else if ((close & bit) && --s.depth < 0)
                return next + (size_t)i; /* the brace that closes the outer object */
            else if ((close & bit) && !s.depth)
                return next + (size_t)i + 1;
        }
        next += 64;
    }
}

/* End of a string or a bare word at f->at. */
static size_t scalar_end(struct frame *f)
{
    for (;;) {
        size_t i = f->at;
        if (f->buffer[i] == '"') {
            for (i++; i < f->end && f->buffer[i] != '"'; i++)
                i += f->buffer[i] == '\\';
            if (i < f->end)
                return i + 1;
        } else {
            while (i < f->end && !is_space(f->buffer[i]) && !strchr(",:]}", f->buffer[i]))
                i++;
            if (i < f->end)
                return i;
        }
        size_t keep = f->at;
        if (f->end - f->at >= STORE_IMPORT_WINDOW)
            return 0;
        bool came = more(f, &keep);
        f->at = keep;
        if (!came)
            return 0;
    }
}

static int file_ends(struct frame *f)
{
    f->r->truncated = true;
    f->at = f->end;
    return f->code;
}

/* A pair of the outer object; f->at is at its key. The key is copied: reading the value may move
 * the buffer. */
static int pair_read(struct frame *f)
{
    char name[256];
    size_t end = scalar_end(f);
    if (!end)
        return file_ends(f);
    struct kj_span key = {f->buffer + f->at, end - f->at};
    if (key.n >= 2 && key.p[0] == '"')
        key = (struct kj_span){key.p + 1, key.n - 2};
    if (key.n > sizeof name)
        key.n = sizeof name;
    memcpy(name, key.p, key.n);
    key.p = name;
    f->at = end > f->at ? end : end + 1; /* a stray bracket: go on behind it */
    int c = peek(f, "");
    if (c != ':')
        return c < 0 ? file_ends(f) : 0; /* a key without a value: not JSON, and nothing to keep */
    f->at++;
    c = peek(f, "");
    if (c < 0)
        return file_ends(f);
    if (c == '[' && key.n == 11 && !memcmp(name, "traceEvents", 11)) {
        f->at++;
        return events_read(f);
    }
    bool skipped = false;
    end = c == '[' || c == '{' ? value_end(f, &skipped) : scalar_end(f);
    if (!end)
        return file_ends(f);
    struct kj_span value = {f->buffer + f->at, end - f->at};
    f->at = end;
    f->r->too_large += skipped;
    return skipped ? 0 : f->sink->meta(f->sink->ctx, key, value);
}

static int frame_read(struct frame *f)
{
    int c = peek(f, "");
    if (c == 0xef && f->end - f->at >= 3 && !memcmp(f->buffer + f->at, "\xef\xbb\xbf", 3)) {
        f->at += 3; /* byte order mark */
        c = peek(f, "");
    }
    if (c != '[' && c != '{')
        return f->code;
    f->r->is_trace = true;
    f->at++;
    if (c == '[')
        return events_read(f);
    for (;;) {
        c = peek(f, ",");
        if (f->code)
            return f->code;
        if (c < 0)
            return file_ends(f);
        if (c == '}') {
            f->at++;
            return 0;
        }
        int rc = pair_read(f);
        if (rc)
            return rc;
    }
}

/* Is there text behind the trace (two traces in one file, a bracket too many)? Zeros of padding are
 * none. */
static bool more_behind(struct frame *f)
{
    int c = 0;
    while (c == 0 && (c = peek(f, "")) == 0)
        f->at++;
    return c > 0;
}

int kineto_frame_read(struct imp_input *in, const struct kineto_frame_sink *sink,
                      struct kineto_frame_result *r, struct tacho_error *err)
{
    struct frame f = {.in = in,
                      .sink = sink,
                      .r = r,
                      .err = err,
                      .cap = 2 * KINETO_FRAME_WINDOW,
                      .at = MARGIN,
                      .end = MARGIN};
    memset(r, 0, sizeof *r);
    f.buffer = calloc(1, f.cap + 2 * KJ_PADDING);
    if (!f.buffer)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    int rc = frame_read(&f);
    if (!rc && !f.code && r->is_trace && !r->truncated)
        r->more_behind = more_behind(&f);
    if (!rc && f.code)
        rc = f.code;
    free(f.buffer);
    if (imp_input_truncated(in))
        r->truncated = true;
    return rc;
}

/* ---- one by one ---------------------------------------------------------------------------------------------------------- */

int kineto_frame_split(const char *text, size_t n, int (*event)(void *ctx, struct kj_span text),
                       void *ctx)
{
    size_t i = 1, end = n - 1; /* the list's own brackets */
    while (i < end) {
        if (is_space(text[i]) || text[i] == ',') {
            i++;
            continue;
        }
        size_t from = i;
        bool inside = false;
        for (int64_t depth = 0; i < end; i++) {
            char c = text[i];
            if (inside) {
                i += c == '\\';
                inside = c != '"';
                continue;
            }
            if (!depth && i > from && (is_space(c) || c == ',' || c == '{'))
                break;
            inside = c == '"';
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
            depth = depth < 0 ? 0 : depth;
        }
        if (i > end)
            i = end;
        int rc = event(ctx, (struct kj_span){text + from, i - from});
        if (rc)
            return rc;
    }
    return 0;
}

/* End of the object that begins at text[0]: behind its last brace; 0: it has none. */
static size_t object_end(const char *text, size_t n)
{
    bool inside = false;
    int64_t depth = 0;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (inside) {
            i += c == '\\';
            inside = c != '"';
            continue;
        }
        inside = c == '"';
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (!depth)
            return i + 1;
    }
    return 0;
}

/* Does text[0], a brace, begin an event? */
static bool may_begin(const char *text, size_t n)
{
    static const char *const keys[] = {"\"ph\"",  "\"name\"", "\"cat\"", "\"ts\"",
                                       "\"pid\"", "\"tid\"",  "\"id\""};
    size_t i = 1;
    while (i < n && is_space(text[i]))
        i++;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (n - i > strlen(keys[k]) && !memcmp(text + i, keys[k], strlen(keys[k])))
            return true;
    return false;
}

#define SEARCH_MISSES 256 /* objects that are none, in one text: then it is something else */
#define SEARCH_BYTES  (256u << 10) /* of one event */

int kineto_frame_search(const char *text, size_t n, int (*event)(void *ctx, struct kj_span text),
                        void *ctx)
{
    int misses = 0;
    for (size_t i = 0; i < n && misses < SEARCH_MISSES;) {
        const char *brace = memchr(text + i, '{', n - i);
        if (!brace)
            break;
        i = (size_t)(brace - text);
        size_t left = n - i < SEARCH_BYTES ? n - i : SEARCH_BYTES,
               end = may_begin(brace, left) ? object_end(brace, left) : 0;
        int rc = end ? event(ctx, (struct kj_span){brace, end}) : 0;
        if (rc < 0)
            return rc;
        misses += !rc && (end || may_begin(brace, left));
        i += rc ? end : 1;
    }
    return 0;
}
