/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes of a command and its environment: what a text describes, and what becomes of the words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "analyzers/steps/change.h"

/* The words or variables that come of it are those of `wanted`, a JSON text. */
static void assert_json(json_t *got, const char *wanted)
{
    json_t *want = json_loads(wanted, 0, NULL);
    assert_non_null(want);
    if (!got || !json_equal(got, want))
        fail_msg("got %s, wanted %s", got ? json_dumps(got, JSON_COMPACT) : "nothing", wanted);
    json_decref(got);
    json_decref(want);
}

static void assert_words(const char *command, const char *text, const char *wanted)
{
    json_t *words = json_loads(command, 0, NULL), *change = an_change_parse(text);
    assert_true(words && (change || !text));
    assert_json(an_change_words(words, change), wanted);
    json_decref(words);
    json_decref(change);
}

static void texts(void **state)
{
    (void)state;
    assert_json(an_change_parse("--batch 16 --accumulate 1"),
                "[[\"--batch\", \"16\"], [\"--accumulate\", \"1\"]]");
    assert_json(an_change_parse("--overlap"), "[[\"--overlap\", true]]");
    assert_json(an_change_parse("without --pin"), "[[\"--pin\", null]]");
    assert_json(an_change_parse("OMP_NUM_THREADS=2"), "[[\"OMP_NUM_THREADS\", \"2\"]]");
    assert_json(an_change_parse("OMP_NUM_THREADS=2 --workers 3"),
                "[[\"OMP_NUM_THREADS\", \"2\"], [\"--workers\", \"3\"]]");
    /* words for a person, and variables that are none of ours */
    static const char *const none[] = {"",
                                       " ",
                                       "a deeper queue",
                                       "use free cores",
                                       "without pin",
                                       "LD_PRELOAD=/tmp/x.so",
                                       "PATH=/tmp",
                                       "rank 1 as fast",
                                       "--",
                                       "BASH_ENV=x --batch 1"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_null(an_change_parse(none[i]));
    assert_null(an_change_parse(NULL));
}

static void words(void **state)
{
    (void)state;
    assert_words("[\"train\", \"gpt2\", \"--workers\", \"1\"]", "--workers 3",
                 "[\"train\", \"gpt2\", \"--workers\", \"3\"]");
    assert_words("[\"train\", \"--workers=1\", \"--steps\", \"9\"]", "--workers 3 --prefetch 6",
                 "[\"train\", \"--workers\", \"3\", \"--steps\", \"9\", \"--prefetch\", \"6\"]");
    assert_words("[\"train\", \"--pin\", \"--pinned\", \"x\"]", "without --pin",
                 "[\"train\", \"--pinned\", \"x\"]");
    assert_words("[\"train\", \"--batch\"]", "--batch 4", "[\"train\", \"--batch\", \"4\"]");
    assert_words("[\"train\", \"--batch\", \"2\", \"--batch\", \"3\"]", "--batch 4",
                 "[\"train\", \"--batch\", \"4\"]");
    /* nothing is a shell's here */
    assert_words("[\"sh\", \"-c\", \"a; b $(c)\"]", "--batch 4",
                 "[\"sh\", \"-c\", \"a; b $(c)\", \"--batch\", \"4\"]");
    assert_words("[\"train\", \"x\"]", NULL, "[\"train\", \"x\"]");
    assert_words("[\"train\", \"x\"]", "OMP_NUM_THREADS=2", "[\"train\", \"x\"]");
}

static void variables(void **state)
{
    (void)state;
    json_t *recorded = json_loads(
               "{\"OMP_NUM_THREADS\": \"8\", \"OMP_PROC_BIND\": \"close\", \"LANG\": \"C\", "
               "\"LD_PRELOAD\": \"/x.so\", \"NCCL_KEY\": \"<redacted>\"}",
               0, NULL),
           *change = an_change_parse("OMP_NUM_THREADS=2");
    assert_json(an_change_variables(recorded, change),
                "{\"OMP_NUM_THREADS\": \"2\", \"OMP_PROC_BIND\": \"close\"}");
    assert_json(an_change_variables(recorded, NULL),
                "{\"OMP_NUM_THREADS\": \"8\", \"OMP_PROC_BIND\": \"close\"}");
    assert_json(an_change_variables(NULL, change), "{\"OMP_NUM_THREADS\": \"2\"}");
    json_decref(recorded);
    json_decref(change);
}

static void launchers(void **state)
{
    (void)state;
    assert_string_equal(an_change_launcher("mpi", "4")[0], "mpirun");
    assert_string_equal(an_change_launcher("torchrun", "2")[0], "torchrun");
    assert_string_equal(an_change_launcher("slurm", "2")[0], "srun");
    assert_null(an_change_launcher(NULL, "2"));
    assert_null(an_change_launcher("mpi", NULL));
    assert_null(an_change_launcher("mpi", "2; rm -r x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(words),
        cmocka_unit_test(variables),
        cmocka_unit_test(launchers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
