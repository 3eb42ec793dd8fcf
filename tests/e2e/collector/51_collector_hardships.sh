#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Targets that make it hard: all files closed under the recorder, another user half-way, 200 threads, a storm of short processes,
# a daemon, a collector that stands still for seconds. Every event is in the file, or is said to be lost.
# shellcheck disable=SC2154,SC2034 # variables of collector_common.sh
set -u
. "$(dirname "$0")/../kit/collector_common.sh"
record() { # NAME OPTION... -- COMMAND...: the target ends well, the file is whole
    local name=$1
    shift
    expect 0 "$TACHO" run --no-peak --no-counters --overhead 0 -o "$name" "$@"
    whole "$name.tacho"
}
# accounted NAME LOG: ranges and marks of the log are in the file, or are counted as lost. Counter samples and start/end ranges are
# two events more: what is lost bounds what is missing.
accounted() {
    local logged found lost
    logged=$(awk '{ n += $4 + $6 + $7 + $9 } END { print n + 0 }' "$2")
    found=$(one "$1.tacho" "SELECT (SELECT count(*) FROM slice) + (SELECT count(*) FROM counter c JOIN track t ON t.id=c.track WHERE t.name='count')")
    lost=$(losses "$1.tacho")
    echo "$1: $logged logged, $found in the file, $lost events lost"
    [ "$found" -le "$logged" ] || wrong "$1: more in the file than was logged"
    [ $((found + lost)) -ge "$logged" ] || wrong "$1: $((logged - found - lost)) neither in the file nor counted as lost"
    [ "$lost" -gt 0 ] || [ "$found" = "$logged" ] || wrong "$1: $((logged - found)) missing"
}

# ---- all files closed again and again, while the recorder grows its pool
if [ "${SAN:-}" != thread ]; then # which reports that the target closes files under others
    record closed -- "$bin/target_events" --threads 3 --events 60000 --close-fds --log closed.log
    accounted closed closed.log
fi

