#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# How a run ends: exit codes, signals, launchers whose children go on, terminals that go away, two runs at once.
# shellcheck disable=SC2154,SC2034 # variables of collector_common.sh
# shellcheck disable=SC2317  # called by traps and by other functions
set -u
. "$(dirname "$0")/../kit/collector_common.sh"
# a background command of a shell ignores INT and QUIT
run=(env --default-signal=INT --default-signal=QUIT "$TACHO" run --no-peak --no-counters)
ended() { ! pgrep -f -- "run .*-o $1 --" > /dev/null; } # the recorder of that run
text() { one "$1" "SELECT value FROM run WHERE key='$2'"; }

# ---- exit codes as env(1); nothing is left of what never ran
expect 7 "${run[@]}" -o seven -- sh -c 'exit 7'
[ "$(text seven.tacho ended)" = "exit 7" ] || wrong "ended: $(text seven.tacho ended)"
for crash in segv:139 abort:134 kill:137; do
    case $crash:${SAN:-} in segv:?*) continue ;; esac # a sanitizer turns it into an exit
    expect "${crash#*:}" "${run[@]}" -o "${crash%:*}" -- "$bin/target_events" --threads 2 --events 500 --log "$crash.log" --crash "${crash%:*}"
    whole "${crash%:*}.tacho"
    books "${crash%:*}.tacho" "$crash.log" "${crash%:*}"
    [ "$(text "${crash%:*}.tacho" ended | cut -d ' ' -f 1)" = signal ] || wrong "$crash: ended"
done
mkdir empty && cd empty || exit 1
expect 127 "${run[@]}" -- ./no-such-program
expect 126 "${run[@]}" -- /etc/passwd
expect 125 "${run[@]}" -o no/such/folder/x -- true
expect 125 "${run[@]}" -o "$(printf 'n%.0s' {1..300})" -- true
grep -q "shorter name" err || wrong "name too long: $(cat err)"
rm -f out err
[ -z "$(ls -A)" ] || wrong "something is left: $(ls -A)"
cd .. || exit 1
[ -z "$(find /dev/shm -maxdepth 1 -name "tacho-$(id -u)-*" -newer empty -user "$(id -un)" -empty 2> /dev/null | head -n 1)" ] || echo "empty segment folders of other runs"

# ---- a folder that cannot be written
if [ "$(id -u)" != 0 ]; then
    mkdir locked && chmod 500 locked
    expect 125 "${run[@]}" -o locked/x -- touch ran
    [ ! -e ran ] || wrong "the target ran although nothing could be recorded"
    chmod 700 locked
fi
mkdir taken.tacho.live
expect 125 "${run[@]}" -o taken -- touch ran
[ ! -e ran ] || wrong "the target ran although the name was taken"
[ -d taken.tacho.live ] || wrong "somebody's folder was removed"

# ---- signals of processes are passed on; the terminal's INT is waited out once
"${run[@]}" -o signals -- "$bin/target_signals" > signals.out 2> signals.err &
pid=$!
wait_for grep -q ready signals.out
for s in USR1 USR2 HUP TERM; do
    kill -$s $pid
    sleep 0.1
done
wait $pid
rc=$?
[ "$(grep -c '^signal SIG\(USR1\|USR2\|HUP\|TERM\)\|^signal \(USR1\|USR2\|HUP\|TERM\)' signals.out)" = 4 ] || wrong "signals: $(cat signals.out)"
[ $rc = 0 ] || wrong "signals: exit code $rc"
whole signals.tacho

"${run[@]}" -o twice -- sleep 30 2> twice.err &
pid=$!
wait_for test -d twice.tacho.live/segments
sleep 0.3
target=$(pgrep -P $pid)
"${run[@]}" -o shielded -- sh -c 'trap "" INT; sleep 30' 2> /dev/null &
other=$!
wait_for test -d shielded.tacho.live/segments
sleep 0.3
kill -INT $other
sleep 0.3
kill -0 $other 2> /dev/null || wrong "the first INT ended the recording"
child=$(pgrep -P $other)
kill -INT $other
wait $other
rc=$?
[ $rc = 130 ] || wrong "second INT: exit code $rc"
whole shielded.tacho
text shielded.tacho ended | grep -q interrupted || wrong "ended: $(text shielded.tacho ended)"
kill -0 "$child" 2> /dev/null || wrong "the second INT harmed the target"
pkill -KILL -P "$child"
kill -KILL "$child" 2> /dev/null
kill -INT $pid # passed on to sleep, which dies of it
wait $pid
rc=$?
[ $rc = 130 ] || wrong "INT: exit code $rc"
kill -0 "$target" 2> /dev/null && wrong "INT was not passed on"
whole twice.tacho

