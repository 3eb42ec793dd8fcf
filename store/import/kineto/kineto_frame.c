/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the events of a trace by brackets and quotes alone.
 *
 * The scan takes 64 bytes at a time. Four bit masks say where quotes, backslashes, opening and
 * closing brackets are (64 bit each); a prefix xor over the quotes that no backslash escapes gives
 * the bytes inside of strings. Only blocks in which the depth can come back to zero are looked at
 * bit by bit.
 */
#include "store/import/kineto/kineto_frame.h"

#include <stdlib.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

struct masks {
    uint64_t quote, backslash, open, close;
};

#ifdef __SSE2__
static struct masks masks_of(const char *block)
{
    struct masks masks = {0};
    for (int i = 0; i < 4; i++) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(block + 16 * i));
        __m128i lower = _mm_or_si128(
            bytes, _mm_set1_epi8(0x20)); /* [ and { differ in this bit, as ] and } do */
        masks.quote |=
            (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')))
            << 16 * i;
        masks.backslash |=
            (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')))
            << 16 * i;
        masks.open |=
            (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(lower, _mm_set1_epi8('{')))
            << 16 * i;
        masks.close |=
            (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(lower, _mm_set1_epi8('}')))
            << 16 * i;
    }
    return masks;
}
#else
static struct masks masks_of(const char *block)
{
    struct masks masks = {0};
    for (int i = 0; i < 64; i++) {
        uint64_t bit = (uint64_t)1 << i;
        masks.quote |= block[i] == '"' ? bit : 0;
        masks.backslash |= block[i] == '\\' ? bit : 0;
        masks.open |= (block[i] | 0x20) == '{' ? bit : 0;
        masks.close |= (block[i] | 0x20) == '}' ? bit : 0;
    }
    return masks;
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
static void scan_block(struct scan *scan, const char *block, uint64_t *open, uint64_t *close)
{
    struct masks masks = masks_of(block);
    uint64_t strings = masks.quote & ~escaped_by(masks.backslash, &scan->escaped);
    strings ^= strings << 1;
    strings ^= strings << 2;
    strings ^= strings << 4;
    strings ^= strings << 8;
    strings ^= strings << 16;
    strings ^= strings << 32;
    strings ^= scan->inside;
    scan->inside = 0 - (strings >> 63); /* all bits as the last one */
    *open = masks.open & ~strings;
    *close = masks.close & ~strings;
}

/* ---- the buffer ---------------------------------------------------------------------------------------------------------- */

struct frame {
    struct imp_input *in;
    const struct kineto_frame_sink *sink;
    struct kineto_frame_result *result;
    struct tacho_error *err;
    char *buffer; /* one byte before `at` is always ours, for the bracket that opens a window */
    size_t cap, at, end;
    bool end_of_file;
    int code;
};

#define MARGIN 64 /* free bytes at the front of the buffer */

/* Reads more after `end`; bytes before `keep` may be dropped. Makes the buffer larger up to a
 * window. false: nothing more, or `code` is set. *keep moves with the bytes. */
static bool more(struct frame *frame, size_t *keep)
{
    if (frame->code || frame->end_of_file)
        return false;
    if (*keep > MARGIN) {
        size_t gone = *keep - MARGIN;
        memmove(frame->buffer + MARGIN, frame->buffer + *keep, frame->end - *keep);
        frame->end -= gone;
        *keep = MARGIN;
    }
    size_t room = frame->cap - frame->end;
    if (room < KINETO_FRAME_WINDOW / 2 &&
        frame->cap < STORE_IMPORT_WINDOW + 2 * KINETO_FRAME_WINDOW) {
        size_t cap = 2 * frame->cap;
        char *buffer = realloc(frame->buffer, cap + 2 * KJ_PADDING);
        if (!buffer) {
            frame->code = tacho_fail(frame->err, TACHO_ENOMEM, NULL, "out of memory");
            return false;
        }
        frame->buffer = buffer;
        frame->cap = cap;
        room = cap - frame->end;
    }
    size_t got = 0;
    frame->code =
        imp_input_read(frame->in, frame->buffer + frame->end,
                       room < KINETO_FRAME_WINDOW ? room : KINETO_FRAME_WINDOW, &got, frame->err);
    frame->end += got;
    frame->result->bytes += (int64_t)got;
    frame->end_of_file = !got;
    return got > 0 && !frame->code;
}

static bool is_space(char letter)
{
    return letter == ' ' || letter == '\n' || letter == '\r' || letter == '\t';
}

/* Goes on to the first byte that is neither white space nor in `skip`. -1: the end. */
static int peek(struct frame *frame, const char *skip)
{
    for (;;) {
        for (; frame->at < frame->end; frame->at++) {
            char letter = frame->buffer[frame->at];
            if (!is_space(letter) && !(letter && strchr(skip, letter)))
                return (unsigned char)letter;
        }
        size_t keep = frame->at;
        bool came = more(frame, &keep);
        frame->at = keep;
        if (!came)
            return -1;
    }
}

/* A block of 64 bytes at `at`, the missing ones at the end of the file as spaces. NULL: no byte is
 * there. */
static const char *block_at(struct frame *frame, size_t at, char spare[64])
{
    if (at + 64 <= frame->end)
        return frame->buffer + at;
    if (at >= frame->end)
        return NULL;
    memset(spare, ' ', 64);
    memcpy(spare, frame->buffer + at, frame->end - at);
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
static int events_emit(struct frame *frame, struct events *events)
{
    size_t from = events->first, to = events->cut;
    while (from < to && (is_space(frame->buffer[from]) || frame->buffer[from] == ','))
        from++;
    events->first = events->cut;
    events->cut = 0;
    if (from >= to)
        return 0;
    char *text = frame->buffer + from - 1, before = *text, after = frame->buffer[to];
    *text = '[';
    frame->buffer[to] = ']';
    int status = frame->sink->events(frame->sink->ctx, text, to - from + 2);
    frame->buffer[to] = after;
    *text = before;
    return status;
}

/* The depth came back to zero at `at`. */
static void element_ends(struct frame *frame, struct events *events, size_t at)
{
    events->cut = at + 1;
    if (events->skipping) {
        events->skipping = false;
        frame->result->too_large++;
        events->first = events->cut;
    }
}

/* Scans the block at e->next. */
static void events_block(struct frame *frame, struct events *events, const char *block)
{
    uint64_t open, close;
    scan_block(&events->scan, block, &open, &close);
    int up = __builtin_popcountll(open), down = __builtin_popcountll(close);
    if (events->scan.depth > down) {
        events->scan.depth += up - down;
        return;
    }
    for (uint64_t both = open | close; both; both &= both - 1) {
        uint64_t bit = both & -both;
        if (open & bit) {
            events->scan.depth++;
            continue;
        }
        size_t at = events->next + (size_t)__builtin_ctzll(bit);
        if (--events->scan.depth == 0) {
            element_ends(frame, events, at);
        } else if (events->scan.depth < 0) {
            events->scan.depth = 0;
            if (block[at - events->next] == '}') /* one too many: the parser will find where */
                continue;
            events->list_end = at;
            return;
        }
    }
}

/* Drops the bytes of an element that does not fit into the largest buffer, and goes on scanning. */
static int events_skip(struct frame *frame, struct events *events)
{
    size_t from = events->first;
    events->skipping = true;
    frame->at = events->first = events->next;
    return frame->sink->damaged
               ? frame->sink->damaged(frame->sink->ctx, frame->buffer + from, events->next - from)
               : 0;
}

static int events_end(struct frame *frame, struct events *events)
{
    if (events->list_end) {
        /* What is between the last event and the bracket (a number, a word) is left to the parser.
         */
        size_t tail = events->cut ? events->cut : events->first;
        for (size_t i = tail; i < events->list_end; i++)
            if (!is_space(frame->buffer[i]) && frame->buffer[i] != ',')
                events->cut = i + 1;
    } else {
        frame->result->truncated = true;
        for (size_t i = events->cut ? events->cut : events->first; i < frame->end; i++)
            frame->result->partial_event |= !is_space(frame->buffer[i]) && frame->buffer[i] != ',';
        frame->result->partial_event |= events->skipping;
    }
    int status = events->cut ? events_emit(frame, events) : 0;
    if (!status && !events->list_end && frame->sink->damaged && events->first < frame->end)
        status = frame->sink->damaged(frame->sink->ctx, frame->buffer + events->first,
                                      frame->end - events->first);
    frame->at = events->list_end ? events->list_end + 1 : frame->end;
    return status;
}

/* Reads the list of events; frame->at is after the bracket that opens it. */
static int events_read(struct frame *frame)
{
    struct events events = {.first = frame->at, .next = frame->at};
    char spare[64];
    int status = 0;
    while (!status && !frame->code && !events.list_end) {
        while (!events.list_end && events.next + 64 <= frame->end) {
            events_block(frame, &events, frame->buffer + events.next);
            events.next += 64;
        }
        if (events.list_end)
            break;
        if (events.cut && events.next - events.first >= KINETO_FRAME_WINDOW &&
            (status = events_emit(frame, &events)))
            break;
        if (!events.cut && events.next - events.first >= STORE_IMPORT_WINDOW &&
            (status = events_skip(frame, &events)))
            break;
        size_t keep = events.first, first = events.first;
        bool came = more(frame, &keep);
        size_t gone = first - keep; /* the bytes have moved, even if none were read */
        events.first = keep;
        events.next -= gone;
        events.cut -= events.cut ? gone : 0;
        if (!came) {
            const char *last = block_at(frame, events.next, spare);
            if (last)
                events_block(frame, &events, last);
            break;
        }
    }
    if (status || frame->code)
        return status ? status : frame->code;
    return events_end(frame, &events);
}

/* ---- other pairs of the object --------------------------------------------------------------------------------------------------- */

/* End of the value at frame->at: after its last byte, or 0 when the file ends in it. A value larger
 * than a window is skipped. */
static size_t value_end(struct frame *frame, bool *skipped)
{
    struct scan scan = {0};
    char spare[64];
    size_t next = frame->at;
    *skipped = false;
    for (;;) {
        const char *block =
            next + 64 <= frame->end || frame->end_of_file ? block_at(frame, next, spare) : NULL;
        if (!block) {
            size_t keep = frame->at;
            if (next - frame->at >= STORE_IMPORT_WINDOW) {
                *skipped = true;
                frame->at = keep = next;
            }
            size_t was = keep;
            bool came = more(frame, &keep);
            next -= was - keep; /* the bytes have moved, even if none were read */
            frame->at = keep;
            if (!came && (frame->code || next >= frame->end))
                return 0;
            continue;
        }
        uint64_t open, close;
        scan_block(&scan, block, &open, &close);
        for (int i = 0; i < 64 && next + (size_t)i < frame->end; i++) {
            uint64_t bit = (uint64_t)1 << i;
            if (open & bit)
                scan.depth++;
            else if ((close & bit) && --scan.depth < 0)
                return next + (size_t)i; /* the brace that closes the outer object */
            else if ((close & bit) && !scan.depth)
                return next + (size_t)i + 1;
        }
        next += 64;
    }
}

/* End of a string or a bare word at f->at. */
static size_t scalar_end(struct frame *frame)
{
    for (;;) {
        size_t i = frame->at;
        if (frame->buffer[i] == '"') {
            for (i++; i < frame->end && frame->buffer[i] != '"'; i++)
                i += frame->buffer[i] == '\\';
            if (i < frame->end)
                return i + 1;
        } else {
            while (i < frame->end && !is_space(frame->buffer[i]) &&
                   !strchr(",:]}", frame->buffer[i]))
                i++;
            if (i < frame->end)
                return i;
        }
        size_t keep = frame->at;
        if (frame->end - frame->at >= STORE_IMPORT_WINDOW)
            return 0;
        bool came = more(frame, &keep);
        frame->at = keep;
        if (!came)
            return 0;
    }
}

static int file_ends(struct frame *frame)
{
    frame->result->truncated = true;
    frame->at = frame->end;
    return frame->code;
}

/* A pair of the outer object; f->at is at its key. The key is copied: reading the value may move
 * the buffer. */
static int pair_read(struct frame *frame)
{
    char name[256];
    size_t end = scalar_end(frame);
    if (!end)
        return file_ends(frame);
    struct kj_span key = {frame->buffer + frame->at, end - frame->at};
    if (key.bytes >= 2 && key.text[0] == '"')
        key = (struct kj_span){key.text + 1, key.bytes - 2};
    if (key.bytes > sizeof name)
        key.bytes = sizeof name;
    memcpy(name, key.text, key.bytes);
    key.text = name;
    frame->at = end > frame->at ? end : end + 1; /* a stray bracket: go on after it */
    int next = peek(frame, "");
    if (next != ':')
        return next < 0 ? file_ends(frame)
                        : 0; /* a key without a value: not JSON, and nothing to keep */
    frame->at++;
    next = peek(frame, "");
    if (next < 0)
        return file_ends(frame);
    if (next == '[' && key.bytes == 11 && !memcmp(name, "traceEvents", 11)) {
        frame->at++;
        return events_read(frame);
    }
    bool skipped = false;
    end = next == '[' || next == '{' ? value_end(frame, &skipped) : scalar_end(frame);
    if (!end)
        return file_ends(frame);
    struct kj_span value = {frame->buffer + frame->at, end - frame->at};
    frame->at = end;
    frame->result->too_large += skipped;
    return skipped ? 0 : frame->sink->meta(frame->sink->ctx, key, value);
}

/* Reads the whole file: a list of events, or an object that has one among its pairs. */
static int frame_read(struct frame *frame)
{
    int next = peek(frame, "");
    if (next != '[' && next != '{')
        return frame->code;
    frame->result->is_trace = true;
    frame->at++;
    if (next == '[')
        return events_read(frame);
    for (;;) {
        next = peek(frame, ",");
        if (frame->code)
            return frame->code;
        if (next < 0)
            return file_ends(frame);
        if (next == '}') {
            frame->at++;
            return 0;
        }
        int status = pair_read(frame);
        if (status)
            return status;
    }
}

/* Is there text after the trace (two traces in one file, a bracket too many)? Zeros of padding do
 * not count. */
static bool more_behind(struct frame *frame)
{
    int next = 0;
    while (next == 0 && (next = peek(frame, "")) == 0)
        frame->at++;
    return next > 0;
}

int kineto_frame_read(struct imp_input *in, const struct kineto_frame_sink *sink,
                      struct kineto_frame_result *frame_result, struct tacho_error *err)
{
    struct frame frame = {.in = in,
                          .sink = sink,
                          .result = frame_result,
                          .err = err,
                          .cap = 2 * KINETO_FRAME_WINDOW,
                          .at = MARGIN,
                          .end = MARGIN};
    memset(frame_result, 0, sizeof *frame_result);
    frame.buffer = calloc(1, frame.cap + 2 * KJ_PADDING);
    if (!frame.buffer)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    int status = frame_read(&frame);
    if (!status && !frame.code && frame_result->is_trace && !frame_result->truncated)
        frame_result->more_behind = more_behind(&frame);
    if (!status && frame.code)
        status = frame.code;
    free(frame.buffer);
    if (imp_input_truncated(in))
        frame_result->truncated = true;
    return status;
}

/* ---- one by one ---------------------------------------------------------------------------------------------------------- */

int kineto_frame_split(const char *text, size_t bytes, int (*event)(void *ctx, struct kj_span text),
                       void *ctx)
{
    size_t i = 1, end = bytes - 1; /* the list's own brackets */
    while (i < end) {
        if (is_space(text[i]) || text[i] == ',') {
            i++;
            continue;
        }
        size_t from = i;
        bool inside = false;
        for (int64_t depth = 0; i < end; i++) {
            char letter = text[i];
            if (inside) {
                i += letter == '\\';
                inside = letter != '"';
                continue;
            }
            if (!depth && i > from && (is_space(letter) || letter == ',' || letter == '{'))
                break;
            inside = letter == '"';
            depth += (letter == '{' || letter == '[') - (letter == '}' || letter == ']');
            depth = depth < 0 ? 0 : depth;
        }
        if (i > end)
            i = end;
        int status = event(ctx, (struct kj_span){text + from, i - from});
        if (status)
            return status;
    }
    return 0;
}

/* End of the object that begins at text[0]: after its last brace; 0: it does not end. */
static size_t object_end(const char *text, size_t bytes)
{
    bool inside = false;
    int64_t depth = 0;
    for (size_t i = 0; i < bytes; i++) {
        char letter = text[i];
        if (inside) {
            i += letter == '\\';
            inside = letter != '"';
            continue;
        }
        inside = letter == '"';
        depth += (letter == '{' || letter == '[') - (letter == '}' || letter == ']');
        if (!depth)
            return i + 1;
    }
    return 0;
}

/* Does text[0], a brace, begin an event? */
static bool may_begin(const char *text, size_t bytes)
{
    static const char *const keys[] = {"\"ph\"",  "\"name\"", "\"cat\"", "\"ts\"",
                                       "\"pid\"", "\"tid\"",  "\"id\""};
    size_t i = 1;
    while (i < bytes && is_space(text[i]))
        i++;
    for (size_t j = 0; j < sizeof keys / sizeof *keys; j++)
        if (bytes - i > strlen(keys[j]) && !memcmp(text + i, keys[j], strlen(keys[j])))
            return true;
    return false;
}

#define SEARCH_MISSES 256          /* objects that are no events: then the text is something else */
#define SEARCH_BYTES  (256u << 10) /* of one event */

int kineto_frame_search(const char *text, size_t bytes,
                        int (*event)(void *ctx, struct kj_span text), void *ctx)
{
    int misses = 0;
    for (size_t i = 0; i < bytes && misses < SEARCH_MISSES;) {
        const char *brace = memchr(text + i, '{', bytes - i);
        if (!brace)
            break;
        i = (size_t)(brace - text);
        size_t left = bytes - i < SEARCH_BYTES ? bytes - i : SEARCH_BYTES;
        size_t end = may_begin(brace, left) ? object_end(brace, left) : 0;
        int status = end ? event(ctx, (struct kj_span){brace, end}) : 0;
        if (status < 0)
            return status;
        misses += !status && (end || may_begin(brace, left));
        i += status ? end : 1;
    }
    return 0;
}
