/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho import: a run of traces of other tools.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cli/base/import_cache.h"
#include "cli/base/message.h"
#include "cli/commands/commands.h"

struct values {
    const char *output, *marker;
};

static const struct cli_option options[] = {
    CLI_CREATE_ROW,
    CLI_MARKER_ROW,
    {0},
};

const struct cli_spec cli_import_spec = {
    .help = "convert traces of other tools to a run",
    .usage = "IN... -o RUN",
    .about = "IN is a trace of PyTorch (Kineto .json, .json.gz), JAX (.xplane.pb), Nsight Systems "
             "(.sqlite), rocprofv3 (.json,\n"
             ".db) or Ascend (trace_view.json), a memory snapshot or flight recorder dump of "
             "PyTorch (pickle), or a folder of\n"
             "them; several traces become the ranks of one run.\n"
             "Commands that read runs also take such files directly: 'tacho report trace.json.gz'. "
             "See docs/import.md.",
    .options = options,
    .examples = "  tacho import trace.json.gz -o run.tacho\n"
                "  tacho import rank0.json rank1.json -o run.tacho\n"
                "  tacho import nsys.sqlite -o run.tacho\n"
                "  tacho import logs/plugins/profile/2026_01_02_03_04_05 -o run.tacho\n"
                "  tacho import serve.json.gz --step-marker '^generate' -o run.tacho",
    .least = 1,
    .most = -1,
    .words_missing = "the traces to import",
};

/* Checks that a new file was named. The importer would refuse an existing one too, in words that do
 * not fit if it is one of the inputs. */
static int check(const struct values *values)
{
    struct stat st;
    if (!values->output)
        return cli_usage("import", "name the file to create: tacho import IN -o RUN.tacho",
                         "option '-o' is missing");
    if (lstat(values->output, &st))
        return 0;
    return cli_error(TACHO_EEXISTS, "tacho never overwrites a file: give another name with -o RUN",
                     "%s: already exists", values->output);
}

/* "12 lost"; where a number is not known, it says so. */
static const char *lost_words(const struct store_import_result *result, char words[64])
{
    if (result->uncounted && !result->lost)
        return "an unknown number lost";
    snprintf(words, 64, "%s%" PRId64 " lost", result->uncounted ? "at least " : "", result->lost);
    return words;
}

int cli_import(int argc, char **argv)
{
    struct values values = {0};
    struct store_import_result import_result;
    int first, code = cli_parse(&cli_import_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    code = check(&values);
    for (int i = first; !code && i < argc; i++)
        code = cli_import_check(argv[i]);
    if (code)
        return code;
    code = cli_import_files((const char *const *)argv + first, (size_t)(argc - first),
                            values.output, values.marker, false, &import_result, NULL);
    if (code)
        return code;
    char *word = cli_shell_word(values.output);
    const char *plural = import_result.files == 1 ? "" : "s";
    char words[64];
    cli_say("%s: %" PRId64 " file%s, %" PRId64 " events, %s%s", values.output, import_result.files,
            plural, import_result.events, lost_words(&import_result, words),
            import_result.truncated ? ", truncated at the end" : "");
    cli_say("next: tacho report %s", word ? word : values.output);
    free(word);
    return 0;
}
