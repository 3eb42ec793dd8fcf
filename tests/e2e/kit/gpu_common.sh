# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts about GPUs: sourced, not run. Leaves the caller in $TMPDIR; it ends with `exit $fail`.
# shellcheck shell=bash disable=SC2034
command -v sqlite3 > /dev/null || { echo "sqlite3 is not here"; exit 77; }
bin=$BUILD/tests/targets fake=$BUILD/tests/fake
fail=0
cd "$TMPDIR" || exit 1
bad() {
    echo "$1: $2"
    fail=1
}
expect() { # NAME WHAT ACTUAL WANTED
    [ "$3" = "$4" ] || bad "$1" "$2 is $3, not $4"
}
ask() { sqlite3 -readonly "$1.tacho" "$2"; }

# ---- a target on the substitute driver and CUPTI, and the log that the substitute keeps ----

# record NAME [ENV=VALUE]... -- RUN-OPTIONS -- TARGET-OPTIONS. Waits are recorded from the start unless TACHO_GPU is given.
record() {
    local name=$1 env=() options=()
    shift
    while [ "$1" != -- ]; do
        env+=("$1")
        shift
    done
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    env LD_LIBRARY_PATH="$fake" FAKE_LOG="$TMPDIR/$name.log" TACHO_TEST_LIBRARY="$LIBTACHO" TACHO_GPU=waits "${env[@]}" \
        "$TACHO" run --no-hook --no-peak --no-counters --overhead 0 -o "$name.tacho" "${options[@]}" -- "$bin/target_cuda" "$@" \
        > "$name.out" 2>&1
    echo $? > "$name.status"
    [ -f "$name.log" ] || : > "$name.log"
}
rows() { # NAME CATEGORY
    ask "$1" "SELECT count(*) FROM slice JOIN string ON string.id = category WHERE text = '$2'"
}
logged() { # NAME KIND [OWNER]
    awk -F '\t' -v k="$2" -v o="${3:-tool}" '$2 == o && $3 == k' "$1.log" | wc -l
}
losses() { # NAME PATTERN: counts of loss rows (NULL counts 1)
    ask "$1" "SELECT coalesce(sum(coalesce(count, 1)), 0) FROM loss WHERE reason LIKE '$2'"
}
# exact NAME: each record of the log is a row with its times
exact() {
    expect "$1" kernels "$(rows "$1" kernel)" "$(logged "$1" 10)"
    expect "$1" copies "$(rows "$1" memcpy)" "$(logged "$1" 1)"
    expect "$1" memsets "$(rows "$1" memset)" "$(logged "$1" 2)"
    expect "$1" "runtime calls" "$(rows "$1" runtime)" "$(logged "$1" 5)"
    expect "$1" "driver calls" "$(rows "$1" driver)" "$(logged "$1" 4)"
    expect "$1" waits "$(rows "$1" sync)" "$(logged "$1" 38)"
    expect "$1" losses "$(ask "$1" "SELECT count(*) FROM loss WHERE source IN ('agent', 'cupti')")" 0
    # CUPTI's clock is CLOCK_REALTIME here; anchors may be some tens of ns off
    awk -F '\t' '$3 == 10 && $2 == "tool" { print $1 "\t" $4 "\t" substr($6, 5) - substr($5, 5) }' "$1.log" | sort > "$1.want"
    ask "$1" "SELECT process.pid || char(9) || correlation || char(9) || dur FROM slice
        JOIN string ON string.id = category JOIN track ON track.id = track JOIN process ON process.id = track.process
        WHERE text = 'kernel'" | sort > "$1.got"
    awk -F '\t' 'NR == FNR { want[$1 FS $2] = $3; n++; next }
        !(($1 FS $2) in want) { odd++; next }
        { d = $3 - want[$1 FS $2]; if (d < -50 || d > 50) off++; seen++ }
        END { if (odd || off || seen != n) { print odd + 0 " unknown, " off + 0 " of another duration, " n - seen " missing"; exit 1 } }' \
        "$1.want" "$1.got" || bad "$1" "kernels differ"
}
