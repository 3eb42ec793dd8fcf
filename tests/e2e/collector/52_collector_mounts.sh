#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Places that refuse to be written: a quota that is used up, folders and homes that are read-only, a disk that goes away. The target
# is not harmed, what was stored is sound, what was not is named.
# shellcheck disable=SC2154,SC2034 # variables of collector_common.sh
set -u
. "$(dirname "$0")/../kit/collector_common.sh"
run() { "$TACHO" run --no-peak --no-counters --overhead 0 "$@"; }

# ---- a quota: no kernel here need have one, so a filter answers writes beyond the first 3 MB of a file with EDQUOT
cat > quota.c << 'C'
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define SAME(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(value), yes, no)
int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    struct sock_filter code[] = {
        LOAD(nr),
        SAME(SYS_pwrite64, 1, 0),
        SAME(SYS_fallocate, 0, 3), /* both have an offset, low word first */
        LOAD(args[3]),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (unsigned)atol(argv[1]), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDQUOT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    code[2] = (struct sock_filter)SAME(SYS_pwrite64, 0, 3);
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return 77;
    execvp(argv[2], argv + 2);
    return 127;
}
C
if ${CC:-gcc} -o quota quota.c 2> cc.err && ./quota 3000000 true; then
    ./quota 3000000 "$TACHO" run --no-peak --no-counters --overhead 0 -o quota -- "$bin/target_events" --threads 2 --events 300000 --rate 150000 --log log > out 2> err
    rc=$?
    [ $rc = 0 ] || wrong "quota: the target's exit code became $rc: $(cat err)"
    [ "$(wc -l < log)" -ge 2 ] || wrong "quota: the target was harmed"
    grep -q 'only totals are stored from here on' err || wrong "quota: $(cat err)"
    if [ -f quota.tacho ]; then
        whole quota.tacho
        one quota.tacho "SELECT reason FROM loss" | grep -q 'no space left' || wrong "quota: nothing says that detail is missing"
    else # not even totals fitted; with room the run is finished
        grep -q 'Disk quota exceeded' err && grep -q 'to finish it: tacho recover' err || wrong "quota: $(cat err)"
        expect 0 "$TACHO" recover quota.tacho.live
        whole quota.tacho
        # the totals did not fit, or they did and only the finished file did not: then nothing is missing
        one quota.tacho "SELECT value FROM run WHERE key='ended'" | grep -qE 'disk was full|^exit 0$' ||
            wrong "quota: $(one quota.tacho "SELECT value FROM run WHERE key='ended'")"
    fi
    logged=$(awk '{ n += $4 + $6 + $7 } END { print n }' log)
    counted=$(one quota.tacho "SELECT (SELECT sum(count) FROM step_aggregate) + 0")
    lost=$(losses quota.tacho)
    [ "$lost" -gt 0 ] || [ "$counted" = "$logged" ] || wrong "quota: $logged ranges and marks logged, $counted in the totals"
    ! grep -qi 'killed' err || wrong "quota: $(cat err)"
    quota="$logged logged, $counted in the totals, $lost lost"
    # no room from the start: an error before the target runs
    expect 125 ./quota 0 "$TACHO" run --no-peak -o none -- touch ran
    grep -qi 'quota\|space' err || wrong "quota from the start: $(cat err)"
    [ ! -e ran ] && [ ! -e none.tacho ] && [ ! -e none.tacho.live ] || wrong "quota from the start: $(ls)"
else
    quota="not tried: $(cat cc.err)"
fi
echo "quota: $quota"

[ "$(id -u)" = 0 ] || { echo "the rest needs root to mount"; exit $((bad ? 1 : 77)); }
mkdir disk home
mount -t tmpfs -o size=60m none disk 2> /dev/null || { echo "cannot mount a filesystem here"; exit $((bad ? 1 : 77)); }
trap 'cd /; umount -l "$work/disk" "$work/loop" 2> /dev/null; cleanup' EXIT

# ---- read-only: runs are read, also one that was not finished; none begins; a read-only home and cache are no obstacle
run -o disk/good -- "$bin/target_events" --events 500 2> /dev/null
"$TACHO" run --no-peak --no-counters -o disk/dead -- "$bin/target_events" --forever --rate 3000 > out 2> err &
pid=$!
wait_for test -s disk/dead.tacho.live/run.db-wal
sleep 0.4
kill -KILL $pid "$(pgrep -P $pid)"
wait $pid 2> /dev/null
mount -o remount,ro disk
expect 125 run -o disk/more -- touch ran
grep -q 'Read-only' err && grep -q '^hint: ' err || wrong "read-only: $(cat err)"
[ ! -e ran ] || wrong "read-only: the target ran"
for command in report 'top --batch -n 1' 'export --format csv -o out.csv'; do
    # shellcheck disable=SC2086 # words
    expect 0 "$TACHO" $command disk/good
done
expect 0 "$TACHO" report disk/dead
grep -q 'disk/dead.tacho.live: Read-only file system' err && grep -q '^hint: it is read as it is' err || wrong "read-only, not finished: $(cat err)"
expect 4 "$TACHO" report disk/good --save
expect 0 env HOME="$work/disk" XDG_CACHE_HOME="$work/disk" XDG_CONFIG_HOME="$work/disk" "$TACHO" run --overhead 0 -o home/run -- "$bin/target_events" --events 500
whole home/run.tacho
expect 0 env HOME="$work/disk" XDG_CACHE_HOME="$work/disk" "$TACHO" report home/run
mount -o remount,rw disk
expect 0 "$TACHO" recover disk/dead
whole disk/dead.tacho

# ---- a disk that goes away while it is recorded: the target ends as it would; with the disk again, the run is finished
mkdir loop
if command -v mkfs.ext4 > /dev/null && truncate -s 64M image && mkfs.ext4 -q -F image && mount -o loop image loop 2> /dev/null; then
    timeout 60 "$TACHO" run --no-peak --no-counters --overhead 0 --sync-interval 1 -o loop/gone -- "$bin/target_events" --threads 2 --events 15000 --rate 5000 --log gone.log > out 2> err &
    pid=$!
    wait_for test -s loop/gone.tacho.live/run.db-wal
    sleep 1.5
    python3 -c 'import fcntl, os, struct, sys; fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack("I", 2))' loop || wrong "cannot shut the filesystem down"
    wait $pid
    rc=$?
    [ $rc != 124 ] || wrong "gone: the recorder did not end"
    [ "$(wc -l < gone.log)" = 2 ] || wrong "gone: the target was harmed"
    grep -qi 'error' err && grep -q 'tacho recover' err || wrong "gone: $(cat err)"
    umount loop && mount -o loop image loop || wrong "gone: cannot mount it again"
    expect 0 "$TACHO" recover loop/gone
    whole loop/gone.tacho
    [ "$(one loop/gone.tacho 'SELECT count(*) > 0 FROM slice')" = 1 ] || wrong "gone: nothing was kept: $(cat err)"
    echo "gone: $(awk '{ n += $4 + $6 } END { print n }' gone.log) made on threads, $(one loop/gone.tacho 'SELECT count(*) FROM slice') kept; loss: $(one loop/gone.tacho 'SELECT * FROM loss' | tr '\n' ';')"
fi
exit $bad