# ---- a launcher whose children go on: the recording outlives it, the exit status is the launcher's
expect 3 "${run[@]}" -o launcher -- sh -c "'$bin/target_events' --events 3000 --rate 2000 --log '$work/launcher.log' & exit 3"
whole launcher.tacho
books launcher.tacho launcher.log "child of a launcher that has ended"
grep -q 'still run' err || wrong "nothing said about the children: $(cat err)"
# waiting for a child that records nothing costs next to nothing (2 s of waiting; half a second is 25 times what it takes)
TIMEFORMAT='%U %S'
cpu=$({ time "${run[@]}" -o waiting -- sh -c 'sleep 2 & exit 0' > /dev/null 2>&1 < /dev/null; } 2>&1)
[ -z "${TIMING:-}" ] || awk -v cpu="$cpu" -v san="${SAN:-}" 'BEGIN { split(cpu, t, " "); exit !(t[1] + t[2] < (san == "" ? 0.5 : 1)) }' || wrong "waiting took CPU: $cpu s"
whole waiting.tacho
# a daemon (a session of its own, nothing recorded) is not waited for
expect 0 "${run[@]}" -o daemon -- sh -c "setsid sleep 20.$$ > /dev/null 2>&1 < /dev/null & exit 0"
[ "$(one daemon.tacho "SELECT (SELECT value FROM run WHERE key='end.monotonic_ns') - (SELECT value FROM run WHERE key='start.monotonic_ns') < 15000000000")" = 1 ] ||
    wrong "waited for a daemon"
pkill -f "^sleep 20.$$\$" -u "$(id -u)" -n 2> /dev/null

# ---- Ctrl-C is the target's to answer, however often
if command -v script > /dev/null; then
    cat > answers.sh <<'X'
trap 'n=$((n + 1)); echo "interrupt $n" >> answers' INT
echo ready >> answers
until [ "${n:-0}" = 3 ]; do sleep 0.1; done
exit 6
X
    mkfifo keys
    "${run[@]:0:3}" script -q -e -c "exec ${run[*]} -o interactive -- sh answers.sh" /dev/null < keys > interactive.out 2>&1 &
    pid=$!
    exec 9> keys
    wait_for grep -q ready answers
    for n in 1 2 3; do
        printf '\003' >&9
        wait_for grep -q "interrupt $n" answers
    done
    wait $pid
    rc=$?
    exec 9>&-
    [ $rc = 6 ] || wrong "Ctrl-C three times: exit code $rc ($(cat answers interactive.out))"
    whole interactive.tacho
    [ "$(text interactive.tacho ended)" = "exit 6" ] || wrong "Ctrl-C three times: ended: $(text interactive.tacho ended)"
fi

# ---- the terminal goes away: the target gets its HUP, the file is finished
if command -v script > /dev/null; then
    cat > session.sh <<X
trap '' HUP
exec ${run[*]} -o terminal -- sh -c 'trap "" HUP; "$bin/target_events" --events 3000 --rate 1500 --log "$work/terminal.log"; echo x; echo y >&2'
X
    setsid script -q -c "sh $work/session.sh" /dev/null > /dev/null 2>&1 < /dev/null &
    pid=$!
    wait_for test -d terminal.tacho.live/segments
    sleep 0.5
    kill -KILL $pid # the master side of the terminal is gone
    wait $pid 2> /dev/null
    wait_for ended terminal
    whole terminal.tacho
    [ -s terminal.log ] && books terminal.tacho terminal.log "terminal gone"
    # and without protection: both get the HUP of a closing terminal
    setsid script -q -c "exec ${run[*]} -o hangup -- $bin/target_events --forever --rate 1000" /dev/null > /dev/null 2>&1 < /dev/null &
    pid=$!
    wait_for test -d hangup.tacho.live/segments
    sleep 0.5
    kill -KILL $pid
    wait $pid 2> /dev/null
    wait_for ended hangup
    whole hangup.tacho
else
    echo "no program script: terminals not tested"
fi

# ---- two runs at once, a run without environment, a run within a run
"${run[@]}" -o one -- "$bin/target_events" --events 20000 --log one.log 2> /dev/null &
a=$!
"${run[@]}" -o two -- "$bin/target_events" --events 20000 --log two.log 2> /dev/null &
b=$!
wait $a || wrong "one of two runs failed"
wait $b || wrong "the other of two runs failed"
whole one.tacho && books one.tacho one.log "one of two runs"
whole two.tacho && books two.tacho two.log "the other of two runs"
expect 0 env -i "$TACHO" run -o bare --no-peak -- "$bin/target_events" --events 500 --log bare.log
whole bare.tacho && books bare.tacho bare.log "empty environment"
expect 0 "${run[@]}" -o outer -- "${run[@]}" -o inner -- "$bin/target_events" --events 500 --log inner.log
whole outer.tacho
whole inner.tacho && books inner.tacho inner.log "run within a run"
mkdir defaults && cd defaults || exit 1
for i in 1 2 3; do "${run[@]}" -- true 2> /dev/null & done
wait
set -- *.tacho
[ $# = 3 ] || wrong "three runs at once under default names: $*"
cd .. || exit 1

# ---- an old injection library is named and replaced
NVTX_INJECTION64_PATH=/no/such/lib.so expect 0 "${run[@]}" -o injected -- "$bin/target_events" --events 500 --log injected.log
grep -q '/no/such/lib.so' err || wrong "the old NVTX_INJECTION64_PATH is not reported: $(cat err)"
books injected.tacho injected.log "another tool's library in the environment"

# ---- secrets do not get into the file
expect 0 env API_TOKEN=hunter2hunter2 OMP_NUM_THREADS=3 "${run[@]}" -o secret -- sh -c true --api-key hunter2hunter2 --password=hunter2hunter2
! grep -aq hunter2 secret.tacho || wrong "a secret is in the file"
text secret.tacho environment | grep -q '"OMP_NUM_THREADS":"3"' || wrong "environment: $(text secret.tacho environment)"
exit $bad
