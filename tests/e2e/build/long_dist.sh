#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 1800
# `make dist`: the tarball alone, unpacked somewhere, records, reports, imports; nothing in it wants more than glibc 2.28, and
# nothing that it links is missing from a bare system.
set -u
[ -z "${SAN:-}" ] || { echo "the portable build has no sanitizers"; exit 77; }
make O="$BUILD" CC="$CC" dist > "$TMPDIR/log" 2>&1
rc=$?
if grep -q -e 'no zig compiler' -e 'no sources' -e "Debian's archive" -e 'no tclsh' "$TMPDIR/log"; then
    tail -n 3 "$TMPDIR/log"
    echo "what the portable build is made of could not be had"
    exit 77
fi
[ $rc = 0 ] || { tail -n 30 "$TMPDIR/log"; exit 1; }
tarball=$(ls "$BUILD"/dist/tacho-*-linux-x86_64.tar.gz) || exit 1
mkdir "$TMPDIR/away" && tar -xzf "$tarball" -C "$TMPDIR/away" || exit 1
top=$(echo "$TMPDIR"/away/tacho-*)
for f in tacho libtacho.so libtacho_gemm.so tacho-python/libtacho_hook.so tacho-python/sitecustomize.py tacho-python/tacho_hook/__init__.py README.md LICENSE INSTALL docs/README.md include/tacho_nvtx.h licenses/sqlite3 licenses/elfutils-LGPL-3 licenses/chart.js sbom.spdx.json; do
    [ -f "$top/$f" ] || { echo "not in it: $f"; exit 1; }
done
for f in "$top/tacho" "$top"/*.so "$top"/tacho-python/*.so; do
    version=$(objdump -T "$f" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -n 1)
    [ "$(printf '%s\n2.28\n' "$version" | sort -V | tail -n 1)" = 2.28 ] || { echo "$f wants glibc $version"; exit 1; }
    alien=$(objdump -p "$f" | awk '$1 == "NEEDED" { print $2 }' | grep -v -x -e 'lib\(c\|m\|dl\|rt\|pthread\)\.so\.[0-9]*' -e 'ld-linux-x86-64\.so\.2')
    [ -z "$alien" ] || { echo "$f needs $alien"; exit 1; }
    ! grep -qaF "$PWD/" "$f" || { echo "$f has paths of this machine in it"; exit 1; }
done
# the bill of materials names everything whose licence is included, and the wheel works where Python does
python3 - "$top" << 'PY' || exit 1
import json, os, sys

top = sys.argv[1]
named = {package["name"] for package in json.load(open(top + "/sbom.spdx.json"))["packages"]}
licences = {name for name in os.listdir(top + "/licenses") if not name.startswith("elfutils-")}
missing = {"libc++" if name in ("lib", "libcxx", "zig", "ziglang") else name for name in licences} - named
assert not missing, (missing, named)
PY
wheel=$(ls "$BUILD"/dist/tacho-*.whl) || exit 1
python3 -m venv "$TMPDIR/venv" && "$TMPDIR/venv/bin/pip" install -q --no-index "$wheel" || exit 1
"$TMPDIR/venv/bin/tacho" version | grep -q '^tacho ' || { echo "the wheel's tacho does not start"; exit 1; }
"$TMPDIR/venv/bin/tacho" run --no-peak -o "$TMPDIR/wheel" -- "$BUILD/tests/targets/target_events" > "$TMPDIR/out" 2>&1 || { cat "$TMPDIR/out"; exit 1; }
"$TMPDIR/venv/bin/pip" uninstall -qy tacho
[ -z "$(find "$TMPDIR/venv" -name '*tacho*')" ] || { echo "the wheel leaves files behind"; exit 1; }
# an environment with nothing of this build in it
cd "$TMPDIR" || exit 1
bare() { env -i PATH="$PATH" HOME="$TMPDIR" TMPDIR="$TMPDIR" "$@"; }
bare "$top/tacho" run --overhead 0 -o x.tacho -- "$BUILD/tests/targets/target_events" --threads 2 > out 2>&1 || { cat out; exit 1; }
bare "$top/tacho" report --json x.tacho > x.json || exit 1
[ "$(bare "$top/tacho" sql x.tacho 'SELECT count(*) FROM slice' | tail -n 1 | tr -d ' ')" -gt 0 ] || { echo "nothing recorded"; exit 1; }
bare "$top/tacho" run --gemm-shapes -o z.tacho -- true > out 2>&1 || { cat out; exit 1; }
! grep -q 'not recorded' out || { cat out; exit 1; }
# what optional libraries do: call stacks by unwind tables, charts, the screen of top without descriptions of terminals
for library in libpfm4 libdw ncurses; do
    bare "$top/tacho" version --verbose | grep -q "^$library: *yes" || { bare "$top/tacho" version --verbose; exit 1; }
done
bare "$top/tacho" report --html x.tacho > x.html && grep -q 'Chart\.js v' x.html || { echo "no Chart.js in the HTML report"; exit 1; }
if bare "$top/tacho" doctor | grep -q 'call stacks .*sampled'; then
    bare "$top/tacho" run --stacks --overhead 0 -o s.tacho -- "$BUILD/tests/targets/target_stacks" 300 > out 2>&1 || { cat out; exit 1; }
    [ "$(bare "$top/tacho" sql s.tacho 'SELECT max(depth) FROM (WITH RECURSIVE d(id, depth) AS (SELECT id, 1 FROM stack WHERE parent IS NULL UNION ALL SELECT s.id, depth + 1 FROM stack s JOIN d ON s.parent = d.id) SELECT depth FROM d)' | tail -n 1 | tr -d ' ')" -ge 3 ] ||
        { echo "call stacks end early"; exit 1; }
fi
if command -v tmux > /dev/null; then
    tmux -S "$TMPDIR/tmux" -f /dev/null new-session -d -x 90 -y 24 "env TERM=xterm-256color TERMINFO=/nowhere TERMINFO_DIRS=/nowhere '$top/tacho' top '$PWD/x.tacho'" || exit 1
    for ((i = 0; i < 50; i++)); do
        tmux -S "$TMPDIR/tmux" capture-pane -p > screen 2> /dev/null && grep -q x.tacho screen && break
        sleep 0.2
    done
    tmux -S "$TMPDIR/tmux" kill-server
    grep -q x.tacho screen || { echo "no screen of top:"; cat screen; exit 1; }
fi
traces=${TACHO_TRACES:-$SRC/../shared/traces}
trace=$(find "$traces" -maxdepth 2 -name '*.json.gz' -size -2000k 2> /dev/null | sort | head -n 1)
if [ -n "$trace" ]; then # compressed JSON: zlib, simdjson, SQLite, jansson, C++
    bare "$top/tacho" report --json "$trace" > imported.json || exit 1
    "$TACHO" report --json "$trace" > here.json || exit 1
    cmp -s imported.json here.json || { echo "another report than the normal build's:"; diff imported.json here.json | head -n 5; exit 1; }
fi
echo "note: $(($(wc -c < "$tarball") / 1024)) KiB$([ -n "$trace" ] || echo ', no trace here to import')"
