/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: what a plan is made from, out of the words of the command line.
 */
#ifndef CLI_BASE_PLAN_INPUT_H
#define CLI_BASE_PLAN_INPUT_H

#include "analyzers/result/result.h"
#include "planner/plan.h"

/* MODEL: "layers=...", else a file (config.json), else a name. 0 or an exit code, after a message.
 */
int cli_plan_model(const char *text, struct plan_model *out);
/* "dp=8,tp=8,pp=2,vpp=2,cp=1,ep=1,mbs=1,zero=1,recompute=full,schedule=1f1b,sp=1,gpus=64,batch=512,
 * seq=4096": sets the members that are named. 0 or an exit code, after a message that names
 * `option`. */
int cli_plan_layout(const char *option, const char *text, struct plan_layout *out);
/* The processor of a run of the reference engine, by its measured peak, shared by `ranks`. 0 or an
 * exit code, after a message. */
int cli_plan_cpu(const struct an_result *result, const char *type, int64_t ranks,
                 struct plan_machine *out);
/* A measured run: its step, its devices, its batch where the trace knows them; the rest of the
 * layout and the model are the plan's. 0 or an exit code, after a message. */
int cli_plan_run(const struct an_result *result, struct plan_request *request);

#endif
