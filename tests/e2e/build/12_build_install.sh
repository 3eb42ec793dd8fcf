#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# `make install` into a staging folder gives a tacho that works from there: it finds its library and the engine; uninstall leaves
# nothing behind.
set -eu
stage=$(mktemp -d)
out=$(mktemp -d)
sanitizer=${SAN:-}
unset SAN
# the products are there: nothing may be built again by installing them
make O="$BUILD" CC="$CC" DESTDIR="$stage" PREFIX=/opt/tacho -o all install > "$out/log" 2>&1 || {
    cat "$out/log"
    exit 1
}
top=$stage/opt/tacho
for f in bin/tacho lib/libtacho.so libexec/tacho/train include/tacho_nvtx.h share/doc/tacho/README.md share/doc/tacho/LICENSE share/doc/tacho/SECURITY.md share/doc/tacho/docs/README.md \
    lib/tacho-python/sitecustomize.py lib/tacho-python/tacho_hook/__init__.py lib/tacho-python/tacho_hook/modules.py lib/tacho-python/tacho_hook/flops.py \
    share/bash-completion/completions/tacho share/zsh/site-functions/_tacho share/fish/vendor_completions.d/tacho.fish; do
    [ -f "$top/$f" ] || { echo "not installed: $f"; exit 1; }
done
# what makes defects harder to exploit (HARDEN): position-independent, all relocations done and read-only before main, no executable
# stack, checked copies; libtacho.so stays with libc alone (10_build_flags.sh)
if [ -z "$sanitizer" ] && ! grep -q 'HARDEN_CFLAGS :=$' "$BUILD/config.mk"; then
    for f in bin/tacho libexec/tacho/train lib/libtacho.so lib/libtacho_gemm.so lib/tacho-python/libtacho_hook.so; do
        readelf -Wl "$top/$f" | grep -q 'GNU_STACK.* RW ' || { echo "$f: executable stack"; exit 1; }
        readelf -Wl "$top/$f" | grep -q GNU_RELRO || { echo "$f: no RELRO"; exit 1; }
        readelf -d "$top/$f" | grep -q BIND_NOW || { echo "$f: bound when called"; exit 1; }
    done
    for f in bin/tacho libexec/tacho/train; do
        readelf -d "$top/$f" | grep -q 'Flags:.* PIE' || { echo "$f: fixed addresses"; exit 1; }
    done
    readelf -W --dyn-syms "$top/bin/tacho" | grep -q __stack_chk_fail || { echo "no stack protector"; exit 1; }
    readelf -W --dyn-syms "$top/lib/libtacho.so" | grep -q __stack_chk_fail || { echo "libtacho.so: no stack protector"; exit 1; }
    readelf -W --dyn-syms "$top/bin/tacho" | grep -q '__memcpy_chk\|__snprintf_chk' || { echo "no _FORTIFY_SOURCE"; exit 1; }
fi
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
