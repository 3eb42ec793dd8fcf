#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Checkpoints beside training: a run that continues one is the same, bit by bit, as one that continues a checkpoint that was written at once,
# with other layouts and numbers of ranks; the steps go on while a slow disk takes its time, and the record says which part they waited for;
# ranks that are killed while they write leave the checkpoint before; damage is refused; memory is what was predicted.
# shellcheck disable=SC2154 # variables of ranks_common.sh
# shellcheck disable=SC2086 # options that are lists of words
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
has_mpirun || { echo "needs Open MPI's mpirun"; exit 77; }
export OMP_NUM_THREADS=1
gpt2=("$TRAIN" gpt2-tiny --layers 4 --channels 32 --heads 4 --data "$SRC/LICENSE" --seq 16 --batch 1 --seed 3 --log-every 1)
moe=("$TRAIN" moe-tiny --layers 2 --channels 32 --heads 4 --groups 2 --hidden 48 --data "$SRC/LICENSE" --seq 16 --batch 1 --seed 3 --log-every 1)
train=("${gpt2[@]}")
ranks() { local n=$1; shift; timeout 100 mpirun -np "$n" --oversubscribe "${train[@]}" "$@" > out 2> err || wrong "$n ranks, $*: $(cat err)"; }
shards() { find . -maxdepth 1 -name "$1.s*.r*" | wc -l; }

