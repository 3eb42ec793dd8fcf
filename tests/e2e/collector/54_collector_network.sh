#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Output on a network filesystem (played by a statfs that says NFS of one folder, and a link that fails there as across filesystems):
# the live folder is local, the finished file is copied to its place.
# shellcheck disable=SC2154,SC2034 # variables of collector_common.sh
set -u
. "$(dirname "$0")/../kit/collector_common.sh"
[ -z "${SAN:-}" ] || { echo "sanitizers want to be loaded first"; exit 77; }
mkdir remote tmp
cat > nfs.c <<'X'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>
static int remote(const char *path)
{
    return strstr(path, "/remote") != NULL;
}
int statfs(const char *path, struct statfs *s)
{
    int (*real)(const char *, struct statfs *) = (int (*)(const char *, struct statfs *))dlsym(RTLD_NEXT, "statfs");
    int rc = real(path, s);
    if (rc == 0 && remote(path))
        s->f_type = 0x6969;
    return rc;
}
int link(const char *from, const char *to)
{
    int (*real)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "link");
    if (remote(from) != remote(to)) {
        errno = EXDEV;
        return -1;
    }
    return real(from, to);
}
X
${CC:-gcc} -shared -fPIC -o nfs.so nfs.c -ldl || { echo "cannot build the stand-in"; exit 77; }
remote=(env TMPDIR="$work/tmp" LD_PRELOAD="$work/nfs.so" "$TACHO")

"${remote[@]}" run --no-peak -o remote/far -- "$bin/target_events" --threads 2 --events 3000 --rate 3000 --log log > out 2> err &
pid=$!
wait_for test -e remote/far.tacho.live/run.db
[ -L remote/far.tacho.live ] || wrong "the live folder is on the network filesystem"
wait $pid || wrong "exit code: $(cat err)"
whole remote/far.tacho
[ ! -L remote/far.tacho.live ] || wrong "the link is left"
[ -z "$(ls -A tmp)" ] || wrong "left behind: $(ls tmp)"
books remote/far.tacho log "network filesystem"

# its collector dies: the link leads recover to what is left
"${remote[@]}" run --no-peak -o remote/dead -- "$bin/target_events" --threads 2 --events 6000 --rate 4000 --log log2 > out 2> err &
pid=$!
wait_for test -s remote/dead.tacho.live/run.db
sleep 0.5
kill -KILL $pid
wait $pid 2> /dev/null
expect 0 "${remote[@]}" recover remote/dead.tacho.live
whole remote/dead.tacho
[ -z "$(ls -A tmp)" ] || wrong "left behind: $(ls tmp)"
books remote/dead.tacho log2 "recovered from a network filesystem"
exit $bad
