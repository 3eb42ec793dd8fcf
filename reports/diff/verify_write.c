/* SPDX-License-Identifier: Apache-2.0
 *
 * The result of `tacho verify` as text and as JSON.
 */
#include "reports/diff/verify_write.h"

#include <math.h>

#include "reports/json/json_writer.h"
#include "reports/sections/tables.h"

#define NO_GAIN "the run has no finding to compare with"

static const struct an_gain no_gain = {
    .low = {NAN, NO_GAIN, false}, .expected = {NAN, NO_GAIN, false}, .high = {NAN, NO_GAIN, false}};

static const struct an_gain *predicted(const struct rep_verify *verify)
{
    return verify->finding ? &verify->finding->gain : &no_gain;
}

/* What the times are of, in words. */
static const char *unit_words(const struct rep_verify *verify)
{
    return verify->of_run ? "a step with its share of evaluation and checkpoints" : "a step";
}

void rep_verify_text(const struct rep_verify *verify, FILE *out)
{
    struct an_interval gain = an_pairs_gain(verify->before_ms, verify->after_ms, verify->pairs);
    char words[80];
    fprintf(out, "\npair   before ms    after ms     gain    (%s)\n", unit_words(verify));
    for (size_t i = 0; i < verify->pairs; i++)
        fprintf(out, "%4zu  %10.3f  %10.3f  %+6.1f %%\n", i + 1, verify->before_ms[i],
                verify->after_ms[i], 100 * (verify->before_ms[i] / verify->after_ms[i] - 1));
    fprintf(out, "\nPredicted  %s", rep_gain_text(words, sizeof words, predicted(verify)));
    if (verify->finding)
        fprintf(out, "  (finding %zu, %s)", verify->number, verify->finding->id);
    struct an_pairs_judgement judgement = an_pairs_judge(predicted(verify), &gain);
    fprintf(out, "\nMeasured   %+.1f %% [%.1f, %.1f]  (95 %%, %zu pairs)\n", gain.estimate,
            gain.low, gain.high, verify->pairs);
    fprintf(out, "Prediction %s: %s\n", an_pairs_outcome_name(judgement.outcome), judgement.reason);
    fprintf(out, "Kept       %s\n", verify->kept);
}

static void put_pairs(struct rep_writer *writer, const struct rep_verify *verify)
{
    rep_open_list(writer, "pairs");
    for (size_t i = 0; i < verify->pairs; i++) {
        rep_open(writer, NULL);
        rep_put_real(writer, "before_ms", verify->before_ms[i], "not measured");
        rep_put_real(writer, "after_ms", verify->after_ms[i], "not measured");
        rep_close(writer);
    }
    rep_close(writer);
}

int rep_verify_json(const struct rep_verify *verify, FILE *out)
{
    struct an_interval gain = an_pairs_gain(verify->before_ms, verify->after_ms, verify->pairs);
    struct rep_writer writer;
    int rc = rep_writer_begin(&writer, out);
    if (rc)
        return rc;
    rep_put_text(&writer, "schema", "tacho-verify/1");
    rep_put_text(&writer, "file", verify->file);
    rep_put_text_or(&writer, "finding", verify->finding ? verify->finding->id : NULL, NO_GAIN);
    rep_put_int(&writer, "number", (int64_t)verify->number);
    rep_put_text(&writer, "setting", verify->change);
    rep_put_text(&writer, "command_before", verify->before);
    rep_put_text(&writer, "command_after", verify->after);
    rep_put_text(&writer, "unit", verify->of_run ? "run" : "step");
    rep_put_gain(&writer, "predicted_pct", predicted(verify));
    rep_open(&writer, "measured_pct");
    rep_put_real(&writer, "low", gain.low, "too few pairs");
    rep_put_real(&writer, "expected", gain.estimate, "not measured");
    rep_put_real(&writer, "high", gain.high, "too few pairs");
    rep_close(&writer);
    struct an_pairs_judgement judgement = an_pairs_judge(predicted(verify), &gain);
    rep_put_text(&writer, "outcome", an_pairs_outcome_name(judgement.outcome));
    rep_put_text(&writer, "reason", judgement.reason);
    rep_put_text_or(&writer, "kept", verify->kept, "no pair was run");
    put_pairs(&writer, verify);
    return rep_writer_end(&writer);
}
