#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Real limits of control groups: a run whose CPU quota is spent is called CPU_QUOTA, with throttled time that agrees with the kernel's
# account; the same run without one is not, and its file says that none limits it. The limit of memory is the group's.
# shellcheck disable=SC2154  # work: cli_common.sh
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
command -v python3 > /dev/null || { echo "python3 is not here"; exit 77; }
root=/sys/fs/cgroup
name=tacho-test-$$
# the hierarchies in which a group for the test can be made; version 2 needs the controller for its children
cpu=$root/cpu memory=$root/memory
if [ -e $root/cgroup.controllers ]; then
    cpu=$root memory=$root
    grep -qw cpu $root/cgroup.subtree_control || { echo "skip: the root of the control groups gives its children no CPU controller"; exit 77; }
fi
work_folder report_limits
# shellcheck disable=SC2317  # by the trap
clean() {
    cd / && rm -rf "$work"
    rmdir "$cpu/$name" "$memory/$name" 2> /dev/null
}
trap clean EXIT
mkdir "$cpu/$name" 2> /dev/null || { echo "skip: no right to make a control group in $cpu"; exit 77; }
mkdir -p "$memory/$name"

# limited CORES COMMAND: in the group with so many cores, "max" for all
limited() {
    local cores=$1
    shift
    if [ -e "$cpu/$name/cpu.max" ]; then
        [ "$cores" = max ] || cores=$(awk -v c="$cores" 'BEGIN { print c * 100000 }')
        echo "$cores 100000" > "$cpu/$name/cpu.max" || return 1
    else
        [ "$cores" = max ] && cores=-0.00001
        awk -v c="$cores" 'BEGIN { print c * 100000 }' > "$cpu/$name/cpu.cfs_quota_us" || return 1
    fi
    # shellcheck disable=SC2016
    sh -c 'echo $$ > "$1/cgroup.procs" && echo $$ > "$2/cgroup.procs" && shift 2 && exec "$@"' sh "$cpu/$name" "$memory/$name" "$@"
}
train=("$TRAIN" gpt2-tiny --layers 2 --channels 64 --heads 2 --batch 4 --seq 64 --steps 40 --log-every 0 --eval-every 0)
run() {
    limited "$1" "$TACHO" run -o "$2" --no-peak --overhead 0 --sample-ms 50 -- "${train[@]}" > log 2>&1 || { cat log; fail "the run with $1 cores"; }
}
echo 3000000000 > "$memory/$name/memory.max" 2> /dev/null || echo 3000000000 > "$memory/$name/memory.limit_in_bytes" || fail "no limit of memory"
limited max true || { echo "skip: no right to put a process into the group"; exit 77; }
run 0.05 quota.tacho
throttled=$(sed -n 's/^throttled_usec //p; s/^throttled_time \(.*\)...$/\1/p' "$cpu/$name/cpu.stat")
[ "${throttled:-0}" -gt 0 ] || { echo "skip: the kernel throttled nothing: the machine is too busy"; exit 77; }
run max free.tacho
for file in quota free; do
    "$TACHO" report --json $file.tacho > $file.json || fail "no report of $file"
done
THROTTLED=$throttled python3 - << 'PY' || fail "reports: $(cat log)"
import json, os
quota, free = (json.load(open(name + ".json")) for name in ("quota", "free"))
system, counted = quota["system"], float(os.environ["THROTTLED"])
assert abs(system["cpu_quota"] - 0.05) < 1e-6, system
assert system["throttled_cores"] > 0.02, system
seconds = quota["steps"]["counted"] * quota["steps"]["mean_ms"] / 1e3
assert system["throttled_cores"] * seconds <= 1.02 * counted / 1e6, (system, seconds, counted)
said = [finding for finding in quota["findings"] if finding["id"] == "CPU_QUOTA"]
assert len(said) == 1, [finding["id"] for finding in quota["findings"]]
gain = said[0]["gain_pct"]
assert gain["ceiling"] or gain["low"] > 0, gain
assert said[0]["what_if"].startswith("cores="), said[0]
assert not quota["healthy"]
assert abs(quota["pressure"]["limit_bytes"] - 3e9) < 1e5, quota["pressure"]
system = free["system"]
assert system["cpu_quota"] is None and system["cpu_unlimited"] and system["throttled_pct"] == 0, system
assert not [finding for finding in free["findings"] if finding["id"] in ("CPU_QUOTA", "MEMORY_PRESSURE")]
for report in (quota, free):
    assert not [check for check in report["not_checked"] if check["check"] == "the CPU quota"], report["not_checked"]
PY
"$TACHO" report quota.tacho --full | grep -q 'CPU quota 0.05 cores' || fail "the report does not say the quota"
echo "ok"
