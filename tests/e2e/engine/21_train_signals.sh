#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# SIGTERM and SIGINT: the step is finished, the checkpoint written, the program dies by the signal; resumed, it goes on as if nothing
# had happened. SIGKILL: the last checkpoint is whole.
# shellcheck disable=SC2086  # options that are lists of words
set -u
export OMP_NUM_THREADS=1 # threads that wait for one another are what suffers most on a busy machine
dir=$(mktemp -d)
common=(gpt2-tiny --layers 2 --channels 64 --seq 64 --batch 4 --steps 200 --log-every 1 --seed 3 --data "$SRC/LICENSE")
fails=0
steps() { sed -n 's/^step *\([0-9]*\).*loss \([0-9.]*\)  norm \([0-9.]*\).*/\1 \2 \3/p' "$@"; }

"$TRAIN" "${common[@]}" > "$dir/whole" || exit 1
[ "$(steps "$dir/whole" | wc -l)" = 200 ] || { echo "FAIL: not 200 lines"; exit 1; }

for signal in TERM INT; do
    : > "$dir/part" # the lines of the run before are not this one's
    "$TRAIN" "${common[@]}" --checkpoint "$dir/c" --workers 0 --slow decode=0.02 > "$dir/part" &
    pid=$!
    until grep -q '^step *5/' "$dir/part"; do
        kill -0 $pid 2> /dev/null || { echo "FAIL: ended before step 5"; exit 1; }
        sleep 0.01
    done
    kill -$signal $pid
    wait $pid
    code=$?
    case $signal in TERM) want=143 ;; INT) want=130 ;; esac
    [ $code = $want ] || { echo "FAIL: SIG$signal: exit $code, expected $want"; fails=$((fails + 1)); }
    made=$(steps "$dir/part" | wc -l)
    [ "$made" -lt 200 ] || { echo "FAIL: SIG$signal: all steps were made before the signal"; exit 1; }
    "$TRAIN" "${common[@]}" --workers 3 --resume "$dir/c" > "$dir/rest" || { echo "FAIL: no resume"; exit 1; }
    cat "$dir/part" "$dir/rest" > "$dir/both"
    steps "$dir/both" | diff - <(steps "$dir/whole") > "$dir/diff" || {
        echo "FAIL: SIG$signal after $made steps: the resumed run differs:"
        head -5 "$dir/diff"
        fails=$((fails + 1))
    }
    rm "$dir/c"
done

: > "$dir/part"
"$TRAIN" "${common[@]}" --checkpoint "$dir/c" --checkpoint-every 1 > "$dir/part" &
pid=$!
until grep -q '^checkpoint after step 9 ' "$dir/part"; do
    kill -0 $pid 2> /dev/null || { echo "FAIL: ended before step 9"; exit 1; }
    sleep 0.01
done
kill -KILL $pid
wait $pid 2> /dev/null
"$TRAIN" "${common[@]}" --steps 200 --resume "$dir/c" > "$dir/rest" || { echo "FAIL: no resume after SIGKILL"; fails=$((fails + 1)); }
steps "$dir/rest" > "$dir/tail"
steps "$dir/whole" | tail -n "$(wc -l < "$dir/tail")" | diff "$dir/tail" - > "$dir/diff" || {
    echo "FAIL: after SIGKILL the resumed run differs:"
    head -5 "$dir/diff"
    fails=$((fails + 1))
}
[ $fails = 0 ]
