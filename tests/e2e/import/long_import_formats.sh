#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 5400
# Every shared file of another producer, and a made one of each format that has none, unpacked and cut off at 1,000 random places each:
# it is read as far as it goes, or refused with a hint; no crash, no endless run, no file of a failed import. Those of Kineto and Nsight
# have scripts of their own (long_import_truncation.sh, long_import_nsight.sh); with these two every row of store/import/importers.c is cut.
set -u
cd "$(dirname "$0")/../../.." || exit 1
TACHO=${TACHO:-$PWD/build/tacho}
public=${TACHO_TRACES:-../shared/traces}/formats
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
[ -f "$public/jax_te_fused.xplane.pb" ] || { echo "needs the folder of shared traces ($public)"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/tacho-import-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
for maker in formats logs profiles versions; do python3 "tests/e2e/import/$maker.py" make "$work/$maker" || exit 1; done
python3 tests/e2e/import/workers.py write "$work/workers.json" "$work/truth" || exit 1
mkdir "$work/graphs" && tar xzf "$public/chakra_json_trace.tar.gz" -C "$work/graphs" || exit 1
python3 - "$TACHO" "$public" "$work" "${ROUNDS:-1000}" << 'END'
import gzip, os, random, subprocess, sys
tacho, public, work, rounds = sys.argv[1:4] + [int(sys.argv[4])]
random.seed(int(os.environ.get("SEED", "5")))
names = ["jax_te_fused.xplane.pb", "jax_te_fused.trace.json.gz", "rocprofv3_908_results.json.gz", "ascend_trace_view.json.gz",
         "ascend_kernel_details.csv.gz", "cs336_mem_fullstep.pickle.gz", "xprof_tpu.xplane.pb.gz"]
names += [os.path.join(work, name) for name in (
    "graphs/jsonData/chakra.0.json", "logs/graph.et", "logs/megatron.log", "logs/json_lines.log", "logs/events.out.tfevents.1.node",
    "logs/marker.log", "logs/inspector/node-1-pid71.log", "profiles/sdk.pftrace", "profiles/cpu.pb.gz", "workers.json",
    "formats/old_results.db", "formats/new_results.db", "formats/hang/nccl_trace_rank_2", "formats/oom4.pickle",
    "versions/hang/nccl_trace_rank_1", "versions/packed.pftrace", "versions/rocm.pftrace", "versions/trace.rpd", "versions/parca.pb",
    "versions/counters.json", "versions/task_time.csv", "versions/sparse.xplane.pb")]
for name in names:
    data = (gzip.open if name.endswith(".gz") else open)(os.path.join(public, name), "rb").read()
    read = refused = 0
    for at in (random.randrange(len(data)) for _ in range(rounds)):
        cut, out = os.path.join(work, "cut"), os.path.join(work, "out.tacho")
        with open(cut, "wb") as f:
            f.write(data[:at])
        ran = subprocess.run([tacho, "import", cut, "-o", out], capture_output=True, text=True, timeout=120)
        if ran.returncode not in (0, 3, 4) or (ran.returncode and "hint: " not in ran.stderr):
            sys.exit(f"{name} cut at {at}: exit status {ran.returncode}: {ran.stderr}")
        if (ran.returncode == 0) != os.path.exists(out):
            sys.exit(f"{name} cut at {at}: exit status {ran.returncode}, and the file is {'there' if os.path.exists(out) else 'missing'}")
        if ran.returncode == 0:
            os.remove(out)
        read += ran.returncode == 0
        refused += ran.returncode != 0
    print(f"{name}: {rounds} cuts, {read} read, {refused} refused", flush=True)
END
