/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables, and the checks of what the interpreter says itself.
 */
#include "profiler/collector/python/layout.h"

#include <string.h>

#define NONE     COL_PYTHON_NONE
#define LARGEST  65000u /* of an offset that is believed */
#define COOKIE   "xdebugpy"
#define OLDEST   0x0309u
#define NEWEST   0x030eu
#define FROM_RUN 0x030du /* from here on the interpreter has its offsets in memory */

static const struct {
    unsigned version;
    struct col_python_layout layout;
} known[] = {
    {0x0309,
     {.kind = COL_PYTHON_FRAME_OBJECTS,
      .lines = COL_PYTHON_LNOTAB,
      .text_compact = 72,
      .owner_inner = UINT8_MAX,
      .index_bytes = 1,
      .interpreters = 32,
      .interpreter_next = 0,
      .threads = 8,
      .thread_next = 8,
      .thread_id = 176,
      .native_id = NONE,
      .chunk = NONE,
      .frame = 24,
      .cframe_frame = NONE,
      .frame_back = 24,
      .frame_code = 32,
      .frame_at = 104,
      .frame_owner = NONE,
      .code_file = 104,
      .code_name = 112,
      .code_line = 40,
      .code_table = 120,
      .code_bytes = NONE,
      .type = 8,
      .bytes_size = 16,
      .bytes_data = 32,
      .text_length = 16,
      .text_state = 32,
      .text_ascii = 48}},
    {0x030a,
     {.kind = COL_PYTHON_FRAME_OBJECTS,
      .lines = COL_PYTHON_LINETABLE,
      .text_compact = 72,
      .owner_inner = UINT8_MAX,
      .index_bytes = 2,
      .interpreters = 32,
      .interpreter_next = 0,
      .threads = 8,
      .thread_next = 8,
      .thread_id = 176,
      .native_id = NONE,
      .chunk = NONE,
      .frame = 24,
      .cframe_frame = NONE,
      .frame_back = 24,
      .frame_code = 32,
      .frame_at = 96,
      .frame_owner = NONE,
      .code_file = 104,
      .code_name = 112,
      .code_line = 40,
      .code_table = 120,
      .code_bytes = NONE,
      .type = 8,
      .bytes_size = 16,
      .bytes_data = 32,
      .text_length = 16,
      .text_state = 32,
      .text_ascii = 48}},
    {0x030b,
     {.kind = COL_PYTHON_CFRAME,
      .lines = COL_PYTHON_LOCATIONS,
      .text_compact = 72,
      .owner_inner = 3,
      .index_bytes = 1,
      .interpreters = 40,
      .interpreter_next = 0,
      .threads = 16,
      .thread_next = 8,
      .thread_id = 152,
      .native_id = 160,
      .chunk = 296,
      .frame = 56,
      .cframe_frame = 8,
      .frame_back = 48,
      .frame_code = 32,
      .frame_at = 56,
      .frame_owner = 69,
      .code_file = 112,
      .code_name = 128,
      .code_line = 72,
      .code_table = 136,
      .code_bytes = 184,
      .type = 8,
      .bytes_size = 16,
      .bytes_data = 32,
      .text_length = 16,
      .text_state = 32,
      .text_ascii = 48}},
    {0x030c,
     {.kind = COL_PYTHON_CFRAME,
      .lines = COL_PYTHON_LOCATIONS,
      .text_compact = 56,
      .owner_inner = 3,
      .index_bytes = 1,
      .interpreters = 40,
      .interpreter_next = 0,
      .threads = 72,
      .thread_next = 8,
      .thread_id = 136,
      .native_id = 144,
      .chunk = 232,
      .frame = 56,
      .cframe_frame = 0,
      .frame_back = 8,
      .frame_code = 0,
      .frame_at = 56,
      .frame_owner = 70,
      .code_file = 112,
      .code_name = 128,
      .code_line = 68,
      .code_table = 136,
      .code_bytes = 192,
      .type = 8,
      .bytes_size = 16,
      .bytes_data = 32,
      .text_length = 16,
      .text_state = 32,
      .text_ascii = 40}},
};

/* Which word of _Py_DebugOffsets is which field. */
static const struct {
    unsigned version;
    uint8_t used; /* words */
    struct {
        uint8_t interpreters, interpreter_next, threads, thread_next, frame, thread_id, native_id,
            chunk, frame_back, frame_code, frame_at, frame_owner, code_file, code_name, code_table,
            code_line, code_bytes, type, bytes_size, bytes_data, text_state, text_length,
            text_ascii;
    } word;
} words_of[] = {
    {0x030d, 73, {5,  8,  9,  21, 23, 24, 25, 26, 29, 30, 31, 33,
                  35, 37, 38, 39, 43, 45, 65, 66, 68, 69, 70}},
    {0x030e, 95, {5,  8,  9,  24, 26, 27, 28, 29, 32, 33, 34, 36,
                  40, 42, 43, 44, 48, 51, 75, 76, 78, 79, 80}},
};

