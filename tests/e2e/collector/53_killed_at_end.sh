#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# A recorder is killed before each system call that its last second consists of: syncs, links, renames and removals. One file comes
# of it, with all events, under one name, in the mode of a finished file; 'recover' leaves nothing else, in the folder or in memory.
# The second time no links can be made, so that the file is copied to its name, as from another filesystem.
# shellcheck disable=SC2154 # variables of collector_common.sh
set -u
. "$(dirname "$0")/../kit/collector_common.sh"
[ -z "$SAN" ] || { echo "a sanitizer wants to be loaded first"; exit 77; }
cat > shim.c << 'X'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void turn(void)
{
    static int count;
    const char *at = getenv("KILL_AT"), *log = getenv("BEGUN");
    if (at && !strcmp(program_invocation_short_name, "tacho") && !access(log, F_OK) && ++count == atoi(at))
        kill(getpid(), SIGKILL);
}
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
int unlinkat(int folder, const char *name, int flags) { return turn(), REAL(unlinkat)(folder, name, flags); }
int fsync(int fd) { return turn(), REAL(fsync)(fd); }
int fdatasync(int fd) { return turn(), REAL(fdatasync)(fd); }
int renameat(int from, const char *a, int to, const char *b) { return turn(), REAL(renameat)(from, a, to, b); }
int renameat2(int from, const char *a, int to, const char *b, unsigned flags)
{
    return turn(), REAL(renameat2)(from, a, to, b, flags);
}
int linkat(int from, const char *a, int to, const char *b, int flags)
{
    turn();
    errno = EXDEV;
    return getenv("NO_LINKS") ? -1 : REAL(linkat)(from, a, to, b, flags);
}
X
${CC:-gcc} -shared -fPIC -o shim.so shim.c -ldl || { echo "cannot build the stand-in"; exit 77; }

# killed N: a recording that is killed before call N after its target ended, and what is made of it; fails where it was not killed
killed() {
    local at=$1 name=k$1 pools
    export BEGUN=$PWD/log KILL_AT=$at
    rm -f log
    bash -c 'LD_PRELOAD=$PWD/shim.so "$0" run --no-peak --no-counters --overhead 0 --sample-ms 0 --no-hook -o "$1" -- \
        "$2" --events 400 --log log; exit $?' "$TACHO" "$name" "$bin/target_events" > out 2> err
    [ $? = 137 ] || return 1
    unset KILL_AT
    pools=$(readlink "$name.tacho.live/segments")
    [ $((at % 2)) = 0 ] || [ ! -e "$name.tacho.live/run.db" ] || expect 0 "$TACHO" report "$name.tacho.live"
    expect 0 "$TACHO" recover "$name"
    expect 0 "$TACHO" report "$name.tacho"
    # a journal of the results that are saved at last is left where nothing was written into it, or the file not changed yet
    [ -n "$(head -c 1 "$name.tacho-journal" 2> /dev/null | tr -d '\0')" ] || rm -f "$name.tacho-journal"
    [ "$(echo "$name"*)" = "$name.tacho" ] || wrong "killed at call $at: $(echo "$name"*)"
    [ "$(od -An -tx1 -j18 -N2 "$name.tacho" | tr -d ' ')" = 0101 ] || wrong "killed at call $at: not the mode of a finished file"
    whole "$name.tacho"
    books "$name.tacho" log "killed at call $at" > books || cat books
    [ "$(losses "$name.tacho")" = 0 ] || wrong "killed at call $at: events lost"
    [ ! -e "$pools" ] || wrong "killed at call $at: pools are left: $(ls -A "$pools")"
    rm -rf "$name"*
    return 0
}
for links in yes no; do
    [ $links = yes ] || export NO_LINKS=1
    at=1
    while killed $at; do at=$((at + 1)); done
    [ $at -gt 10 ] || wrong "only $((at - 1)) calls: $(cat err)"
    echo "links $links: killed before each of $((at - 1)) calls"
    rm -rf k*
done
exit $bad
