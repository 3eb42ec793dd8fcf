#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# tacho report on real traces: every page fits and is clean, the JSON adds up and explains its nulls, and the verdict is right
# where it is known: a ResNet-50 with 0 loader workers waits for its input, with 4 it does not.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
traces=${TACHO_TRACES:-$SRC/../shared/traces}
[ -d "$traces" ] || { echo "no folder with traces: set TACHO_TRACES"; exit 77; }
command -v python3 > /dev/null || { echo "no python3"; exit 77; }
traces=$(cd "$traces" && pwd)
work_folder
export XDG_CACHE_HOME=$work/cache XDG_CONFIG_HOME=$work/config

cat > check.py << 'EOF'
import decimal, glob, json, sys, unicodedata


def whole(path):
    """The JSON explains its nulls, adds up, and has what a finding needs."""
    root = json.load(open(path), parse_float=decimal.Decimal)
    nulls = 0

    def walk(v, path):
        nonlocal nulls
        if v is None:
            nulls += 1
            assert root["absent"].get(path), path + " is null without a reason"
        elif isinstance(v, dict):
            for k, x in v.items():
                if path or k != "absent":
                    walk(x, path + "/" + k.replace("~", "~0").replace("/", "~1"))
        elif isinstance(v, list):
            for i, x in enumerate(v):
                walk(x, "%s/%d" % (path, i))

    walk(root, "")
    assert nulls == len(root["absent"]), "a reason without its null"
    assert root["devices"], "no devices"
    for d in root["devices"]:
        parts = sum(d[k] for k in ("compute_us", "exposed_comm_us", "exposed_copy_us", "opaque_us", "idle_us"))
        assert parts == d["span_us"], "%s is not the span %s" % (parts, d["span_us"])
        assert d["busy_us"] + d["idle_us"] == d["span_us"]
        assert d["compute_sum_us"] >= d["compute_us"] and d["comm_us"] >= d["exposed_comm_us"]
    shares = [x for x in root["budget"].values() if x is not None]
    assert not shares or abs(sum(shares) - 100) < decimal.Decimal("1e-6"), shares
    kernels = sum(k["total_us"] for k in root["kernels"])
    assert kernels >= sum(d["busy_us"] - d["opaque_us"] for d in root["devices"]) or root["kernels_omitted"]
    assert len(root["findings"]) <= 5
    for f in root["findings"]:
        assert all(f[k] for k in ("id", "claim", "evidence", "action", "method", "effort", "confidence", "verify", "wrong_when")), f
        assert not f["gain_pct"]["ceiling"] or (f["gain_pct"]["expected"] is None and f["gain_pct"]["high"] > 0)
    return root


def page(path, width, ascii_only=False):
    for line in open(path, "rb").read().decode("utf-8").split("\n"):
        columns = sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in line)
        assert columns <= width, "%d columns: %s" % (columns, line)
        assert line.isprintable() or not line, repr(line)
        assert not ascii_only or line.isascii(), line
        assert not line.endswith(" "), repr(line)


for trace in sys.argv[1:]:
    print("looked at: " + trace, flush=True)
    assert whole(trace + ".json")["attribution"]["by"] == "op"
    for width in 80, 100:
        page("%s.%d" % (trace, width), width)
    page(trace + ".ascii", 80, ascii_only=True)
    for name in glob.glob(trace + ".by_*"):
        got = whole(name)["attribution"]["by"]
        assert name.endswith(".by_" + got), "%s is another table: %s" % (name, got)
EOF

