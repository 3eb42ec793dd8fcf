/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of an event: details and payloads in the words of Kineto's traces.
 */
#include <inttypes.h>
#include <string.h>

#include "store/export/exporter.h"
#include "store/import/kineto/kineto_args.h"

void exp_arg(struct exp_args *w, const char *name)
{
    if (w->any)
        putc(',', w->out);
    w->any = true;
    exp_json_string(w->out, name);
    putc(':', w->out);
}

void exp_arg_int(struct exp_args *w, const char *name, int64_t value)
{
    if (value == STORE_ABSENT)
        return;
    exp_arg(w, name);
    fprintf(w->out, "%" PRId64, value);
}

void exp_arg_text(struct exp_args *w, const char *name, const char *value)
{
    if (!value)
        return;
    exp_arg(w, name);
    exp_json_string(w->out, value);
}

/* "x,y,z" as a list; anything else as text */
static void arg_triple(struct exp_args *w, const char *name, const char *value)
{
    if (!value)
        return;
    if (!*value || strspn(value, "0123456789,") != strlen(value) || strstr(value, ",,") ||
        *value == ',' || value[strlen(value) - 1] == ',') {
        exp_arg_text(w, name, value);
        return;
    }
    exp_arg(w, name);
    fprintf(w->out, "[%s]", value);
}

/* ---- payloads -------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *text, *key;
    unsigned use;
} renames[] = {
#define RENAME(name, text, use, key) {text, key, use},
    KINETO_ARG_MAP(RENAME)
#undef RENAME
};

static unsigned schema_use(const char *schema)
{
    static const struct {
        const char *schema;
        unsigned use;
    } uses[] = {{"torch.op", KINETO_USE_OP},       {"torch.comm", KINETO_USE_COMM},
                {"gpu.kernel", KINETO_USE_KERNEL}, {"gpu.memcpy", KINETO_USE_COPY},
                {"gpu.memset", KINETO_USE_COPY},   {"gpu.sync", KINETO_USE_SYNC}};
    for (size_t i = 0; schema && i < sizeof uses / sizeof *uses; i++)
        if (!strcmp(uses[i].schema, schema))
            return uses[i].use;
    return 0;
}

/* Kineto's name of a key of a payload, NULL: it has none. A name for this schema alone goes before
 * one that means several things. */
static const char *renamed(unsigned use, const char *key, size_t bytes)
{
    const char *found = NULL;
    for (size_t i = 0; i < sizeof renames / sizeof *renames; i++) {
        bool fits = (renames[i].use & use) && renames[i].key && strlen(renames[i].key) == bytes &&
                    !memcmp(renames[i].key, key, bytes);
        if (fits && renames[i].use == use)
            return renames[i].text;
        if (fits && !found)
            found = renames[i].text;
    }
    return found;
}

static void payload(struct exp_args *w, const struct store_detail *d)
{
    const char *at = d->payload, *key, *value;
    size_t key_bytes, value_bytes;
    unsigned use = schema_use(d->schema);
    if (!at)
        return;
    if (!exp_json_valid(at)) {
        exp_arg_text(w, "payload", at);
        return;
    }
    if (!use) { /* somebody else's: as a whole, under its name */
        exp_arg(w, d->schema ? d->schema : "payload");
        fputs(at, w->out);
        return;
    }
    while (exp_json_member(&at, &key, &key_bytes, &value, &value_bytes) == 1) {
        const char *name = renamed(use, key, key_bytes);
        if (w->any)
            putc(',', w->out);
        w->any = true;
        if (name)
            exp_json_string(w->out, name);
        else
            fprintf(w->out, "\"%.*s\"", (int)key_bytes, key);
        fprintf(w->out, ":%.*s", (int)value_bytes, value);
    }
}

/* PyTorch's word for a type, in the arguments of its collectives */
static const char *torch_dtype(const char *ours)
{
    static const char *const words[][2] = {{"fp32", "Float"},
                                           {"fp64", "Double"},
                                           {"fp16", "Half"},
                                           {"bf16", "BFloat16"},
                                           {"int64", "Long"},
                                           {"int32", "Int"},
                                           {"int16", "Short"},
                                           {"int8", "Char"},
                                           {"uint8", "Byte"},
                                           {"bool", "Bool"},
                                           {"fp8", "Float8_e4m3fn"},
                                           {"complex64", "ComplexFloat"},
                                           {"complex128", "ComplexDouble"}};
    for (size_t i = 0; ours && i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i][0], ours))
            return words[i][1];
    return ours;
}

void exp_args_detail(struct exp_args *w, const struct store_detail *d, bool instant)
{
    bool torch = d->schema && !strcmp(d->schema, "torch.comm"), comm = d->collective || torch;
    exp_arg_int(w, "flops", d->flops);
    exp_arg_int(w, "bytes_read", d->bytes_read);
    exp_arg_int(w, "bytes_written", d->bytes_written);
    exp_arg_int(w, "model_flops", d->model_flops);
    exp_arg_int(w, instant ? "Bytes" : "bytes", d->bytes); /* of an allocation */
    exp_arg_int(w, "samples", d->samples);
    exp_arg_int(w, torch ? "Process Group ID" : "communicator", d->communicator);
    exp_arg_int(w, comm ? "Group size" : "ranks", d->ranks);
    exp_arg_text(w, "dtype", torch ? torch_dtype(d->dtype) : d->dtype);
    exp_arg_text(w, "pass", d->pass);
    exp_arg_text(w, d->schema && !strncmp(d->schema, "gpu.mem", 7) ? "memory" : "kind", d->kind);
    exp_arg_text(w, "Collective name", d->collective);
    exp_arg_text(w, d->schema && !strcmp(d->schema, "gpu.memcpy") ? "kind" : "copy_kind",
                 d->copy_kind);
    arg_triple(w, "grid", d->grid);
    arg_triple(w, "block", d->block);
    payload(w, d);
}