ranks 1 --steps 2 || true
grep -q 'without MPI' err && { echo "train was built without MPI"; exit 77; }
for case in "2" "2 --layout pp2 --accumulate 2" "2 --layout tp2 --sequence-parallel" "2 --zero 3" "2 --layout ep2" "4 --layout ep2.tp2 --sequence-parallel"; do
    read -r count options <<< "$case"
    train=("${gpt2[@]}")
    case $options in *ep2*) train=("${moe[@]}") ;; esac
    ranks "$count" $options --steps 8 --checkpoint whole
    rm -f many*
    ranks "$count" $options --steps 8 --checkpoint many --checkpoint-every 3 --checkpoint-async
    [ "$(shards many)" = "$count" ] && [ "$(find . -name 'many.s8.r*' | wc -l)" = "$count" ] || wrong "$case: shards: $(ls)"
    [ "$(grep -c "^checkpoint after step [257]  many  .* of the steps' thread, .* until it was there$" out)" = 3 ] || wrong "$case: $(grep ^checkpoint out)"
    for from in whole many; do
        "${train[@]}" --accumulate 2 --steps 11 --resume $from --checkpoint "$from.rest" > out 2> err || wrong "$case: one rank does not go on from $from: $(cat err)"
    done
    cmp whole.rest many.rest || wrong "$case: one rank goes on in another way"
done
train=("${gpt2[@]}")
ranks 4 --layout dp2.tp2 --accumulate 2 --steps 8 --checkpoint many --checkpoint-async
ranks 2 --layout pp2 --accumulate 2 --steps 11 --resume many --checkpoint other --checkpoint-async
ranks 2 --zero 3 --steps 12 --resume other
cp many.s8.r1 kept
refused() { # WORDS
    "${train[@]}" --accumulate 2 --steps 11 --resume many > out 2> err
    [ $? = 3 ] && grep -q "$1" err && grep -q '^hint: ' err || wrong "$1: $(cat err)"
}
printf 'x' | dd of=many.s8.r1 bs=1 seek=1000 conv=notrunc 2> /dev/null
refused 'many.s8.r1: damaged (checksum)'
head -c 900 kept > many.s8.r1
refused 'many.s8.r1: damaged'
cp many.s8.r0 many.s8.r1
refused 'many.s8.r1: not the shard that belongs here'
rm many.s8.r1
refused 'many.s8.r1: No such file'
cp kept many.s8.r1
printf 'x' | dd of=many bs=1 seek=250 conv=notrunc 2> /dev/null
refused 'many: damaged (list of shards)'

# a slow disk: fsync of a shard takes a second
command -v cc > /dev/null && [ -z "$SAN" ] || exit $bad
cat > slow.c << 'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fsync(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    if (strstr(path, getenv("SLOW")))
        usleep(1000000 * (unsigned)atoi(getenv("SECONDS_OF_FSYNC")));
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
C
cc -shared -fPIC -o slow.so slow.c -ldl || { echo "needs a working cc"; exit 77; }
slow=(-x LD_PRELOAD="$work/slow.so" -x SLOW=disk.s -x SECONDS_OF_FSYNC=1)
timeout 100 mpirun -np 2 --oversubscribe "${slow[@]}" "${train[@]}" --steps 45 --simulate-compute forward=0.05,backward=0.02 --checkpoint disk \
    --checkpoint-every 15 --checkpoint-async > out 2> err || wrong "slow disk: $(cat err)"
awk '/^checkpoint after step 14 / { seen = $6 < 300 && $12 > 900; print "of a slow disk the steps saw", $6, "of", $12, "ms" } END { exit !seen }' out || wrong "the steps waited: $(grep ^checkpoint out)"
LD_PRELOAD="$work/slow.so" SLOW=disk.s SECONDS_OF_FSYNC=1 "$TACHO" run -o slow.tacho -- "${train[@]}" --steps 45 --simulate-compute forward=0.05,backward=0.02 \
    --checkpoint disk --checkpoint-every 15 --checkpoint-async > out 2> err || wrong "record: $(cat err)"
"$TACHO" report slow.tacho --json > report.json || wrong "report"
python3 - << 'P' || wrong "the record's phases"
import json
phase = next(row for row in json.load(open("report.json", encoding="utf-8"))["phases"] if row["name"] == "checkpoint")
print("recorded: checkpoints of", phase["wall_ms"], "ms, exposed", phase["exposed_ms"])
raise SystemExit(not (phase["wall_ms"] > 2500 and phase["exposed_ms"] < 0.5 * phase["wall_ms"]))
P

# killed while rank 1 writes the second one
rm -f disk*
timeout 60 mpirun -np 2 --oversubscribe -x LD_PRELOAD="$work/slow.so" -x SLOW=disk.s10.r1 -x SECONDS_OF_FSYNC=30 "${train[@]}" --steps 2000 \
    --simulate-compute forward=0.02,backward=0.02 --checkpoint disk --checkpoint-every 5 --checkpoint-async > out 2> err &
for ((i = 0; i < 300; i++)); do
    [ -e disk.s10.r1.tmp ] && [ -e disk.s10.r0 ] && break
    sleep 0.1
done
[ -e disk.s10.r1.tmp ] || wrong "the second checkpoint never began: $(ls; cat out err)"
pid=$(sed -n 's/.*process \([0-9]*\).*/\1/p' out | head -1)
for pid in $(pgrep -P $!) $!; do pkill -9 -P "$pid" 2> /dev/null; done
wait
[ -e disk.s10.r1 ] && wrong "it was not killed while it wrote"
"${train[@]}" --accumulate 2 --steps 12 --resume disk --checkpoint disk --checkpoint-async > out 2> err || wrong "no checkpoint is left: $(cat err)"
grep -q '^resumed: 5 steps made before' out || wrong "not the last whole checkpoint: $(cat out)"
[ "$(shards disk)" = 1 ] || wrong "shards are left: $(ls)"

large=("$TRAIN" gpt2-tiny --layers 4 --channels 128 --heads 4 --data "$SRC/LICENSE" --seq 64 --batch 4 --steps 2 --workers 0 --checkpoint large --checkpoint-async)
for options in "" "--zero 1"; do
    timeout 60 mpirun -np 2 --oversubscribe "${large[@]}" $options > out 2> err || wrong "large: $(cat err)"
    awk '/ MiB at its peak/ { p = $7; gsub(/[(+]/, "", p); seen = 1 } END { exit !seen || p > 2 || p < -2 }' out || wrong "memory: $(grep memory out)"
done
usage() { # WORDS ARGUMENTS
    "${train[@]}" "${@:2}" > out 2> err
    [ $? = 2 ] && grep -q "$1" err && grep -q '^hint: ' err || wrong "${*:2}: $(cat err)"
}
usage 'no --checkpoint' --checkpoint-async
usage 'not with --local-steps' --checkpoint-async --checkpoint x --local-steps 5
usage 'muon has a state of whole tensors' --checkpoint-async --checkpoint x --optimizer muon
exit $bad
