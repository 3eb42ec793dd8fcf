#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# The order of communication, recorded and enforced: ranks of a parameter server do what they do by what has come, so another rank that is slow gives another
# order and other weights; with the order of the first run the second one has its bits. The same of checkpoints beside training, whose end ranks ask for. A
# run that departs ends at once with rank, call and number.
# shellcheck disable=SC2154 # variables of ranks_common.sh
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
has_mpirun || { echo "needs Open MPI's mpirun"; exit 77; }
export OMP_NUM_THREADS=1
train=("$TRAIN" gpt2-tiny --layers 1 --channels 16 --heads 2 --data "$SRC/LICENSE" --seq 16 --batch 1 --seed 3 --warmup 0 --lr 0.01)
run() { # RANKS ARGUMENTS
    timeout 60 mpirun -np "$1" --oversubscribe "${train[@]}" "${@:2}" > out 2> err && return
    grep -q 'without MPI' err && { echo "train was built without MPI"; exit 77; }
    return 1
}
recorded() { run "$@" || wrong "$*: $(cat err)"; }

server=(--local-steps 1 --local-kind server --max-delay 2 --steps 24 --log-every 24)
recorded 3 "${server[@]}" --slow-rank 1=0.01 --record-order first --checkpoint one
for file in first first.1 first.2; do
    tail -n 1 "$file" | grep -qx end || wrong "$file has no end: $(tail -n 1 "$file")"
done
recorded 3 "${server[@]}" --slow-rank 2=0.01 --record-order second --checkpoint free
cmp -s first second && wrong "another slow rank, the same order"
cmp -s one free && wrong "another order, the same weights"
recorded 3 "${server[@]}" --slow-rank 2=0.01 --replay-order first --checkpoint enforced
cmp one enforced || wrong "the order of the first run gives other bits"

beside=(--checkpoint-async --checkpoint-every 2 --zero 1 --steps 8)
recorded 2 "${beside[@]}" --record-order beside --checkpoint one
recorded 2 "${beside[@]}" --slow-rank 1=0.03 --replay-order beside --checkpoint enforced
cmp one enforced || wrong "checkpoints beside training: other bits"

# one line for a step that is as one before; buckets on a thread of their own
recorded 2 --steps 6 --bucket-mib 0.01 --record-order buckets
[ "$(grep -c '^step [0-9]* as [0-9]*$' buckets)" -ge 4 ] || wrong "steps that repeat: $(cat buckets)"
sums=$(awk '/^step/ { n++ } n == 1 && /^sum/' buckets | wc -l)
[ "$sums" -gt 1 ] || wrong "$sums buckets in a step"
recorded 2 --steps 6 --bucket-mib 0.01 --no-overlap --replay-order buckets
run 2 --steps 6 --bucket-mib 0.02 --replay-order buckets && wrong "larger buckets do not depart"
grep -Eq '^train: rank [01] departs from buckets(\.1)?: call 1 of step 0, number [0-9]+ of the rank, is sum of [0-9]+ bytes; recorded: sum of [0-9]+ bytes \(call 1 of step 0\)$' err &&
    grep -q '^hint: ' err || wrong "larger buckets: $(cat err)"
# a file in which rank 1 did something else in step 1: it alone is named, with the place
awk '/^step 1/ { print "step 1"; while (i < n) { line = op[++i]; if (i == 2) sub(/^sum/, "gather", line); print line } next }
    /^step 0/ { inside = 1 } inside && /^(sum|gather)/ { op[++n] = $0 } { print }' buckets.1 > changed.1
number=$(awk '/^step 1$/ { exit } /^(sum|gather)/ { n++ } END { print n + 1 }' changed.1)
cp buckets changed
run 2 --steps 6 --bucket-mib 0.01 --replay-order changed && wrong "a changed file does not depart"
grep -q "^train: rank 1 departs from changed.1: call 1 of step 1, number $number of the rank, is sum of [0-9]* bytes; recorded: gather of" err ||
    wrong "a changed file: $(cat err)"
grep -q 'rank 0 departs' err && wrong "rank 0 is named: $(cat err)"
run 2 --steps 5 --bucket-mib 0.01 --replay-order buckets && wrong "a run that is shorter does not depart"
grep -q 'of step 4, number [0-9]* of the rank, is gather of 8 bytes; recorded: gather of 16 bytes (call 0 of step 5)' err || wrong "shorter: $(cat err)"

refused() { # WORDS RANKS ARGUMENTS
    run "${@:2}" && wrong "${*:3}: not refused"
    grep -q "$1" err && grep -q '^hint: ' err || wrong "${*:3}: $(cat err)"
}
refused 'one rank sends nothing' 1 --record-order alone
refused 'not in one run' 2 --record-order alone --replay-order buckets
refused 'of rank 0 of 2, this is rank 0 of 3' 3 --replay-order buckets
refused 'missing: No such file' 2 --replay-order missing
"${train[@]}" --elastic 2 --checkpoint one --checkpoint-every 2 --record-order alone > out 2> err && wrong "--elastic is not refused"
grep -q '^hint: leave one of them out' err || wrong "--elastic: $(cat err)"
exit $bad
