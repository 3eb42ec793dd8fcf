#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# A dead run is finished by its owner only, from the pools that were made for it; what tacho did not
# make is not removed.
# shellcheck disable=SC2154 # variables of collector_common.sh
set -u
. "$(dirname "$0")/../kit/collector_common.sh"
# recorders and targets that a failure leaves: all of them work in one of the two folders
end_all() {
    local pid
    for pid in $(pgrep -x 'tacho|target_events'); do
        case $(readlink "/proc/$pid/cwd") in
        "$work"* | "${others:-$work}"*) kill -KILL "$pid" 2> /dev/null ;;
        esac
    done
    cleanup
}
trap end_all EXIT

# dead NAME [COMMAND...]: a run whose recorder and target were killed, made by COMMAND
dead() {
    local name=$1 recorder target
    shift
    "$@" "${others:-$BUILD}/tacho" run --no-peak --no-counters -o "$name" -- \
        "${others:-$bin}/target_events" --forever --rate 5000 > out 2> err &
    recorder=$!
    wait_for test -s "$name.tacho.live/run.db"
    sleep 0.5
    target=$(pgrep -P $recorder)
    kill -KILL $recorder "$target"
    wait $recorder 2> /dev/null
}
# victim: a folder with files, some of which have names of tacho's
victim() {
    rm -rf "$work/victim"
    mkdir "$work/victim"
    for file in precious run.db lock control reserve pool.1.0 gpu.1.0 none.1; do
        echo keep > "$work/victim/$file"
    done
    before=$(list "$work/victim")
}
list() { (cd "$1" && stat -c '%n %i %s' ./*); }
names() { find "$1" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | tr '\n' ' '; }
intact() {
    [ "$(list "$work/victim")" = "$before" ] || wrong "$1: what is left: $(names "$work/victim")"
}
recorded() {
    [ "$(one "$2" 'SELECT count(*) > 500 FROM slice')" = 1 ] || wrong "$1: events are missing"
}
says() { grep -q "$2" err || wrong "$1: $(cat err)"; }
# elsewhere NAME: its segments lead to the victim
elsewhere() {
    mv "$1.tacho.live/segments" "$1.segments" && ln -s "$work/victim" "$1.tacho.live/segments"
}
back() { rm "$1.tacho.live/segments" && mv "$1.segments" "$1.tacho.live/segments"; }

# ---- the owner's own run, its pools led elsewhere
mkdir own && cd own || exit 1
victim
dead zz
elsewhere zz
for command in 'report latest' 'report zz' 'top --batch zz' 'recover zz.tacho.live'; do
    # shellcheck disable=SC2086 # words
    expect 3 "$TACHO" $command
    says "$command" 'segments: tacho did not create it for this run'
    says "$command" '^hint: '
    intact "$command"
    [ -s zz.tacho.live/run.db ] || wrong "$command: the run is gone"
done
back zz
mv zz.tacho.live/segments zz.segments
cp -r "$work/victim" zz.tacho.live/segments # a folder in its place
expect 3 "$TACHO" report latest
[ "$(names zz.tacho.live/segments)" = "$(names "$work/victim")" ] ||
    wrong "a folder in its place: $(names zz.tacho.live/segments)"
rm -r zz.tacho.live/segments && mv zz.segments zz.tacho.live/segments
pools=$(readlink -f zz.tacho.live/segments)

# ---- what is in its folders and not tacho's
ln -s "$work/victim/pool.1.0" "$pools/pool.1.0"
mkfifo "$pools/pool.1.2"
mkdir "$pools/pool.1.3" && echo keep > "$pools/pool.1.3/pool.1.0"
echo keep > "$pools/pool.list"
echo keep > "$pools/second" && ln "$pools/second" "$pools/pool.1.4"
echo keep > zz.tacho.live/notes
chmod go+w zz.tacho.live
expect 4 "$TACHO" recover zz
says 'writable' 'others may write to it'
expect 0 "$TACHO" report latest
says 'writable' 'others may write to it'
[ ! -e zz.tacho ] || wrong "a run that others may write to was finished"
chmod go-w zz.tacho.live
expect 0 timeout 120 "$TACHO" recover zz
says 'foreign files' 'zz.tacho.live: kept: not everything in it is tacho.s'
intact 'foreign files'
[ "$(names "$pools")" = 'pool.1.0 pool.1.2 pool.1.3 pool.1.4 pool.list second ' ] ||
    wrong "foreign files: $(names "$pools")"
[ "$(cat "$pools/pool.1.3/pool.1.0")" = keep ] || wrong "a folder in the pools was emptied"
[ "$(names zz.tacho.live)" = 'notes segments ' ] || wrong "left: $(names zz.tacho.live)"
recorded 'foreign files' zz.tacho
rm -r "$pools" zz.tacho.live
whole zz.tacho

# ---- nothing foreign: as ever
dead plain
pools=$(readlink -f plain.tacho.live/segments)
expect 0 "$TACHO" report latest
whole plain.tacho
[ ! -e "$pools" ] || wrong "plain: $pools is left"

# ---- a copy of a live folder: its pools are the original's, which goes on recording
"$TACHO" run --no-peak --no-counters -o first -- "$bin/target_events" --threads 2 --forever \
    --rate 5000 --log first.log > first.out 2>&1 &
recorder=$!
wait_for test -s first.tacho.live/run.db
sleep 0.3
cp -a first.tacho.live second.tacho.live
for command in 'report second' 'top --batch -n 1 second' 'report second.tacho.live'; do
    # shellcheck disable=SC2086 # words
    expect 0 "$TACHO" $command
    says "$command" 'second.tacho.live: is a copy: its pools belong to another folder'
    says "$command" '^hint: name the original'
done
expect 4 "$TACHO" recover second
says 'a copy' 'is a copy'
rm first.tacho.live/lock # a second recorder could take a new one
expect 0 "$TACHO" report first
kill -TERM "$(pgrep -P $recorder)"
wait $recorder || wrong "the original of a copy: exit code $?"
whole first.tacho
books first.tacho first.log 'the original of a copy'
[ "$(losses first.tacho)" = 0 ] || wrong "the original of a copy: events lost"
rm second.tacho.live/segments
expect 0 "$TACHO" recover second
whole second.tacho

# ---- pools in memory whose live folder was removed by hand
dead gone
dead kept
pools=$(readlink -f gone.tacho.live/segments)
others_pools=$(readlink -f kept.tacho.live/segments)
case $pools in
/dev/shm/*)
    rm -r gone.tacho.live
    echo keep > "$pools/notes"
    expect 0 "$TACHO" doctor
    grep -q "warning .*left in memory .*$pools: .* MiB of a run whose folder .*gone.tacho.live is gone" out ||
        wrong "doctor does not list $pools: $(grep memory out)"
    ! grep -q "$others_pools" out || wrong "doctor lists pools of a run that is there"
    expect 0 "$TACHO" doctor --clean
    says 'doctor --clean' "$pools: kept in part: not everything in it is tacho.s"
    [ "$(names "$pools")" = 'notes ' ] || wrong "doctor --clean left $(names "$pools")"
    rm -r "$pools"
    ;;
esac
expect 0 "$TACHO" report kept
whole kept.tacho

# ---- folders of pools whose recorder was killed right after it had made them, or while it removed them
make_left() { mktemp -d "/dev/shm/tacho-$(id -u)-XXXXXX"; }
if [ -w /dev/shm ]; then
    empty=$(make_left) begun=$(make_left) young=$(make_left) foreign=$(make_left)
    echo 0123 > "$begun/run" # less than a proof
    echo keep > "$foreign/notes"
    touch -d '2 minutes ago' "$empty" "$begun" "$foreign"
    expect 0 "$TACHO" doctor
    for folder in "$empty" "$begun"; do
        grep -q "warning .*left in memory .*$folder: empty, of a recorder that was killed" out || wrong "doctor does not list $folder: $(grep memory out)"
    done
    ! grep -q "$young\|$foreign" out || wrong "doctor lists what may be in use, or not tacho's: $(grep memory out)"
    expect 0 "$TACHO" doctor --clean
    says 'doctor --clean' "$empty: removed"
    [ ! -e "$empty" ] && [ ! -e "$begun" ] || wrong "doctor --clean left $empty or $begun"
    [ -d "$young" ] && [ -e "$foreign/notes" ] || wrong "doctor --clean removed what is not left over"
    rm -r "$young" "$foreign"
fi
cd ..

if ! for_other_users; then
    [ $bad = 0 ] || exit 1
    echo "the rest needs root"
    exit 77
fi

# ---- another user's run, read by root
mkdir "$others/other" && chown 65534 "$others/other" && cd "$others/other" || exit 1
victim
dead zz "${as_user[@]}"
pools=$(readlink -f zz.tacho.live/segments)
held=$(names "$pools")
for round in own victim; do
    [ $round = own ] || elsewhere zz
    for command in 'report latest' 'report zz' 'report zz.tacho.live' 'top --batch latest' \
        'top --batch zz'; do
        # shellcheck disable=SC2086 # words
        expect 0 "$TACHO" $command
        says "$command" 'zz.tacho.live: belongs to user 65534, so it is not finished'
        says "$command" '^hint: only its owner can finish it'
    done
    expect 4 "$TACHO" recover zz
    says recover 'belongs to user 65534'
    expect 4 "$TACHO" merge zz zz -o merged
    says merge 'belongs to user 65534'
    intact "another user's, $round"
    [ -s zz.tacho.live/run.db ] && [ ! -e zz.tacho ] || wrong "another user's, $round: $(names .)"
    [ "$(names "$pools")" = "$held" ] || wrong "another user's, $round: $(names "$pools")"
done
back zz
expect 0 "${as_user[@]}" "$others/tacho" recover zz
whole zz.tacho
[ ! -e "$pools" ] || wrong "another user's: $pools is left"
recorded "another user's" zz.tacho

# ---- root's own in a folder of that user, who makes a link to it, and moves another one away
dead mine
ln -s mine.tacho.live theirs.tacho.live && chown -h 65534 theirs.tacho.live
expect 4 "$TACHO" recover theirs
[ -s mine.tacho.live/run.db ] || wrong "a link of another user's led to root's run"
rm theirs.tacho.live
expect 0 "$TACHO" recover mine
whole mine.tacho
"$TACHO" run --no-peak --no-counters -o long -- \
    "$bin/target_events" --forever --rate 5000 > out 2> err &
recorder=$!
wait_for test -s long.tacho.live/run.db
sleep 0.3
# the recorder has no capability that it does not need; its target has all that it was started with
caps() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$2/status"; }
unneeded=$((1 << 0 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13 | 1 << 16 | 1 << 17 | 1 << 18 | 1 << 22 | 1 << 25 | 1 << 27))
[ $((0x$(caps CapPrm $recorder) & unneeded)) = 0 ] || wrong "the recorder has capabilities $(caps CapPrm $recorder)"
[ "$(caps NoNewPrivs $recorder)" = 1 ] || wrong "the recorder could get privileges back"
[ "$(caps CapPrm "$(pgrep -P $recorder)")" = "$(caps CapPrm $$)" ] || wrong "the target has lost capabilities"
[ "$(caps NoNewPrivs "$(pgrep -P $recorder)")" = 0 ] || wrong "the target has lost the right to get privileges"
pools=$(readlink -f long.tacho.live/segments)
mv long.tacho.live moved.tacho.live && ln -s "$work/victim" long.tacho.live
kill -KILL "$(pgrep -P $recorder)"
wait $recorder
intact "a folder moved while it was recorded"
rm long.tacho.live
whole long.tacho
recorded 'moved while it was recorded' long.tacho
[ ! -e "$pools" ] || wrong "moved: $pools is left"
[ -z "$(names moved.tacho.live)" ] || wrong "moved: left $(names moved.tacho.live)"

# ---- a recorder of that user that has one capability: the file is the user's, and the target does not get it
if setpriv --reuid=65534 --clear-groups --inh-caps=+perfmon --ambient-caps=+perfmon true 2> /dev/null; then
    mkdir counters && chown 65534 counters && cd counters || exit 1
    expect 0 setpriv --reuid=65534 --clear-groups --inh-caps=+perfmon --ambient-caps=+perfmon env HOME=/ "$others/tacho" run --no-peak \
        -o counters -- sed -n 's/^Cap\([A-Z][a-z]*\):[[:space:]]*//p' /proc/self/status
    [ "$(sed -n 2,3p out | tr -d '0\n')" = '' ] || wrong "the target has the recorder's capability: $(tr '\n' ' ' < out)"
    [ "$(stat -c %u counters.tacho)" = 65534 ] || wrong "a file of user $(stat -c %u counters.tacho)"
    cd ..
fi

# ---- root with the home of that user, as sudo may leave it: nothing of it is used, nothing is made in it
mkdir -p home/.cache/tacho home/.config/tacho && mkfifo home/.config/tacho/classes.tsv home/.config/tacho/top.conf
victim
for name in imports peak-0; do ln -s "$work/victim" "home/.cache/tacho/$name"; done
chown -hR 65534 home
held=$(find home | sort)
at_home=(timeout 60 env -u XDG_CACHE_HOME -u XDG_CONFIG_HOME HOME="$PWD/home")
expect 0 "${at_home[@]}" "$TACHO" run --no-counters -o at_home -- true
expect 0 "${at_home[@]}" "$TACHO" report at_home
echo '{"traceEvents": [{"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "name": "step", "cat": "user_annotation"}]}' > trace.json
expect 0 "${at_home[@]}" "$TACHO" report trace.json
says 'a home' "trace.json: the import is not cached (the home or cache folder is another user's)"
[ "$(find home | sort)" = "$held" ] || wrong "made in the home of another user: $(find home | sort)"
intact 'a home of another user'
exit $bad
