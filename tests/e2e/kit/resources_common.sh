# SPDX-License-Identifier: Apache-2.0
# Shared by the tests of resources: sourced after collector_common.sh. A target that makes marks only, and keeps books of them, is
# recorded while something runs out. What is stored and what is counted as lost is what was made, exactly; what is not counted fails.
# shellcheck shell=bash disable=SC2154,SC2034
rounds_done=0
# exact NAME: the file NAME.tacho and the books NAME.log. What is only in the totals is counted too
exact() {
    local made stored totals cut lost unknown
    whole "$1.tacho" || return
    made=$(awk '{ n += $6 } END { print n + 0 }' "$1.log")
    stored=$(one "$1.tacho" "SELECT count(*) FROM slice WHERE name=(SELECT id FROM string WHERE text='mark')")
    totals=$(one "$1.tacho" "SELECT coalesce(sum(count), 0) FROM step_aggregate WHERE name=(SELECT id FROM string WHERE text='mark')")
    cut=$(one "$1.tacho" "SELECT coalesce(sum(count), 0) FROM loss WHERE reason LIKE 'slice or counter sample not stored%'")
    lost=$(losses "$1.tacho")
    unknown=$(one "$1.tacho" "SELECT count(*) FROM loss WHERE count IS NULL AND source IN ('agent','collector')")
    rounds_done=$((rounds_done + 1))
    [ "$made" -gt 0 ] || wrong "$1: nothing was made"
    [ "$unknown" = 0 ] || wrong "$1: losses without a number: $(one "$1.tacho" "SELECT reason FROM loss WHERE count IS NULL")"
    [ $((totals + lost)) = "$made" ] || wrong "$1: made $made, in the totals $totals, lost $lost"
    [ $((stored + cut)) -ge "$totals" ] || wrong "$1: in the totals $totals, stored $stored, not stored $cut"
    [ "$cut" != 0 ] || [ "$stored" = "$totals" ] || wrong "$1: stored $stored, in the totals $totals"
    [ "$lost" = 0 ] || ! grep -q ' 0 lost' "$1.err" || wrong "$1: $lost lost, and it says: $(grep lost "$1.err")"
    echo "$1: made $made, stored $stored, in the totals $totals, lost $lost"
    rm -rf "$1".*
}
# record NAME COMMAND...: with the recorder's words in NAME.err
record() {
    local name=$1
    shift
    "$TACHO" run --no-peak --no-counters --overhead 0 ${pool:+--pool $pool} -o "${place:-}$name" -- "$@" > out 2> "$name.err" ||
        wrong "$name: exit code $?: $(head -c 300 "$name.err")"
}
marks=("$bin/target_events" --marks)
some() { echo $((RANDOM % $1 + $2)); }

