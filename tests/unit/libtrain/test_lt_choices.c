/* SPDX-License-Identifier: Apache-2.0
 *
 * Every choice that a run has is described twice: in `train --help all` and in docs/engine.md. The
 * choices are the rows of the tables that the program itself chooses from, so one that is new and
 * undescribed fails here.
 */
#include "lt_support.h"

#include <ctype.h>

#include "libtrain/collectives/codec.h"
#include "libtrain/collectives/group.h"
#include "libtrain/models/init.h"
#include "libtrain/parallel/stages.h"
#include "libtrain/train/clipping.h"
#include "libtrain/train/optimizer.h"
#include "libtrain/train/schedule.h"
#include "workloads/recipe.h"

static char *help, *page;

static int in_a_word(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_';
}

/* Does the text have the word, with nothing before or after it that would make it another one? */
static int has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        if ((at == text || !in_a_word(at[-1])) && !in_a_word(at[length]))
            return 1;
    return 0;
}

static void check(const char *kind, const char *word)
{
    if (!has_word(help, word))
        fail_msg("%s %s is not in train --help all", kind, word);
    if (!has_word(page, word))
        fail_msg("%s %s is not in docs/engine.md", kind, word);
}

static int open_texts(void **state)
{
    (void)state;
    char path[600];
    size_t bytes = 0;
    FILE *file = open_memstream(&help, &bytes);
    options_print(file);
    fclose(file);
    snprintf(path, sizeof path, "%s/docs/engine.md", getenv("SRC") ? getenv("SRC") : ".");
    file = fopen(path, "r");
    if (!file)
        return -1;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    page = calloc(1, (size_t)size + 1);
    bytes = fread(page, 1, (size_t)size, file);
    fclose(file);
    return bytes == (size_t)size ? 0 : -1;
}

static int close_texts(void **state)
{
    (void)state;
    free(help);
    free(page);
    return 0;
}

/* Every option that --help lists. */
static void options(void **state)
{
    (void)state;
    int found = 0;
    for (const char *at = strstr(help, "\n  --"); at; at = strstr(at + 1, "\n  --")) {
        char name[64] = "";
        sscanf(at, " %60[a-z0-9-]", name);
        if (!has_word(page, name))
            fail_msg("%s is not in docs/engine.md", name);
        found++;
    }
    assert_true(found > 80);
}

static void values(void **state)
{
    (void)state;
    for (int i = 0; i < LT_OPTIMIZER_COUNT; i++)
        check("--optimizer", lt_optimizer_name((enum lt_optimizer_kind)i));
    for (int i = 0; i < LT_DTYPE_COUNT; i++)
        check("--dtype", lt_dtype_name((enum lt_dtype)i));
#define ROW(id, function, name) check("--schedule", name);
    LT_SCHEDULE_MAP(ROW)
#undef ROW
#define ROW(id, name) check("--clip-by", name);
    LT_CLIP_MAP(ROW)
#undef ROW
#define ROW(id, name) check("--recompute", name);
    LT_RECOMPUTE_MAP(ROW)
#undef ROW
#define ROW(id, function, name, feedback) check("--compress", name);
    LT_CODEC_MAP(ROW)
#undef ROW
#define ROW(id, name) check("--pipeline", name);
    LT_SCHEDULE_OF_STAGES_MAP(ROW)
#undef ROW
#define ROW(id, function, name) check("--init", name);
    LT_INIT_MAP(ROW)
#undef ROW
#define ROW(id, function, name) check("--all-reduce", name);
    LT_ALL_REDUCE_MAP(ROW)
#undef ROW
    static const char *const others[] = {
        "library",     "reference", "cuda",     "processes",  "threads", "mapped",
        "pread",       "images",    "idx",      "tokens",     "dynamic", "linear",
        "activations", "tf32",      "master",   "stochastic", "nearest", "powersgd",
        "gossip",      "server",    "adaptive", "zstd"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        check("a value", others[i]);
}

/* --help begins with the recipes, which main.c prints. */
static void recipes(void **state)
{
    (void)state;
    static const struct recipe *const families[] = {&recipe_gpt2, &recipe_llama, &recipe_mlp,
                                                    &recipe_resnet};
    const char *name, *text;
    char defaults[80];
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (size_t j = 0; families[i]->name(j, &name, &text, defaults, sizeof defaults); j++)
            if (!has_word(page, name))
                fail_msg("the recipe %s is not in docs/engine.md", name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options),
        cmocka_unit_test(values),
        cmocka_unit_test(recipes),
    };
    return cmocka_run_group_tests(tests, open_texts, close_texts);
}
