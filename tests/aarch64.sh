#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the unit programs of a build for aarch64 under qemu-user, and prints a table of what passed, failed and was skipped, with
# the reasons. usage: tests/aarch64.sh BUILD SYSROOT [REGEX]
# `make check-aarch64` builds first. Exit status: 0 when nothing failed, 77 when a tool is missing.
set -u
cd "$(dirname "$0")/.." || exit 1

missing() { # WHAT HINT
    printf 'check-aarch64: skipped: %s\nhint: %s\n' "$1" "$2"
    exit 77
}
tools() { # SYSROOT
    command -v aarch64-linux-gnu-gcc > /dev/null && command -v aarch64-linux-gnu-g++ > /dev/null ||
        missing "no cross compiler" "install gcc-aarch64-linux-gnu and g++-aarch64-linux-gnu"
    command -v qemu-aarch64 > /dev/null || missing "no qemu-aarch64" "install qemu-user"
    [ -n "$1" ] && [ -e "$1/lib/ld-linux-aarch64.so.1" ] ||
        missing "no aarch64 libraries in '${1:-(SYSROOT is not set)}'" "'.ci/sysroot DIR' makes a folder of them; then 'make check-aarch64 SYSROOT=DIR'"
}
if [ "${1:-}" = --tools ]; then
    tools "${2:-}"
    exit 0
fi
build=${1:?BUILD} sysroot=${2:?SYSROOT}
tools "$sysroot"
export EMULATOR="qemu-aarch64 -L $sysroot" OMPI_MCA_btl_vader_single_copy_mechanism=none # qemu has no process_vm_readv
tests/run --unit "$build" "${3:-}"
rc=$?
echo
for log in $(cd "$build/tests/log" && find unit -type f | LC_ALL=C sort); do
    # the line before "SKIP" is what the test said; a program that skips as a whole says it in its own line
    awk -v name="${log#unit/}" '
        /^(not )?ok [0-9]+ # SKIP/ {
            skipped++
            said = before
            if (said == "" || said ~ /^1\.\./) { said = $0; sub(/.*# SKIP */, "", said) }
            if (!(said in seen)) { seen[said] = 1; why = why (why == "" ? "" : "; ") said }
            before = ""
            next
        }
        /^ok [0-9]/ { passed++ }
        /^not ok [0-9]/ { failed++; sub(/^not ok [0-9]+ - /, ""); why = why (why == "" ? "" : "; ") "FAILED " $0 }
        { before = $0 }
        END {
            if (!(passed + failed + skipped)) { failed = 1; why = "FAILED " before }
            printf "%-44s %4d passed %3d failed %3d skipped%s\n", name, passed, failed, skipped, why == "" ? "" : "  " why
        }' "$build/tests/log/$log"
done
exit $rc