names=()
for trace in "$traces"/*.json.gz "$traces"/*.sqlite.gz; do
    [ -f "$trace" ] || continue
    name=$(basename "$trace")
    names+=("$name")
    "$TACHO" report "$trace" --json > "$name.json" 2> err || { cat err; fail "no report of $trace"; }
    case $name in *.sqlite.gz) # 82_attribution.sh looks at the tables of the others
        for by in op module line annotation; do "$TACHO" report "$trace" --by $by --json > "$name.by_$by" || fail "$trace --by $by"; done ;;
    esac
    for width in 80 100; do
        LC_ALL=C.UTF-8 "$TACHO" report "$trace" --width $width --top 40 --definitions > "$name.$width" || fail "$trace"
    done
    NO_COLOR=1 LC_ALL=C "$TACHO" report "$trace" --width 80 > "$name.ascii" || fail "$trace: ASCII"
done
[ ${#names[@]} -gt 0 ] || { echo "no trace in $traces"; exit 77; }
python3 check.py "${names[@]}" > out 2>&1 || fail "$(tail -n 20 out)"

# verdict NAME CLASS: the name that a trace gets
verdict() {
    cp "$1.json" report.json || fail "$1"
    got=$(sed -n 's/^ "verdict_class": "\(.*\)",$/\1/p' report.json)
    [ "$got" = "$2" ] || fail "$1 is called $got, not $2"
}
first_finding() {
    sed -n 's/^   "id": "\(.*\)",$/\1/p' report.json | head -n 1
}
verdict kineto_tb_resnet50_num_workers_0_steps16-21_rank0.json.gz INPUT-BOUND
[ "$(first_finding)" = INPUT_STALL ] || fail "the first finding is not INPUT_STALL"
grep -q num_workers report.json || fail "nothing is said of workers"
before=$(field report.json budget input_pct)
verdict kineto_tb_resnet50_num_workers_4_steps16-21_rank0.json.gz DEVICE-BUSY
grep -q '"INPUT_STALL"' report.json && fail "with 4 workers nothing waits"
# it computes for most of a step, but launches decide when: faster compute alone brings nothing, so it is not the first thing to do
grep '"id": ' report.json | head -n 1 | grep -q LAUNCH_BOUND || { grep '"id": ' report.json; fail "what brings nothing alone comes first"; }
after=$(field report.json budget input_pct)
awk -v b="$before" -v a="$after" 'BEGIN { exit !(b > 15 && a < 2) }' || fail "input: $before % and $after %"
verdict tracelens_mi300_resnet_act_checkpoint_rank0.json.gz COMMUNICATION-BOUND

# a user's own class decides; what is wrong in it is told with file and line
trace=$traces/tracelens_h100_timesformer_rank0.json.gz
comm() {
    "$TACHO" report "$trace" --json "$@" | sed -n 's/^   "comm_us": \(.*\),$/\1/p'
}
[ "$(comm)" = 0.000 ] || fail "communication on one device"
printf 'comm\tsoftmax\n' > classes.tsv
[ "$(comm --classes classes.tsv)" != 0.000 ] || fail "--classes is not read"
mkdir -p config/tacho
cp classes.tsv config/tacho/
[ "$(comm)" != 0.000 ] || fail "the user's classes.tsv is not read"
rm config/tacho/classes.tsv
printf '# mine\ncomm\tsoftmax(\n' > classes.tsv
"$TACHO" report "$trace" --classes classes.tsv > out 2> err
[ $? = 3 ] || fail "a wrong table is accepted"
grep -q 'classes.tsv: line 2: ' err || { cat err; fail "the line is not named"; }
[ -s out ] && fail "a report beside an error"

# only some steps; another tool's figures; mistakes
trace=$traces/hta_trace_diff_test_rank1.json.gz
"$TACHO" report "$trace" --steps 1010:1011 --json > report.json || fail "--steps"
[ "$(field report.json steps counted)" = 2 ] || fail "--steps 1010:1011 counts other steps"
"$TACHO" report "$trace" --hta-compat=last | grep -q 'kernel_time(us)' || fail "--hta-compat=last"
for wrong in "--by nothing" "--hta-compat=first" "--hta-compat --tb-compat"; do
    # shellcheck disable=SC2086
    "$TACHO" report "$trace" $wrong > out 2> err
    [ $? = 2 ] || fail "$wrong is accepted"
done
"$TACHO" report "$trace" --classes nowhere.tsv > out 2> err
[ $? = 3 ] || fail "a table that is not there is accepted"
echo "${#names[@]} traces"
