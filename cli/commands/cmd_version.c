/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho version: the version, and what the program was built with.
 */
#include <jansson.h>
#include <sqlite3.h>

#include "cli/commands/commands.h"
#include "profiler/collector/stacks/unwind_rows.h"
#include "store/store.h"

struct values {
    bool verbose;
};

static const struct cli_option options[] = {
    {"verbose", 'v', CLI_FLAG, offsetof(struct values, verbose), NULL,
     "also print the compiler, libraries and optional parts", 0, 0},
    {0},
};

const struct cli_spec cli_version_spec = {
    .help = "print the version; --verbose: also the build configuration",
    .usage = "[--verbose]",
    .options = options,
    .examples = "  tacho version --verbose",
};

#ifdef HAVE_PFM
#define FEATURE_PFM "yes"
#else
#define FEATURE_PFM "no: hardware counters are not supported"
#endif
#ifdef HAVE_MICROHTTPD
#define FEATURE_HTTP "yes, loaded when 'tacho watch --listen' starts"
#else
#define FEATURE_HTTP "no: 'tacho watch' serves nothing over HTTP"
#endif
#ifdef COL_UNWIND_HERE
#define FEATURE_DW "yes"
#elif defined(HAVE_DW)
#define FEATURE_DW "yes, for names; sampled call stacks use frame pointers only on this processor"
#else
#define FEATURE_DW "no: sampled call stacks use frame pointers only"
#endif
#ifdef HAVE_NCURSES
#define FEATURE_NCURSES "yes"
#else
#define FEATURE_NCURSES "no: 'tacho top' has no screen"
#endif
#if defined(__SANITIZE_ADDRESS__)
#define FEATURE_SAN "address"
#elif defined(__SANITIZE_THREAD__)
#define FEATURE_SAN "thread"
#else
#define FEATURE_SAN "none"
#endif

int cli_version(int argc, char **argv)
{
    struct values values = {0};
    int first, code = cli_parse(&cli_version_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    printf("tacho %s\n", TACHO_VERSION);
    if (values.verbose)
        printf("file schema:  %d\n"
               "compiler:     %s\n"
               "sanitizer:    " FEATURE_SAN "\n"
               "SQLite:       %s (built with %s)\n"
               "jansson:      %s\n"
               "libpfm4:      " FEATURE_PFM "\n"
               "libdw:        " FEATURE_DW "\n"
               "ncurses:      " FEATURE_NCURSES "\n"
               "microhttpd:   " FEATURE_HTTP "\n"
               "CUDA:         loaded when a target runs ('tacho doctor' shows what is available)\n",
               STORE_SCHEMA_VERSION,
#ifdef __clang__
               "clang " __clang_version__,
#else
               "gcc " __VERSION__,
#endif
               sqlite3_libversion(), SQLITE_VERSION, JANSSON_VERSION);
    return 0;
}
