/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: from a RUN argument to a result, and a result into the file.
 */
#ifndef CLI_BASE_RUN_FILE_H
#define CLI_BASE_RUN_FILE_H

#include <jansson.h>
#include <limits.h>

#include "analyzers/analyzers.h"
#include "analyzers/diff/gate.h"
#include "profiler/collector/collector.h"
#include "reports/report.h"

/* Finds the run. A run of the caller whose recorder was killed is finished, which a message on
 * stderr says; another user's run is read as it is, with a warning. A trace of another tool, or a
 * folder of them, is imported (cli/base/import_cache.h): `path` is what to open, `run` stays the
 * user's file. Returns 0, or an exit code after a message. */
int cli_run_find(const char *arg, struct col_found *found);
/* Is it an import? Then nothing may be written into what is opened. */
bool cli_run_is_import(const struct col_found *found);
/* Says that WHAT ("--save") needs a file of the user's own, made by 'tacho import'. Returns the
 * exit code. */
int cli_run_refuse_import(const struct col_found *found, const char *what);
/* Loads and analyzes. 0 or an exit code, after a message. *out is freed with an_result_free. */
int cli_run_analyze(const struct col_found *found, const struct an_options *base,
                    struct an_result **out);
/* The number, from 1, of the finding that a user of `command` named by number or id; 0: `name` is
 * NULL. 0 or an exit code, after a message that lists the findings. */
int cli_run_finding(const char *command, const char *name, const struct an_result *result,
                    size_t *number);
/* The JSON report (tacho-report/1) as an object of the caller; NULL: no memory. */
json_t *cli_run_json(const struct an_result *result);
/* The same with the table of device time by "op", "module", "line" or "annotation". */
json_t *cli_run_json_by(const struct an_result *result, const char *by);
/* Writes the result's metrics and findings into a finished file of ours: every number of the JSON
 * report's sections steps, budget, utilization, dataloader and trust is a row of `metric`, named
 * SECTION.KEY; the verdict is a row of `run`. 0 or a TACHO_E* code. */
int cli_run_save(const char *path, const struct an_result *result, struct tacho_error *err);

/* Exit codes of a comparison with a limit. */
#define CLI_EXIT_THRESHOLD 1
#define CLI_EXIT_UNDECIDED 6
/* The one that a decision asks for; 0: the limit is kept, or there is none. */
int cli_gate_exit(const struct an_gate *gate);

/* Prints the object on stdout and frees it; NULL prints an empty line. */
void cli_json_print(json_t *json);

/* What a terminal wants: width, colour, characters. `when` as in cli_color. The text goes to the
 * file `output`; NULL or "-": to stdout. */
struct rep_options cli_report_options(int64_t width, const char *when, const char *output);
/* Analyzes the complete file `path`, which messages call `run`, and saves the result in it; a
 * failure to save is only said. `samples`: as in an_options. 0 or an exit code, after a message. */
int cli_run_conclude_file(const char *path, const char *run, bool samples,
                          struct an_result **result);

/* After a recording: analyzes, saves, enters it into the history (with the commit, which may be
 * NULL) if the user keeps one, and says on stderr where the file is, what is in it and what to type
 * next. The text report goes to stdout if `report`. Returns r->exit_code, or another code if that
 * is 0 and the report could not be written. */
int cli_run_conclude(const struct col_result *recording, bool report, const char *commit);

#endif