const char *col_python_version_refused(unsigned version)
{
    if (version < OLDEST)
        return "this version of Python is older than 3.9: its frames cannot be read";
    if (version > NEWEST)
        return "this version of Python is newer than 3.14: its frames are not known to this tacho";
    return NULL;
}

bool col_python_layout_of(unsigned version, struct col_python_layout *layout)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].version == version) {
            *layout = known[i].layout;
            return true;
        }
    return false;
}

/* Copies the offsets that the interpreter has into a layout, each checked: the process may have
 * anything there, and fields of a frame, a code object or a text are looked for in a copy of its
 * first bytes. */
static bool take_words(const uint64_t *words, size_t at, struct col_python_layout *layout)
{
    const unsigned frame = COL_PYTHON_FRAME_BYTES - sizeof(uint64_t),
                   code = COL_PYTHON_CODE_BYTES - sizeof(uint64_t),
                   text = COL_PYTHON_TEXT_HEAD - sizeof(uint64_t);
    const struct {
        uint16_t *field;
        uint8_t word;
        unsigned most;
    } copy[] = {
        {&layout->interpreters, words_of[at].word.interpreters, LARGEST},
        {&layout->interpreter_next, words_of[at].word.interpreter_next, LARGEST},
        {&layout->threads, words_of[at].word.threads, LARGEST},
        {&layout->thread_next, words_of[at].word.thread_next, LARGEST},
        {&layout->frame, words_of[at].word.frame, LARGEST},
        {&layout->thread_id, words_of[at].word.thread_id, LARGEST},
        {&layout->native_id, words_of[at].word.native_id, LARGEST},
        {&layout->chunk, words_of[at].word.chunk, LARGEST},
        {&layout->frame_back, words_of[at].word.frame_back, frame},
        {&layout->frame_code, words_of[at].word.frame_code, frame},
        {&layout->frame_at, words_of[at].word.frame_at, frame},
        {&layout->frame_owner, words_of[at].word.frame_owner, frame},
        {&layout->code_file, words_of[at].word.code_file, code},
        {&layout->code_name, words_of[at].word.code_name, code},
        {&layout->code_table, words_of[at].word.code_table, code},
        {&layout->code_line, words_of[at].word.code_line, code},
        {&layout->code_bytes, words_of[at].word.code_bytes, LARGEST},
        {&layout->type, words_of[at].word.type, code},
        {&layout->bytes_size, words_of[at].word.bytes_size, LARGEST},
        {&layout->bytes_data, words_of[at].word.bytes_data, LARGEST},
        {&layout->text_state, words_of[at].word.text_state, text},
        {&layout->text_length, words_of[at].word.text_length, text},
        {&layout->text_ascii, words_of[at].word.text_ascii, COL_PYTHON_TEXT_HEAD},
    };
    for (size_t i = 0; i < sizeof copy / sizeof *copy; i++) {
        if (words[copy[i].word] > copy[i].most)
            return false;
        *copy[i].field = (uint16_t)words[copy[i].word];
    }
    return true;
}

const char *col_python_layout_read(unsigned version, const uint64_t *words, size_t count,
                                   struct col_python_layout *layout)
{
    size_t at = 0, all = sizeof words_of / sizeof *words_of;
    while (at < all && words_of[at].version != version)
        at++;
    if (version < FROM_RUN || at == all || count < words_of[at].used)
        return "this version of Python is not known to this tacho";
    if (memcmp(words, COOKIE, sizeof *words) != 0 || words[1] >> 16 != version)
        return "the interpreter does not say where its frames are (_Py_DebugOffsets)";
    if (words[2])
        return "a free-threaded build of Python: its frames cannot be read";
    *layout = (struct col_python_layout){.kind = COL_PYTHON_FRAMES,
                                         .lines = COL_PYTHON_LOCATIONS,
                                         .owner_inner = 3,
                                         .index_bytes = 1,
                                         .cframe_frame = NONE};
    if (!take_words(words, at, layout))
        return "the interpreter's table of offsets is damaged (_Py_DebugOffsets)";
    layout->text_compact = (uint16_t)(layout->text_ascii + 16);
    return NULL;
}
