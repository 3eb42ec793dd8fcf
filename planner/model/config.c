/* SPDX-License-Identifier: Apache-2.0
 *
 * Models that the user describes: a config.json of Hugging Face, or dimensions on the command
 * line.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "planner/model/model.h"

#define CONFIG_MOST    (1 << 20) /* bytes of a config.json */
#define LAYERS_MOST    10000
#define DIMENSION_MOST 1000000000 /* of any size of a model */

/* Members of a model with the keys that configurations use, and the name on the command line. */
static const struct key {
    size_t offset;
    const char *word;
    const char *names[7];
} keys[] = {
    {offsetof(struct plan_model, layers),
     "layers",
     {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}},
    {offsetof(struct plan_model, width), "width", {"hidden_size", "n_embd", "d_model"}},
    {offsetof(struct plan_model, heads), "heads", {"num_attention_heads", "n_head", "n_heads"}},
    {offsetof(struct plan_model, kv_heads),
     "kv",
     {"num_key_value_heads", "num_kv_heads", "n_kv_heads"}},
    {offsetof(struct plan_model, head_dim), "head_dim", {"head_dim"}},
    {offsetof(struct plan_model, feed_forward),
     "ff",
     {"moe_intermediate_size", "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"}},
    {offsetof(struct plan_model, vocabulary), "vocab", {"vocab_size"}},
    {offsetof(struct plan_model, experts),
     "experts",
     {"num_local_experts", "num_experts", "n_routed_experts"}},
    {offsetof(struct plan_model, experts_active),
     "active",
     {"num_experts_per_tok", "experts_per_token"}},
    {offsetof(struct plan_model, dense_layers), "dense_layers", {"first_k_dense_replace"}},
    {offsetof(struct plan_model, dense_forward), "dense_ff", {"intermediate_size"}},
    {offsetof(struct plan_model, latent), "latent", {"kv_lora_rank"}},
    {offsetof(struct plan_model, query_rank), "query_rank", {"q_lora_rank"}},
    {offsetof(struct plan_model, value_dim), "value_dim", {"v_head_dim"}},
    {offsetof(struct plan_model, positions), "positions", {"n_positions"}},
};
#define KEYS (sizeof keys / sizeof *keys)

static int64_t *member(struct plan_model *model, const struct key *key)
{
    return (int64_t *)(void *)((char *)model + key->offset);
}

int plan_model_complete(struct plan_model *model, struct tacho_error *err)
{
    static const char *const hint = "a model has layers, width, heads and vocab of 1 or more";
    const struct {
        const char *name;
        int64_t value;
    } needed[] = {{"layers", model->layers},
                  {"width", model->width},
                  {"heads", model->heads},
                  {"vocab", model->vocabulary}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (needed[i].value < 1 || needed[i].value > DIMENSION_MOST)
            return tacho_fail(err, TACHO_EUSAGE, hint, "a model with %" PRId64 " %s",
                              needed[i].value, needed[i].name);
    if (model->layers > LAYERS_MOST)
        return tacho_fail(err, TACHO_EUSAGE, "is it a size of another kind?",
                          "a model with %" PRId64 " layers", model->layers);
    if (!model->head_dim && model->width % model->heads)
        return tacho_fail(err, TACHO_EUSAGE, "change one of the two, or give head_dim",
                          "%" PRId64 " heads do not divide the width %" PRId64, model->heads,
                          model->width);
    if (!model->head_dim)
        model->head_dim = model->width / model->heads;
    if (!model->kv_heads)
        model->kv_heads = model->heads;
    if (model->heads % model->kv_heads)
        return tacho_fail(err, TACHO_EUSAGE, "change one of the two",
                          "%" PRId64 " key-value heads do not divide %" PRId64 " heads",
                          model->kv_heads, model->heads);
    if (!model->feed_forward)
        model->feed_forward = 4 * model->width;
    if (model->experts && (model->experts_active < 1 || model->experts_active > model->experts))
        return tacho_fail(err, TACHO_EUSAGE, "give active=N, from 1 to the number of experts",
                          "%" PRId64 " of %" PRId64 " experts active", model->experts_active,
                          model->experts);
    return 0;
}

/* The first of a key's names that the object has as an integer. */
static bool find_number(const json_t *object, const struct key *key, int64_t *out)
{
    for (size_t i = 0; i < sizeof key->names / sizeof *key->names && key->names[i]; i++) {
        const json_t *value = json_object_get(object, key->names[i]);
        if (!json_is_integer(value))
            continue;
        *out = json_integer_value(value);
        return true;
    }
    return false;
}

static bool has_text(const json_t *object, const char *key, const char *part)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && strstr(text, part);
}

/* What a configuration says about gates and shared embeddings: models with a SiLU are gated, GPT-2
 * and its kin share their embeddings unless the file says otherwise. */
