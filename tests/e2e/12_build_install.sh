#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# `make install` into a staging folder gives a tacho that works from there: it finds its library and the engine; uninstall leaves
# nothing behind.
set -eu
stage=$(mktemp -d)
out=$(mktemp -d)
unset SAN
# the products are there: nothing may be built again by installing them
make O="$BUILD" CC="$CC" DESTDIR="$stage" PREFIX=/opt/tacho -o all install > "$out/log" 2>&1 || {
    cat "$out/log"
    exit 1
}
top=$stage/opt/tacho
for f in bin/tacho lib/libtacho.so libexec/tacho/train include/tacho_nvtx.h share/doc/tacho/README.md share/doc/tacho/LICENSE share/doc/tacho/docs/README.md \
    share/bash-completion/completions/tacho share/zsh/site-functions/_tacho share/fish/vendor_completions.d/tacho.fish; do
    [ -f "$top/$f" ] || { echo "not installed: $f"; exit 1; }
done
! command -v scdoc > /dev/null || [ -f "$top/share/man/man1/tacho-run.1" ] || { echo "no manual page"; exit 1; }
cd "$out"
"$top/bin/tacho" version > /dev/null
"$top/bin/tacho" train gpt2-tiny --steps 3 > "$out/log" 2>&1 || {
    cat "$out/log"
    exit 1
}
ls ./*.tacho > /dev/null
cd "$SRC"
make O="$BUILD" CC="$CC" DESTDIR="$stage" PREFIX=/opt/tacho uninstall > /dev/null
left=$(find "$stage" -type f -o -type l)
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