# ended PID NAME: the recorder ends by itself
ended() {
    local i
    for ((i = 0; i < 1200; i++)); do
        kill -0 "$1" 2> /dev/null || break
        sleep 0.1
    done
    [ $i -lt 1200 ] || { wrong "$2: the recorder does not end"; kill -KILL "$1"; }
    wait "$1" || wrong "$2: exit code $?: $(head -c 300 "$2.err")"
}
# the address space of the recorder is used up, while processes start and end, for a moment or for good; where it cannot even finish,
# recover does
out_of_memory() {
    local name=v$1 recorder size
    "$TACHO" run --no-peak --no-counters --overhead 0 -o "$name" -- "${marks[@]}" --threads 2 --events "$(some 4000 1000)" \
        --rate 20000 --fork "$(some 30 10)" --log "$name.log" > out 2> "$name.err" &
    recorder=$!
    wait_for test -s "$name.log" # its threads have ended, and its processes begin
    size=$(awk '$1 == "VmSize:" { print $2 }' /proc/$recorder/status)
    prlimit --pid $recorder --as=$(((size + RANDOM % 3000) * 1024)): || [ ! -d /proc/$recorder ] || wrong "$name: no limit"
    sleep "0.$(some 500 100)"
    # its child has ended by now, or ends at once; the limit may stay
    [ $((RANDOM % 2)) = 0 ] || prlimit --pid $recorder --as=unlimited: || [ ! -d /proc/$recorder ] || wrong "$name: limit kept"
    ended $recorder "$name"
    if [ ! -f "$name.tacho" ]; then # it had no memory to finish, said so, and lost nothing
        grep -q "to finish it: tacho recover $name.tacho.live" "$name.err" || wrong "$name: $(head -c 300 "$name.err")"
        "$TACHO" recover "$name" > out 2> "$name.err" || wrong "$name: recover: exit code $?: $(head -c 300 "$name.err")"
    fi
    exact "$name"
}
# few descriptors for the recorder, and more processes than that
few_descriptors() {
    local name=n$1
    (ulimit -n "$(some 40 48)" && record "$name" "${marks[@]}" --events 300 --fork 60 --log "$name.log" && [ $bad = 0 ]) || bad=1
    exact "$name"
}
# files of the target may not grow
small_files() {
    local name=f$1
    record "$name" sh -c 'ulimit -f "$1"; shift; exec "$@"' sh "$(some 2000 8000)" "${marks[@]}" --threads 3 --events 100000 \
        --log "$name.log"
    exact "$name"
}
# a pool of one MiB
small_pool() {
    local name=p$1
    pool=1 record "$name" "${marks[@]}" --threads "$(some 3 1)" --events "$(some 200000 100000)" --fork 2 --log "$name.log"
    exact "$name"
}
# /dev/shm becomes full while it records: only in a mount namespace
full_memory() {
    local name=m$1
    record "$name" sh -c 'head -c "$1" /dev/zero > /dev/shm/filler; shift; "$@"; rc=$?; rm /dev/shm/filler; exit $rc' sh \
        "$((300 * 1048576 - $(some 12000000 8000000)))" "${marks[@]}" --threads 3 --events 60000 --fork 3 --log "$name.log"
    exact "$name"
}
# the recorder is killed, and another one finishes
recorder_killed() {
    local name=k$1 recorder child
    "$TACHO" run --no-peak --no-counters --overhead 0 --pool "$(some 3 1)" -o "$name" -- "${marks[@]}" --threads 2 \
        --events "$(some 60000 20000)" --rate 60000 --log "$name.log" > out 2> "$name.err" &
    recorder=$!
    wait_for sh -c "test -s '$name.tacho.live/run.db' || test -f '$name.tacho'"
    wait_for sh -c "pgrep -P $recorder || test -f '$name.tacho'"
    child=$(pgrep -P $recorder)
    if [ -z "$child" ]; then # on a busy machine the run may be over before it is looked at: another one
        wait $recorder
        echo "retry: $name: it ended before it was killed"
        rm -rf "$name".*
        recorder_killed "$1"
        return
    fi
    sleep "0.$(some 500 100)"
    kill -KILL $recorder
    wait $recorder 2> /dev/null
    while kill -0 "$child" 2> /dev/null && ! grep -q '^State:.Z' "/proc/$child/status" 2> /dev/null; do sleep 0.05; done
    "$TACHO" recover "$name" > out 2> "$name.err" || wrong "$name: recover: exit code $?: $(head -c 300 "$name.err")"
    exact "$name"
}
# the disk of the file becomes full; where not even the totals fit, recover finishes it with room again: only in a mount namespace
full_disk() {
    local name=d$1
    mkdir "$name.d" && mount -t tmpfs -o "size=$(some 12 10)m" none "$name.d" || { wrong "$name: no small disk"; return; }
    place=$name.d/ record "$name" "${marks[@]}" --threads 2 --events "$((400000 + RANDOM * 10))" --rate 200000 --log "$name.log"
    if [ -d "$name.d/$name.tacho.live" ]; then
        grep -q 'tacho recover' "$name.err" || wrong "$name: $(head -c 300 "$name.err")"
        mount -o remount,size=300m "$name.d"
        "$TACHO" recover "$name.d/$name" > out 2> "$name.err" || wrong "$name: recover: exit code $?: $(head -c 300 "$name.err")"
    fi
    cp "$name.d/$name.tacho" . 2> /dev/null
    umount -l "$name.d"
    exact "$name"
}