static void read_flags(const json_t *object, struct plan_model *model)
{
    const json_t *tied = json_object_get(object, "tie_word_embeddings");
    bool old = has_text(object, "model_type", "gpt2") || has_text(object, "model_type", "mpt") ||
               has_text(object, "model_type", "bloom") || has_text(object, "model_type", "opt");
    model->gated = has_text(object, "hidden_act", "silu") ||
                   has_text(object, "hidden_activation", "gelu_pytorch_tanh");
    model->tied = json_is_boolean(tied) ? json_is_true(tied) : old;
    model->shared_forward = 0;
    const json_t *shared = json_object_get(object, "n_shared_experts");
    if (json_is_integer(shared))
        model->shared_forward = json_integer_value(shared) * model->feed_forward;
    int64_t rope = json_integer_value(json_object_get(object, "qk_rope_head_dim"));
    int64_t plain = json_integer_value(json_object_get(object, "qk_nope_head_dim"));
    if (rope > 0 && plain > 0 && rope < DIMENSION_MOST && plain < DIMENSION_MOST)
        model->head_dim = rope + plain;
}

/* Takes the members from the object. Some configurations (images with text) hold the model of text
 * in an object of its own. */
static int read_object(const json_t *object, const char *path, struct plan_model *out,
                       struct tacho_error *err)
{
    const json_t *text = json_object_get(object, "text_config");
    if (json_is_object(text))
        object = text;
    *out = (struct plan_model){0};
    for (size_t i = 0; i < KEYS; i++) {
        int64_t value;
        if (!find_number(object, &keys[i], &value))
            continue;
        if (value < 0 || value > DIMENSION_MOST)
            return tacho_fail(err, TACHO_EFORMAT, "correct that number", "%s: %s is out of range",
                              path, keys[i].word);
        *member(out, &keys[i]) = value;
    }
    if (!out->layers || !out->width || !out->heads || !out->vocabulary)
        return tacho_fail(err, TACHO_EFORMAT,
                          "it needs hidden_size, num_hidden_layers, num_attention_heads and "
                          "vocab_size (or the keys of GPT-2)",
                          "%s: not the configuration of a transformer", path);
    if (!out->experts)
        out->experts_active = out->dense_layers = out->dense_forward = 0;
    read_flags(object, out);
    const char *base = strrchr(path, '/');
    const char *name = json_string_value(json_object_get(object, "_name_or_path"));
    if (!name || !*name)
        name = json_string_value(json_object_get(object, "model_type"));
    snprintf(out->name, sizeof out->name, "%.*s", PLAN_NAME - 1,
             name && *name ? name : (base ? base + 1 : path));
    return plan_model_complete(out, err) ? TACHO_EFORMAT : 0;
}

int plan_model_config(const char *path, struct plan_model *out, struct tacho_error *err)
{
    json_error_t problem;
    FILE *in = fopen(path, "r");
    if (!in)
        return tacho_fail(err, tacho_error_of_errno(errno), "check the path", "%s: %s", path,
                          strerror(errno));
    char *text = malloc(CONFIG_MOST);
    if (!text) {
        fclose(in);
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    }
    size_t bytes = fread(text, 1, CONFIG_MOST, in);
    bool failed = ferror(in) != 0;
    fclose(in);
    json_t *object = failed ? NULL : json_loadb(text, bytes, 0, &problem);
    free(text);
    if (failed)
        return tacho_fail(err, TACHO_EIO, NULL, "%s: could not be read", path);
    if (!json_is_object(object)) {
        json_decref(object);
        return tacho_fail(err, TACHO_EFORMAT, "a config.json of Hugging Face is expected",
                          "%s: not an object of JSON", path);
    }
    int rc = read_object(object, path, out, err);
    json_decref(object);
    return rc;
}

/* Sets one "word=number" of a description. */
static int set_word(struct plan_model *model, const char *word, int64_t value,
                    struct tacho_error *err)
{
    if (!strcmp(word, "gated"))
        model->gated = value != 0;
    else if (!strcmp(word, "tied"))
        model->tied = value != 0;
    else {
        for (size_t i = 0; i < KEYS; i++)
            if (!strcmp(keys[i].word, word)) {
                *member(model, &keys[i]) = value;
                return 0;
            }
        return tacho_fail(err, TACHO_EUSAGE,
                          "layers, width, heads, kv, head_dim, ff, vocab, experts, active, "
                          "positions, gated, tied",
                          "%s: no dimension of a model", word);
    }
    return 0;
}

int plan_model_dimensions(const char *text, struct plan_model *out, struct tacho_error *err)
{
    char word[32];
    int used;
    int64_t value;
    *out = (struct plan_model){.gated = true};
    snprintf(out->name, sizeof out->name, "%.*s", PLAN_NAME - 1, text);
    while (*text) {
        errno = 0; /* a number that is too large sets it */
        if (sscanf(text, "%31[a-z_]=%" SCNd64 "%n", word, &value, &used) != 2 || value < 0 ||
            errno || (text[used] && text[used] != ','))
            return tacho_fail(err, TACHO_EUSAGE, "write layers=32,width=4096,heads=32,vocab=32000",
                              "%.40s: not a list of NAME=NUMBER", text);
        int rc = set_word(out, word, value, err);
        if (rc)
            return rc;
        text += used + (text[used] == ',');
    }
    return plan_model_complete(out, err);
}
