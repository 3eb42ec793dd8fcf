/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the arguments of an event: details and payloads, under the names that Kineto uses.
 */
#include <inttypes.h>
#include <string.h>

#include "store/export/export_private.h"
#include "store/import/kineto/kineto_args.h"

void exp_arg(struct exp_args *args, const char *name)
{
    if (args->any)
        putc(',', args->out);
    args->any = true;
    exp_json_string(args->out, name);
    putc(':', args->out);
}

void exp_arg_int(struct exp_args *args, const char *name, int64_t value)
{
    if (value == STORE_ABSENT)
        return;
    exp_arg(args, name);
    fprintf(args->out, "%" PRId64, value);
}

void exp_arg_text(struct exp_args *args, const char *name, const char *value)
{
    if (!value)
        return;
    exp_arg(args, name);
    exp_json_string(args->out, value);
}

/* "x,y,z" as a list; anything else as text */
static void arg_triple(struct exp_args *args, const char *name, const char *value)
{
    if (!value)
        return;
    if (!*value || strspn(value, "0123456789,") != strlen(value) || strstr(value, ",,") ||
        *value == ',' || value[strlen(value) - 1] == ',') {
        exp_arg_text(args, name, value);
        return;
    }
    exp_arg(args, name);
    fprintf(args->out, "[%s]", value);
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

/* Writes the members of a payload as arguments, under the names that Kineto gives them. A payload
 * of another program is one argument. */
static void payload(struct exp_args *args, const struct store_detail *detail)
{
    const char *member = detail->payload, *key, *value;
    size_t key_bytes, value_bytes;
    unsigned use = schema_use(detail->schema);
    if (!member)
        return;
    if (!exp_json_valid(member)) {
        exp_arg_text(args, "payload", member);
        return;
    }
    if (!use) { /* of another program: as a whole, under its name */
        exp_arg(args, detail->schema ? detail->schema : "payload");
        fputs(member, args->out);
        return;
    }
    while (exp_json_member(&member, &key, &key_bytes, &value, &value_bytes) == 1) {
        const char *name = renamed(use, key, key_bytes);
        if (args->any)
            putc(',', args->out);
        args->any = true;
        if (name)
            exp_json_string(args->out, name);
        else
            fprintf(args->out, "\"%.*s\"", (int)key_bytes, key);
        fprintf(args->out, ":%.*s", (int)value_bytes, value);
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

void exp_args_detail(struct exp_args *args, const struct store_detail *detail, bool instant)
{
    bool torch = detail->schema && !strcmp(detail->schema, "torch.comm"),
         comm = detail->collective || torch;
    exp_arg_int(args, "flops", detail->flops);
    exp_arg_int(args, "bytes_read", detail->bytes_read);
    exp_arg_int(args, "bytes_written", detail->bytes_written);
    exp_arg_int(args, "model_flops", detail->model_flops);
    exp_arg_int(args, instant ? "Bytes" : "bytes", detail->bytes); /* of an allocation */
    exp_arg_int(args, "samples", detail->samples);
    exp_arg_int(args, torch ? "Process Group ID" : "communicator", detail->communicator);
    exp_arg_int(args, comm ? "Group size" : "ranks", detail->ranks);
    exp_arg_text(args, "dtype", torch ? torch_dtype(detail->dtype) : detail->dtype);
    exp_arg_text(args, "pass", detail->pass);
    exp_arg_text(args, detail->schema && !strncmp(detail->schema, "gpu.mem", 7) ? "memory" : "kind",
                 detail->kind);
    exp_arg_text(args, "Collective name", detail->collective);
    exp_arg_text(args,
                 detail->schema && !strcmp(detail->schema, "gpu.memcpy") ? "kind" : "copy_kind",
                 detail->copy_kind);
    arg_triple(args, "grid", detail->grid);
    arg_triple(args, "block", detail->block);
    payload(args, detail);
}
