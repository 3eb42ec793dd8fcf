#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Chains of operators unfused and fused: what the report of the unfused run predicts against the measured difference of the steps. Of pairs
# whose measured gain is at least five times the floor, |predicted - measured| is at most 25 % of it or twice the floor, and the sign is
# right; a pair that stays in the cache predicts nothing. Neighbours that take memory bandwidth only make runs slower: the fastest run of
# each counts, and the floor is how far the fastest ones of both halves of the rounds lie apart. Five pairs must be judged: on a machine
# that is never quiet it fails, and gates nothing.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
work_folder
export XDG_CACHE_HOME=$PWD/cache TACHO_HISTORY=off
[ -n "${CALIBRATED:-}" ] && XDG_CACHE_HOME=$CALIBRATED
[ -n "${CALIBRATED:-}" ] || "$TACHO" calibrate --quick > out 2>&1 || fail "no calibration: $(cat out)"
python3 - "$TACHO" "$BUILD/tests/targets/target_fusion" << 'END' || fail "a prediction is too far from what was measured"
import json, os, subprocess, sys
tacho, target = sys.argv[1:]
chains = ("residual_norm", "bias_relu", "scale_share", "clip_update", "gemm_relu", "multiply_add_relu")
ROWS, COLUMNS, STEPS, ROUNDS = 4096, 4096, 9, 8


def run(*args):
    ran = subprocess.run(args, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{args}: {ran.stderr}")
    return ran.stdout


def step_ms(chain, how, rows):
    return float(run(target, chain, how, str(rows), str(COLUMNS), str(STEPS)).split()[1])


def predicted(chain, rows):
    file = f"{chain}-{rows}.tacho"
    if os.path.exists(file):
        os.remove(file)
    run(tacho, "run", "-o", file, "--", target, chain, "unfused", str(rows), str(COLUMNS), str(STEPS))
    return json.loads(run(tacho, "report", file, "--json", "--fields", "dataflow"))["dataflow"]["fusion"]


def apart(times):
    """How far the fastest runs of the even and of the odd rounds lie apart."""
    return abs(min(times[::2]) - min(times[1::2]))


wrong = judged = 0
for chain in chains:
    before, after, reports = [], [], []
    for _ in range(ROUNDS):
        before.append(step_ms(chain, "unfused", ROWS))
        after.append(step_ms(chain, "fused", ROWS))
        reports.append(predicted(chain, ROWS))
    floor = max(apart(before), apart(after))
    measured = min(before) - min(after)
    fusion = min(reports, key=lambda report: report["step_ms"])
    gain = fusion["gain_ms"]
    counts = measured >= 5 * floor
    bad = counts and (abs(gain - measured) > max(0.25 * measured, 2 * floor) or gain <= 0)
    judged, wrong = judged + counts, wrong + bad
    print(f"{chain}: unfused {min(before):.2f} ms, fused {min(after):.2f}, recorded {fusion['step_ms']:.2f}; measured {measured:.2f}, "
          f"predicted {gain:.2f} [{fusion['gain_low_ms']:.2f}, {fusion['gain_high_ms']:.2f}], floor {floor:.2f}{' TOO FAR' if bad else ''}"
          f"{'' if counts else ' (not judged)'}")
    small = predicted(chain, 8)
    if small["gain_ms"] or not small["candidates"]:
        wrong += 1
        print(f"{chain}: in the cache, and still {small}")
print(f"{judged} pairs judged, {wrong} wrong")
sys.exit(wrong > 0 or judged < 5)
END
exit 0
