/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parser of the Kineto importer remembers: strings, keys, its own life.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/import/kineto/kineto_private.h"
#include "store/keyed_hash.h"

int kineto_no_memory(struct kineto *kineto)
{
    return kineto->code = TACHO_ENOMEM;
}

/* ---- table ------------------------------------------------------------------------------------------------------------- */

/* The slot that holds the key, or the empty one where it belongs. */
static size_t slot_of(const struct kineto_table *table, struct kineto_key key)
{
    size_t i = (size_t)store_hash_pair(key.first, key.second) & (table->cap - 1);
    while (table->slot[i].number &&
           (table->slot[i].key.first != key.first || table->slot[i].key.second != key.second))
        i = (i + 1) & (table->cap - 1);
    return i;
}

uint32_t kineto_table_get(const struct kineto_table *table, struct kineto_key key)
{
    return table->cap ? table->slot[slot_of(table, key)].number : 0;
}

int kineto_table_set(struct kineto_table *table, struct kineto_key key, uint32_t number)
{
    if ((table->count + 1) * 2 > table->cap) {
        struct kineto_table larger = {.cap = table->cap ? 2 * table->cap : 256,
                                      .count = table->count};
        larger.slot = calloc(larger.cap, sizeof *larger.slot);
        if (!larger.slot)
            return TACHO_ENOMEM;
        for (size_t i = 0; i < table->cap; i++)
            if (table->slot[i].number)
                larger.slot[slot_of(&larger, table->slot[i].key)] = table->slot[i];
        free(table->slot);
        *table = larger;
    }
    table->slot[slot_of(table, key)] = (struct kineto_slot){key, number};
    table->count++;
    return 0;
}

/* ---- strings ----------------------------------------------------------------------------------------------------------- */

uint32_t kineto_string_number(struct kineto *kineto, const char *text, size_t bytes)
{
    int64_t id;
    bool added;
    if (store_intern_put(&kineto->strings, text, bytes, &id, &added)) {
        kineto_no_memory(kineto);
        return 0;
    }
    if (added) {
        struct kineto_text decoded = {0};
        struct kineto_def *def = kineto_batch_def(kineto->batch, KINETO_DEF_STRING);
        kineto_unescape(&decoded, (struct kj_span){text, bytes});
        if (def) {
            def->text =
                kineto_batch_text(kineto->batch, decoded.data ? decoded.data : "", decoded.bytes);
            def->bytes = decoded.bytes;
        }
        if (!def || !def->text || decoded.failed)
            kineto_no_memory(kineto);
        kineto_text_clear(&decoded);
    }
    return (uint32_t)(id - 1);
}

uint32_t kineto_string_json(struct kineto *kineto, struct kj_span span)
{
    span = kineto_inside(span);
    return kineto_string_number(kineto, span.text ? span.text : "", span.bytes);
}

char *kineto_dup(struct kineto *kineto, struct kj_span span)
{
    struct kineto_text text = {0};
    kineto_unescape(&text, span);
    kineto_text_put(&text, "", 1);
    if (text.failed) {
        kineto_text_clear(&text);
        kineto_no_memory(kineto);
        return NULL;
    }
    return text.data;
}

/* ---- life -------------------------------------------------------------------------------------------------------------- */

int kineto_init(struct kineto *kineto, const char *path)
{
    memset(kineto, 0, sizeof *kineto);
    kineto->path = path;
    kineto->rank = STORE_ABSENT;
    kineto->world = STORE_ABSENT;
    kineto->process_cap = 4;
    kineto->process = malloc(kineto->process_cap * sizeof *kineto->process);
    if (!kineto->process)
        return TACHO_ENOMEM;
    kineto->process[0].pid = STORE_ABSENT;
    kineto->processes = 1;
    for (size_t i = 0; i < sizeof kineto->category / sizeof *kineto->category; i++)
        kineto->category[i].bytes = SIZE_MAX;
    return 0;
}

void kineto_clear(struct kineto *kineto)
{
    store_intern_clear(&kineto->strings);
    store_intern_clear(&kineto->details);
    store_intern_clear(&kineto->unknown_args);
    kineto_text_clear(&kineto->key);
    kineto_text_clear(&kineto->scratch);
    kineto_text_clear(&kineto->payload);
    free(kineto->table.slot);
    for (size_t i = 0; i < kineto->tracks; i++)
        free(kineto->track[i].open);
    free(kineto->track);
    free(kineto->process);
    for (size_t i = 0; i < kineto->names; i++)
        free(kineto->name[i].text);
    free(kineto->name);
    for (size_t i = 0; i < kineto->runs; i++) {
        free(kineto->run[i].key);
        free(kineto->run[i].value);
    }
    free(kineto->run);
    free(kineto->host);
}

void kineto_guess_base(struct kineto *kineto, const char *path)
{
    static const char key[] = "\"baseTimeNanoseconds\"";
    char text[4097];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    for (int end = 0; end < 2; end++) {
        off_t offset = end && !fstat(fd, &st) && st.st_size > (off_t)sizeof text - 1
                           ? st.st_size - ((off_t)sizeof text - 1)
                           : 0;
        ssize_t bytes = pread(fd, text, sizeof text - 1, offset);
        text[bytes > 0 ? bytes : 0] = 0;
        const char *found = strstr(text, key);
        if (found && (found = strchr(found + sizeof key - 1, ':'))) {
            found += 1 + strspn(found + 1, " \t\r\n");
            kineto_int((struct kj_span){found, strspn(found, "0123456789")}, &kineto->base);
            if (kineto->base >= 0 && kineto->base < INT64_C(4000000000000000000))
                kineto->base_guessed = true;
            else
                kineto->base = 0;
        }
    }
    close(fd);
}
