#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# wide: yes
# Files of every producer, cut off at 1,000 places (made ones) or at places by chance (shared ones): a folder of them is read as far as
# each goes, or refused with a hint. No crash, no endless run. long_import_formats.sh tries more places of the shared ones.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
here=$(cd "$(dirname "$0")" && pwd)
public=${TACHO_TRACES:-$SRC/../shared/traces}/formats
[ -d "$public" ] && public=$(cd "$public" && pwd)
work_folder
export XDG_CACHE_HOME=$PWD/cache
for maker in formats logs profiles versions; do python3 "$here/$maker.py" make $maker || fail "the files were not made"; done
python3 "$here/workers.py" write workers.json truth || fail "the timeline was not made"
cat > cuts.py << 'END'
import glob, gzip, os, random, shutil, subprocess, sys
tacho, public, rounds = sys.argv[1:4]
random.seed(7)
made = ["formats/tpu.xplane.pb", "formats/old_results.db", "formats/trace_view.json", "formats/leak.pickle", "logs/megatron.log",
        "logs/json_lines.log", "logs/events.out.tfevents.1.node", "logs/marker.log", "logs/inspector/node-1-pid71.log", "logs/graph.et",
        "profiles/sdk.pftrace", "profiles/cpu.pb.gz", "formats/hang/nccl_trace_rank_2", "workers.json", "versions/hang/nccl_trace_rank_1",
        "versions/packed.pftrace", "versions/trace.rpd", "versions/counters.json", "versions/task_time.csv"]
shared = [] if not os.path.isdir(public) else [os.path.join(public, name) for name in (
    "jax_te_fused.xplane.pb", "jax_te_fused.trace.json.gz", "rocprofv3_908_results.json.gz", "ascend_trace_view.json.gz",
    "ascend_kernel_details.csv.gz", "cs336_mem_fullstep.pickle.gz")]
for path in made + shared:
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
        data = f.read(2 << 20)
    count = int(rounds) if path in made else 12
    at = range(len(data)) if len(data) <= count else (
        [len(data) * i // count for i in range(count)] if path in made else [int(len(data) * random.random() ** 3) for _ in range(count)])
    os.mkdir("cuts")
    for i in at:
        with open(f"cuts/{i}.json", "wb") as f:
            f.write(data[:i])
    ran = subprocess.run([tacho, "import", "cuts", "-o", "cut.tacho"], capture_output=True, text=True, timeout=120)
    if ran.returncode not in (0, 3, 4) or (ran.returncode and "hint: " not in ran.stderr) or "crash" in ran.stderr:
        sys.exit(f"{path}: exit status {ran.returncode}: {ran.stderr[-600:]}")
    if (ran.returncode == 0) != os.path.exists("cut.tacho"):
        sys.exit(f"{path}: exit status {ran.returncode}, and the file is wrong")
    if ran.returncode == 0:
        os.remove("cut.tacho")
    print(path, len(list(at)), "cuts:", ran.stderr.split("\n")[0][-90:])
    shutil.rmtree("cuts")
END
python3 cuts.py "$TACHO" "$public" "${ROUNDS:-300}" || fail "cuts"
exit 0
