#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Where the agent cannot record (no space, no folder, no permission, limits), the target runs as without it, and what is lost is
# counted where there is a place to count it.
set -u
bin=$BUILD/tests/targets
fail=0
bad() {
    echo "$1"
    fail=1
}

# run FOLDER COMMAND...: exit status in $status; the target must not have been harmed
run() {
    local folder=$1
    shift
    rm -f "$TMPDIR/log"
    TACHO_SEGMENTS=$folder NVTX_INJECTION64_PATH=$LIBTACHO timeout 60 "$@" --log "$TMPDIR/log" > "$TMPDIR/out" 2>&1
    status=$?
    [ $status = 0 ] || bad "$folder: $*: exit status $status: $(head -n 3 "$TMPDIR/out")"
    [ -s "$TMPDIR/log" ] || bad "$folder: the target did not finish its books"
}
sum() { # issued and recorded + lost, event by event
    awk -F '\t' 'FILENAME ~ /log$/ { issued += 2 * $4 + $6 + 2 * $7 + $9; next }
        $1 == "thread" { found += 2 * $5 + $7 + $8 + $9 + $10 + $13 + $14 + $15 }
        $1 == "loss" && $3 !~ /^(STRING|PAYLOAD)/ { found += $4; if ($3 == want) hit = $4 }
        END { print issued, found, hit + 0 }' want="$1" "$TMPDIR/log" "$TMPDIR/dump"
}
check_sum() { # WHAT REASON
    "$bin/pool_dump" "$folder" > "$TMPDIR/dump" || bad "$1: malformed pool"
    read -r issued found hit < <(sum "$2")
    [ "$issued" = "$found" ] || bad "$1: issued $issued, recorded and lost $found"
    [ "$hit" -gt 0 ] || bad "$1: nothing was lost for $2"
    echo "ok  $1: $issued events, $hit lost for $2"
}

run /nonexistent/folder "$bin/target_events" --threads 2 --events 2000
run "$BUILD/libtacho.so" "$bin/target_events" --events 500
echo "ok  missing folder"

mkdir -p "$TMPDIR/closed" "$TMPDIR/open"
chmod 500 "$TMPDIR/closed"
if [ -w "$TMPDIR/closed" ]; then
    echo "skip read-only folder: this user may write everywhere"
else
    run "$TMPDIR/closed" "$bin/target_events" --events 2000
    echo "ok  read-only folder"
fi

# A process without a pool leaves one empty file, whose name says what it lost.
left_none() { # WHAT
    issued=$(awk -F '\t' '{ n += 2 * $4 + $6 + 2 * $7 + $9 } END { print n }' "$TMPDIR/log")
    set -- "$1" "$folder"/*
    [ $# = 2 ] && [ "${2##*.}" = "$issued" ] && [ ! -s "$2" ] || bad "$1: $issued events issued, left ${*:2}"
    rm -f "$folder"/none.*
}

# A limit on file sizes raises SIGXFSZ: the pool stays below it.
folder=$TMPDIR/open
(ulimit -f 9500 && run "$folder" "$bin/target_events" --threads 2 --events 20000 && exit $fail) || fail=1
check_sum "limit on file size" NO_SEGMENT
rm -f "$folder"/*
(ulimit -f 100 && run "$folder" "$bin/target_events" --events 1000 && exit $fail) || fail=1
left_none "limit below a pool"
if [ -z "$SAN" ]; then
    (ulimit -v 60000 && run "$folder" "$bin/target_events" --events 1000 && exit $fail) || fail=1
    left_none "limit on memory"
    echo "ok  limit on memory"
fi

mkdir -p "$TMPDIR/full"
if mount -t tmpfs -o size=1m tacho-test "$TMPDIR/full" 2> /dev/null; then
    trap 'umount "$TMPDIR/full"' EXIT
    folder=$TMPDIR/full
    run "$folder" "$bin/target_events" --threads 4 --events 20000
    check_sum "full disk" NO_SPACE
    rm -f "$folder"/*
    dd if=/dev/zero of="$folder/ballast" bs=64k 2> /dev/null
    run "$folder" "$bin/target_events" --threads 2 --events 2000
    rm "$folder/ballast"
    left_none "no space for a pool"
    dd if=/dev/zero of="$folder/ballast" bs=64k 2> /dev/null
    echo "ok  full disk from the start"
    # space comes back: the pool is made then, and tells what was lost before
    TACHO_SEGMENTS=$folder NVTX_INJECTION64_PATH=$LIBTACHO timeout 60 \
        "$bin/target_events" --rate 2000 --events 3000 --log "$TMPDIR/log2" &
    sleep 0.5
    rm "$folder/ballast"
    wait $! || bad "space comes back: target failed"
    mv "$TMPDIR/log2" "$TMPDIR/log"
    check_sum "space comes back" NO_SPACE
else
    echo "skip full disk: tmpfs cannot be mounted here"
fi
exit $fail
