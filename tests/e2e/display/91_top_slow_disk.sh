#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# patience: 3
# A disk that takes half a second for each read: the dashboard's first frame does not wait for it.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
[ -z "${SAN:-}" ] || { echo "sanitizers want to be loaded first"; exit 77; }
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
work_folder top-slow-disk
"$TRAIN" gpt2-tiny --help > /dev/null 2>&1 || { echo "needs the program train"; exit 77; }
export XDG_CONFIG_HOME=$work/config OMP_NUM_THREADS=1 TERM=xterm-256color LC_ALL=C.UTF-8
# shellcheck disable=SC2154 # work_folder sets it
"$TACHO" run -o run.tacho -- "$TRAIN" gpt2-tiny --data "$SRC/LICENSE" --steps 20 --batch 1 --seq 32 > "$work/out" 2>&1 || fail "no run: $(cat "$work/out")"
expect 4 "$TACHO" top run.tacho
grep -q 'built without ncurses' "$work/err" && { echo "built without ncurses"; exit 77; }

cat > slow.c << 'END_OF_C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>
static ssize_t slowly(const char *name, int fd, void *buffer, size_t bytes, off_t at)
{
    ssize_t (*read)(int, void *, size_t, off_t) = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, name);
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    return read(fd, buffer, bytes, at);
}
ssize_t pread(int fd, void *buffer, size_t bytes, off_t at)
{
    return slowly("pread", fd, buffer, bytes, at);
}
ssize_t pread64(int fd, void *buffer, size_t bytes, off_t at)
{
    return slowly("pread64", fd, buffer, bytes, at);
}
END_OF_C
# shellcheck disable=SC2086 # CC may be several words, as in "ccache gcc"
${CC:-gcc} -shared -fPIC -w -o slow.so slow.c -ldl || fail "the slow disk does not build"

cat > first.py << 'END_OF_PYTHON'
import fcntl, os, pty, select, signal, struct, sys, termios, time
pid, fd = pty.fork()
start = time.monotonic()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
seen = b""
while b"help" not in seen and time.monotonic() - start < 60:
    if select.select([fd], [], [], 0.2)[0]:
        seen += os.read(fd, 65536)
print("%d" % ((time.monotonic() - start) * 1000) if b"help" in seen else "none")
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
END_OF_PYTHON
first() { python3 first.py "$@"; }
quick=$(first "$TACHO" top run.tacho)
slow=$(first env LD_PRELOAD="$PWD/slow.so" "$TACHO" top run.tacho)
echo "first frame: $quick ms, from the slow disk: $slow ms"
[ "$quick" != none ] && [ "$slow" != none ] || fail "no frame"
[ "$slow" -lt $((quick + 1500)) ] || fail "the first frame waited for the disk"

# Without a screen it waits, so that a damaged file is refused on any disk.
head -c 5000 run.tacho > damaged.tacho
expect 3 env LD_PRELOAD="$PWD/slow.so" "$TACHO" top --batch -n 1 damaged.tacho
grep -q '^tacho: damaged.tacho: ' "$work/err" || fail "no word about the damaged file"