# ---- another user from the start, or half-way: the collector lends its processes the files that they may not make. Without the
# collector's socket this process goes on, and what its children do is counted
if for_other_users; then
    log=$others/uid.log own=$TACHO
    TACHO=$others/tacho # other users cannot load the library of a tree in a closed home
    begin() { # NAME COMMAND...: all events of another user's processes are in the file
        local name=$1
        shift
        : > "$log" && chmod 666 "$log"
        record "$name" -- "$@"
        books "$name.tacho" "$log" "$name"
        [ "$(one "$name.tacho" 'SELECT count(*) FROM loss')" = 0 ] || wrong "$name: $(one "$name.tacho" 'SELECT * FROM loss')"
    }
    begin setpriv "${as_user[@]}" "$others/target_events" --threads 2 --events 7500 --fork 3 --log "$log"
    ! command -v su > /dev/null ||
        begin su su nobody -s /bin/sh -c "'$others/target_events' --threads 2 --events 7500 --log '$log'"
    : > "$log" && chmod 666 "$log"
    record half -- "$others/target_events" --threads 2 --events 20000 --uid 65534 --fork 3 --log "$log"
    accounted half "$log"
    [ "$(losses half.tacho)" != 0 ] || books half.tacho "$log" half
    : > "$log" && chmod 666 "$log"
    record uid -- env -u TACHO_LENDER "$others/target_events" --threads 2 --events 20000 --uid 65534 --fork 3 --log "$log"
    accounted uid "$log"
    children=$(awk '$3 >= 1000 && $3 < 5000 { n += $4 + $6 + $7 + $9 } END { print n + 0 }' "$log")
    [ "$(one uid.tacho "SELECT coalesce(sum(count),0) >= $children FROM loss WHERE reason LIKE '%changed its user or its root%'")" = 1 ] ||
        wrong "uid: $children events of children that may not record, and: $(one uid.tacho 'SELECT reason, count FROM loss')"
    # one that cannot load the library, or cannot reach the lender's socket, does not know that it is to record: it is looked for
    unrecorded() { # NAME REASON COMMAND...
        local name=$1 reason=$2
        shift 2
        record "$name" -- "$@" "${as_user[@]}" "$others/target_events" --events 9000 --rate 3000 # seconds: on a busy machine it is looked for late
        ! grep -q ' 0 lost' err || wrong "$name: says 0 lost: $(cat err)"
        grep -q 'processes of user 65534.* could not be recorded' err || wrong "$name: no warning: $(cat err)"
        one "$name.tacho" 'SELECT count, reason FROM loss' | grep -q "^|.*$reason" || wrong "$name: $(one "$name.tacho" 'SELECT * FROM loss')"
        [ "$(one "$name.tacho" 'SELECT count(*) FROM slice')" = 0 ] || wrong "$name: it could record after all"
    }
    mkdir -m 700 "$others/closed" && cp "$TACHO" "$others"/*.so "$others/closed/"
    TACHO=$others/closed/tacho
    unrecorded closed-home 'cannot read libtacho.so' env
    TACHO=$others/tacho
    ! unshare -n true 2> /dev/null || unrecorded network 'in another network namespace' unshare -n
    # the last process gets its file, records and ends while the collector writes slowly, all in one turn of it
    if [ -z "${SAN:-}" ]; then # whose runtime must be loaded before everything else
        cat > slow_disk.c << 'END'
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at)
{
    usleep(100000);
    return syscall(SYS_pwrite64, fd, bytes, count, at);
}
END
        # shellcheck disable=SC2086 # CC may be several words, as in "ccache gcc"
        ${CC:-gcc} -shared -fPIC -w -D_GNU_SOURCE -o "$others/slow_disk.so" slow_disk.c || wrong "the slow disk does not build"
        : > "$log" && chmod 666 "$log"
        # shellcheck disable=SC2016 # for the shell of the run
        LD_PRELOAD=$others/slow_disk.so record last -- \
            sh -c 'unset LD_PRELOAD; (sleep 0.5; "$@") & true' sh "${as_user[@]}" "$others/target_events" --events 200 --log "$log"
        books last.tacho "$log" last
    fi
    TACHO=$own
fi

# ---- no pool can be made: the number of lost events is exact, with those of a signal handler that interrupts the recorder
# shellcheck disable=SC2016 # for the shell of the run
record nowhere -- sh -c 'ulimit -f 4; exec "$@"' sh "$bin/target_events" --signal-handler --events 100000 --log nowhere.log
made=$(awk '{ n += 2 * $4 + $6 + 2 * $7 + $9 } END { print n + 0 }' nowhere.log)
[ "$made" -gt 100000 ] && [ "$(losses nowhere.tacho)" = "$made" ] || wrong "nowhere: $made records, $(losses nowhere.tacho) lost"

# ---- 200 threads at once
record threads -- "$bin/target_events" --threads 200 --events 500 --log threads.log
accounted threads threads.log
[ "$(losses threads.tacho)" != 0 ] || books threads.tacho threads.log threads

# ---- 1,000 processes of a few events
record storm -- "$bin/target_events" --threads 1 --events 20 --fork 1000 --log storm.log
accounted storm storm.log
[ "$(wc -l < storm.log)" = 1001 ] || wrong "storm: $(wc -l < storm.log) processes"
[ "$(losses storm.tacho)" != 0 ] || books storm.tacho storm.log storm

# ---- processes that end while the sampler reads about them: /proc answers late here. Nothing of that is a loss
if [ -z "${SAN:-}" ]; then # whose runtime must be loaded before everything else
    cat > slow.c << 'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
int open(const char *path, int flags, ...)
{
    int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    const char *last = strrchr(path, '/');
    __builtin_va_list list;
    __builtin_va_start(list, flags);
    mode_t mode = flags & O_CREAT ? __builtin_va_arg(list, mode_t) : 0;
    __builtin_va_end(list);
    if (!strncmp(path, "/proc/", 6) && !strcmp(last, "/cgroup"))
        usleep(200000);
    return next(path, flags, mode);
}
END
    # shellcheck disable=SC2086 # CC may be several words, as in "ccache gcc"
    ${CC:-gcc} -shared -fPIC -w -o slow.so slow.c -ldl || wrong "the slow /proc does not build"
    # shellcheck disable=SC2016 # for the shell of the run
    LD_PRELOAD=$PWD/slow.so expect 0 "$TACHO" run --no-peak --no-counters --overhead 0 -o ended -- \
        sh -c 'unset LD_PRELOAD; for i in 1 2 3 4 5 6 7 8 9 10; do "$0" --events 200 --rate 2000; done' "$bin/target_events"
    whole ended.tacho
    [ "$(one ended.tacho 'SELECT count(*) FROM loss')" = 0 ] || wrong "ended: $(one ended.tacho 'SELECT * FROM loss')"
    [ "$(one ended.tacho 'SELECT count(*) FROM process')" -ge 10 ] || wrong "ended: the processes are not in the file"
fi

# ---- a daemon: closes everything, leaves its session; it is recorded when it begins before the command ends, else that is said
record daemon -- sh -c "'$bin/target_forks' --daemon --log '$PWD/daemon.log'; sleep 1"
accounted daemon daemon.log
record late -- sh -c "setsid sh -c 'sleep 1; \"$bin/target_events\" --events 10' > /dev/null 2>&1 < /dev/null & sleep 0.2"
grep -q 'left the session' err || wrong "a daemon goes on unrecorded, and nothing says so: $(cat err)"

# ---- the collector stands still: the target is not held up, what does not fit meanwhile is counted
"$TACHO" run --no-peak --no-counters --overhead 0 -o stopped -- "$bin/target_events" --threads 2 --events 60000 --rate 12000 --log stopped.log > out 2> err &
pid=$!
wait_for test -s stopped.tacho.live/run.db
sleep 0.5
kill -STOP $pid
sleep "${STOPPED:-4}"
[ -n "$(pgrep -P $pid)" ] || wrong "stopped: the target is gone"
kill -CONT $pid
wait $pid || wrong "stopped: exit code $?"
whole stopped.tacho
accounted stopped stopped.log
exit $bad
