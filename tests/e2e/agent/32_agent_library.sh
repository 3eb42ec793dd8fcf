#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# What libtacho.so is as a library: needs libc alone, exports the loaders' symbols alone, stays loaded, has little static TLS, and
# leaves alone a program that is not being recorded.
set -u
fail=0
bad() {
    echo "$1"
    fail=1
}
command -v readelf > /dev/null && command -v nm > /dev/null || { echo "readelf and nm are not here"; exit 77; }

if [ -n "$SAN" ]; then
    echo "skip NEEDED and exports: sanitizers add theirs"
else
    needed=$(readelf -d "$LIBTACHO" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc\.so|libpthread\.so|ld-linux)')
    [ -z "$needed" ] || bad "needs $needed"
    # the driver, NVTX and NCCL look for these; the Python hook calls the last two
    exports=$(nm -D --defined-only "$LIBTACHO" | awk '{ print $3 }' | sort | tr '\n' ' ')
    wanted="InitializeInjection InitializeInjectionNvtx InitializeInjectionNvtx2 InitializeInjectionNvtxExtension ncclProfiler_v1 \
ncclProfiler_v2 ncclProfiler_v3 ncclProfiler_v4 ncclProfiler_v5 ncclProfiler_v6 tacho_device_profiler tacho_recording_paused "
    [ "$exports" = "$wanted" ] || bad "exports $exports"
    # static TLS of a library loaded late comes out of a small reserve
    tls=$(($(readelf -lW "$LIBTACHO" | awk '$1 == "TLS" { print $6 }')))
    [ "$tls" -le 16 ] || bad "$tls bytes of static TLS"
fi
readelf -d "$LIBTACHO" | grep -q NODELETE || bad "can be unloaded"

# loaded without $TACHO_SEGMENTS: no file, no mapping of a pool, target as ever
(cd "$TMPDIR" && env -u TACHO_SEGMENTS NVTX_INJECTION64_PATH="$LIBTACHO" "$BUILD/tests/targets/target_events" --events 200) ||
    bad "a target that is not recorded fails"
[ -z "$(ls "$TMPDIR")" ] || bad "a target that is not recorded leaves $(ls "$TMPDIR")"
# a program without NVTX does not even load it
mkdir "$TMPDIR/segments"
TACHO_SEGMENTS=$TMPDIR/segments NVTX_INJECTION64_PATH=$LIBTACHO "$BUILD/tests/targets/target_plain" --ms 5 || bad "plain target fails"
[ -z "$(ls "$TMPDIR/segments")" ] || bad "a program without NVTX leaves $(ls "$TMPDIR/segments")"
# others cannot read what is recorded
TACHO_SEGMENTS=$TMPDIR/segments NVTX_INJECTION64_PATH=$LIBTACHO "$BUILD/tests/targets/target_events" --events 10
mode=$(stat -c %a "$TMPDIR"/segments/pool.*)
[ "$mode" = 600 ] || bad "pool has mode $mode"
exit $fail
