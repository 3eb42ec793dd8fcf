/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the payload of an operator, finds it in the tables of costs and asks its row for the cost.
 */
#include "analyzers/work/op_cost.h"

#include <jansson.h>
#include <string.h>

#include "store/store.h"
#include "tacho_error.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

/* ---- the payload ----------------------------------------------------------------------------- */

/* Names of element types, of today's and of older versions of PyTorch. Two 4-bit numbers share an
 * element of fp4. */
static const struct {
    const char *name, *dtype;
    int bytes;
} types[] = {{"float", "fp32", 4},
             {"double", "fp64", 8},
             {"c10::Half", "fp16", 2},
             {"at::Half", "fp16", 2},
             {"c10::BFloat16", "bf16", 2},
             {"c10::Float8_e4m3fn", "fp8", 1},
             {"c10::Float8_e5m2", "fp8", 1},
             {"c10::Float8_e4m3fnuz", "fp8", 1},
             {"c10::Float8_e5m2fnuz", "fp8", 1},
             {"c10::Float8_e8m0fnu", "fp8", 1},
             {"c10::Float4_e2m1fn_x2", "fp4", 1},
             {"long int", "int64", 8},
             {"long", "int64", 8},
             {"long long", "int64", 8},
             {"int", "int32", 4},
             {"short", "int16", 2},
             {"short int", "int16", 2},
             {"signed char", "int8", 1},
             {"char", "int8", 1},
             {"unsigned char", "uint8", 1},
             {"unsigned short", "uint16", 2},
             {"unsigned int", "uint32", 4},
             {"unsigned long", "uint64", 8},
             {"bool", "bool", 1},
             {"c10::complex<float>", "complex64", 8},
             {"c10::complex<double>", "complex128", 16},
             {"c10::qint8", "int8", 1},
             {"c10::quint8", "uint8", 1}};
#define TYPES (sizeof types / sizeof *types)

/* Reads sizes and type; false: the sizes are not usable. */
static bool tensor_parse(const json_t *dims, const char *type, struct an_op_tensor *op_tensor)
{
    *op_tensor = (struct an_op_tensor){.rank = (int)json_array_size(dims), .dtype = ""};
    if (json_array_size(dims) > AN_OP_RANK_MAX)
        return false;
    for (int i = 0; i < op_tensor->rank; i++) {
        const json_t *json = json_array_get(dims, (size_t)i);
        if (!json_is_integer(json) || json_integer_value(json) < 0)
            return false;
        op_tensor->dim[i] = json_integer_value(json);
    }
    for (size_t k = 0; k < TYPES; k++)
        if (!strcmp(type, types[k].name)) {
            op_tensor->dtype = types[k].dtype;
            op_tensor->bytes = types[k].bytes;
        }
    return true;
}

/* A list of tensors has one list of sizes each; a tensor without sizes differs from a
 * scalar by its type. */
static bool input_parse(struct an_arena *arena, const json_t *dims, const char *type,
                        struct an_op_input *input)
{
    bool list = json_array_size(dims) && json_is_array(json_array_get(dims, 0));
    size_t count = list ? json_array_size(dims) : 1;
    struct an_op_tensor *op_tensor = an_arena_zero(arena, count, sizeof *op_tensor);
    if (!op_tensor)
        return false;
    input->list = list || !strcmp(type, "TensorList");
    input->tensor = op_tensor;
    for (size_t i = 0; i < count; i++)
        if (!tensor_parse(list ? json_array_get(dims, i) : dims, type, &op_tensor[i]))
            return true;
    input->count = list || op_tensor->rank || op_tensor->bytes ? count : 0;
    return true;
}

static const char *json_text(const json_t *json)
{
    const char *text = json_is_string(json) ? json_string_value(json) : NULL;
    return text ? text : "";
}

/* An array of texts, or one text with the frames separated by ';'. */
static int stack_parse(struct an_arena *arena, const json_t *stack, struct an_op_args *out)
{
    size_t count = json_array_size(stack);
    const char **frame;
    if (json_is_string(stack)) {
        char *text = an_arena_copy(arena, json_string_value(stack),
                                   strlen(json_string_value(stack)) + 1),
             *save = NULL;
        if (!text)
            return TACHO_ENOMEM;
        for (const char *text_at = text; *text_at; text_at++)
            count += *text_at == ';';
        if (!(frame = an_arena_zero(arena, count + 1, sizeof *frame)))
            return TACHO_ENOMEM;
        count = 0;
        for (char *text_at = strtok_r(text, ";", &save); text_at;
             text_at = strtok_r(NULL, ";", &save))
            frame[count++] = text_at;
    } else {
        if (!(frame = an_arena_zero(arena, count + 1, sizeof *frame)))
            return TACHO_ENOMEM;
        for (size_t i = 0; i < count; i++)
            frame[i] = an_arena_text(arena, json_text(json_array_get(stack, i)));
    }
    out->frame = frame;
    out->frames = count;
    return 0;
}

int an_op_args_parse(struct an_arena *arena, const char *payload, struct an_op_args *out)
{
    json_error_t error;
    json_t *root = json_loads(payload, 0, &error);
    const json_t *shapes = json_object_get(root, "shapes"), *kinds = json_object_get(root, "types"),
                 *concrete = json_object_get(root, "concrete");
    size_t count = json_array_size(shapes);
    struct an_op_input *input = an_arena_zero(arena, count ? count : 1, sizeof *input);
    int rc = TACHO_ENOMEM;
    *out = (struct an_op_args){
        .count = count, .shapes = json_is_array(shapes), .concrete = json_is_array(concrete)};
    if (!input)
        goto out;
    for (size_t i = 0; i < count; i++) {
        if (!input_parse(arena, json_array_get(shapes, i), json_text(json_array_get(kinds, i)),
                         &input[i]))
            goto out;
        input[i].concrete = an_arena_text(arena, json_text(json_array_get(concrete, i)));
    }
    out->input = input;
    rc = json_object_get(root, "stack") ? stack_parse(arena, json_object_get(root, "stack"), out)
                                        : 0;
out:
    json_decref(root);
    return rc;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* ---- the tables ------------------------------------------------------------------------------ */

#define OTHERS_FROM 4096 /* numbers of an_op_others start here */

int an_op_find(const char *name)
{
    for (int i = 0; an_op_products[i].name; i++)
        if (!strcmp(an_op_products[i].name, name))
            return i;
    for (int i = 0; an_op_others[i].name; i++)
        if (!strcmp(an_op_others[i].name, name))
            return OTHERS_FROM + i;
    return -1;
}

bool an_op_is_product(int op)
{
    return op >= 0 && op < OTHERS_FROM;
}

struct an_op_cost an_op_cost(int op, const struct an_op_args *args,
                             const struct an_op_context *context)
{
    static const struct an_op_context nothing = {NULL, NULL};
    if (op < 0)
        return an_op_absent(AN_OP_OTHER, "the operator is not known to tacho");
    const struct an_op_row *row =
        op < OTHERS_FROM ? &an_op_products[op] : &an_op_others[op - OTHERS_FROM];
    if (!args->shapes) {
        struct an_op_args none = {.count = 0};
        enum an_op_kind kind = row->cost(row, &none, &nothing).kind;
        return an_op_absent(kind, "no shapes recorded; record with record_shapes=True");
    }
    return row->cost(row, args, context ? context : &nothing);
}
