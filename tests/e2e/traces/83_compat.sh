#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# --tracelens-compat, --hta-compat and --tb-compat against what those tools printed for real traces (expected.json of the trace
# folder). Every value there is compared; a value that is missing, or a file that was changed, is a failure.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
traces=${TACHO_TRACES:-$SRC/../shared/traces}
[ -d "$traces" ] || { echo "needs the folder of real traces: $traces (TACHO_TRACES)"; exit 77; }
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
traces=$(cd "$traces" && pwd)
work_folder

# the file these numbers were read from; a new one needs a new look at every value below
sha=ffd00df758ecf0503d68ea3decc36a52966fcc3b4cbf73b820c0364a0f9d47e9
got=$(sha256sum "$traces/expected.json" 2> /dev/null) || fail "$traces/expected.json is missing: nothing to compare with"
[ "${got%% *}" = "$sha" ] || fail "$traces/expected.json was changed: sha256 ${got%% *} instead of $sha"

cat > check.py << 'END'
import json, math, os, subprocess, sys

tacho, traces, expected = sys.argv[1:4]
with open(expected) as f:
    files = json.load(f)["files"]
failures = []
compared = {"tracelens": 0, "hta": 0, "tb": 0}

# What must be there: a reference without one of these is no reference.
TRACELENS = ["hta_trace_diff_test", "hta_negative_queue_length", "hta_ns_resolution", "tracelens_mi300_resnet_act_checkpoint",
             "tracelens_b200_eager"]
HTA = ["hta_trace_diff_test", "hta_negative_queue_length", "hta_ns_resolution", "hta_trace_filter_2ranks",
       "hta_critical_path_alexnet", "hta_critical_path_simple_add", "hta_amd_mi250_minitoy",
       "kineto_tb_resnet50_num_workers_0_steps16-21", "kineto_tb_resnet50_num_workers_4_steps16-21",
       "tracelens_mi300_resnet_act_checkpoint", "tracelens_h100_timesformer", "tracelens_b200_eager"]
TB = ["kineto_tb_resnet50_num_workers_0_steps16-21", "kineto_tb_resnet50_num_workers_4_steps16-21", "hta_trace_diff_test",
      "hta_ns_resolution", "tracelens_mi300_resnet_act_checkpoint"]
TIMELINE = ["computation_time", "exposed_comm_time", "exposed_memcpy_time", "busy_time", "idle_time", "total_time",
            "total_comm_time", "total_memcpy_time", "micro_idle_time(<10us)", "macro_idle_time"]
TEMPORAL = ["idle_time(us)", "compute_time(us)", "non_compute_time(us)", "kernel_time(us)", "idle_time_pctg",
            "compute_time_pctg", "non_compute_time_pctg"]
ROLES = ["Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CpuOp", "Other", "Total"]

def rows(option, name):
    names = sorted(files[name]["files"])
    run = os.path.join(traces, names[0])
    if len(names) > 1:  # ranks of one job: a folder of them
        run = name
        os.makedirs(run, exist_ok=True)
        for n in names:
            if not os.path.exists(os.path.join(run, n)):
                os.symlink(os.path.join(traces, n), os.path.join(run, n))
    p = subprocess.run([tacho, "report", "--json", option, run], capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"FAIL: {name} {option}: exit code {p.returncode}: {p.stderr[:400]}")
    out = {}
    for r in json.loads(p.stdout)["compat"]["rows"]:
        out.setdefault((r["rank"], r["section"], r["key"]), r["value"])
        out[(r["rank"], r["section"], r["key"])] = r["value"]  # steps with one name: the last, as in the reference
    return out

def same(tool, what, got, want, within):
    compared[tool] += 1
    ok = got is want or (got is not None and want is not None and abs(got - want) <= within)
    if not ok:
        failures.append(f"{tool} {what}: {got} instead of {want}")

for name in TRACELENS:
    got = rows("--tracelens-compat", name)
    for key in TIMELINE:
        same("tracelens", f"{name} {key}", got.get((0, "gpu_timeline", key), got.get((1, "gpu_timeline", key), math.nan)),
             files[name]["tracelens_gpu_timeline"][key], 1)
for name in HTA:
    for option, mode in (("--hta-compat", "hta_default"), ("--hta-compat=last", "hta_include_last")):
        got = rows(option, name)
        want = files[name][mode]
        if len(want["temporal_breakdown"]) != len(files[name]["files"]):
            sys.exit(f"FAIL: {name} {mode}: the reference has {len(want['temporal_breakdown'])} ranks")
        for r in want["temporal_breakdown"]:
            for key in TEMPORAL:
                same("hta", f"{name} {mode} {key}", got.get((r["rank"], "temporal_breakdown", key), math.nan), r[key], 0)
        for r in want["comm_comp_overlap"]:
            same("hta", f"{name} {mode} overlap", got.get((r["rank"], "comm_comp_overlap", "comp_comm_overlap_pctg"), math.nan),
                 r["comp_comm_overlap_pctg"], 0)
for name in TB:
    got = rows("--tb-compat", name)
    rank = sorted({k[0] for k in got})[0]
    want = files[name]["kineto_tensorboard_plugin"]
    if len(want["steps"]) < 3:
        sys.exit(f"FAIL: {name}: the reference has {len(want['steps'])} steps")
    for section, values in list(want["steps"].items()) + [("average", want["avg"])]:
        section = section if section == "average" else "step " + section
        for key in ROLES:
            same("tb", f"{name} {section} {key}", got.get((rank, section, key), math.nan), values[key], 1)
    for value in want["gpu_utilization"].values():
        same("tb", f"{name} utilization", got.get((rank, "gpu_utilization", "GPU utilization"), math.nan), value, 1e-6)

for f in failures[:20]:
    print("FAIL:", f)
print(f"{sum(compared.values())} values: {compared}, {len(failures)} differ")
sys.exit(1 if failures else 0)
END

python3 check.py "$TACHO" "$traces" "$traces/expected.json" > good || { cat good; fail "the figures differ"; }
cat good
grep -q "^542 values" good || fail "not every value was compared"

# The check itself can fail: a reference with one digit changed, and one with a value left out
sed 's/"computation_time": 550307/"computation_time": 550317/' "$traces/expected.json" > changed.json
cmp -s changed.json "$traces/expected.json" && fail "the reference has no TraceLens value 550307"
python3 check.py "$TACHO" "$traces" changed.json > bad && fail "a changed reference passes"
grep -q "tracelens hta_trace_diff_test computation_time: 550307.0 instead of 550317" bad || { cat bad; fail "the changed value is not named"; }
sed '/"total_memcpy_time"/d' "$traces/expected.json" > short.json
python3 check.py "$TACHO" "$traces" short.json > bad 2>&1 && fail "a reference without a value passes"
grep -q total_memcpy_time bad || { cat bad; fail "the missing value is not named"; }

# Text for people has the same figures; two tools at once are refused
"$TACHO" report --tb-compat --width 120 "$traces/kineto_tb_resnet50_num_workers_0_steps16-21_rank0.json.gz" > text || fail "no text"
grep -q "DataLoader" text || fail "the text report has no classes of the plugin"
"$TACHO" report --tb-compat --hta-compat "$traces/hta_amd_mi250_minitoy_rank0.json.gz" > out 2> err
[ $? = 2 ] || fail "two tools at once are not refused"
exit 0
