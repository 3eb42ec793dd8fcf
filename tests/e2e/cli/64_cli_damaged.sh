#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# A real recording, damaged in many places: report and sql may refuse it, or read around the damage, but they never crash, hang,
# or leave without a word.
set -u
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder damaged
expect 0 "$TACHO" run -o good --no-peak -- "$TRAIN" gpt2-tiny --steps 15
size=$(stat -c %s good.tacho)
RANDOM=${SEED:-4711}
random() { R=$(((RANDOM * 32768 + RANDOM) % $1)); } # not in a subshell, which would start over with another seed
refused=0 read=0
check() { # WHAT COMMAND...
    local what=$1 rc
    shift
    timeout 120 "$@" > "$work/out" 2> "$work/err" < /dev/null
    rc=$?
    case $rc in
    0) read=$((read + 1)) ;;
    3 | 4)
        refused=$((refused + 1))
        grep -q '^tacho: bad.tacho: \|"what":"bad.tacho: ' "$work/err" || fail "$what: refused without a word: $(cat "$work/err")"
        ;;
    *)
        cp bad.tacho "${KEEP:-$work}/crash.tacho"
        fail "$what: exit code $rc of $*: $(head -c 2000 "$work/err")"
        ;;
    esac
}
for i in $(seq "${ROUNDS:-60}"); do
    cp good.tacho bad.tacho
    case $((i % 5)) in
    0) # cut off
        random "$size"
        at=$R
        truncate -s "$at" bad.tacho
        what="cut at $at"
        ;;
    1) # one byte anywhere
        random "$size"
        at=$R
        random 256
        printf '%b' "\\x$(printf %02x "$R")" | dd of=bad.tacho bs=1 seek="$at" conv=notrunc 2> /dev/null
        what="byte at $at"
        ;;
    2) # a page of zeros
        random $((size / 4096))
        at=$R
        dd if=/dev/zero of=bad.tacho bs=4096 count=1 seek="$at" conv=notrunc 2> /dev/null
        what="page $at zeroed"
        ;;
    3) # 64 bytes of noise at the head of a page
        random $((size / 4096))
        at=$R
        noise=
        for _ in $(seq 32); do
            random 65536
            noise+=$(printf '\\x%02x\\x%02x' $((R >> 8)) $((R & 255)))
        done
        printf '%b' "$noise" | dd of=bad.tacho bs=1 seek=$((at * 4096 + (at == 0 ? 100 : 0))) conv=notrunc 2> /dev/null
        what="noise in page $at"
        ;;
    4) # values that no recorder writes
        random 60
        column=$(sqlite3 good.tacho "SELECT m.name || '|' || c.name FROM sqlite_master m, pragma_table_info(m.name) c
            WHERE m.type = 'table' AND c.pk = 0 AND c.\"notnull\" = 0 AND c.type <> 'BLOB' ORDER BY 1 LIMIT 1 OFFSET $R")
        random 9
        value=$(printf '%s\n' -1 0 NULL 9223372036854775807 -9223372036854775807 4611686018427387904 "'text'" 1e300 "x'00'" | sed -n "$((1 + R))p")
        [ -n "$column" ] || continue
        sqlite3 bad.tacho "UPDATE \"${column%|*}\" SET \"${column#*|}\" = $value WHERE rowid % 3 = 0" 2> /dev/null ||
            sqlite3 bad.tacho "UPDATE \"${column%|*}\" SET \"${column#*|}\" = $value"
        what="$column = $value"
        ;;
    esac
    check "$what" "$TACHO" report bad.tacho
    check "$what" "$TACHO" report bad.tacho --json
    # a dashboard without a screen says at once that there is no analysis
    [ $((i % 5)) != 2 ] || check "$what" "$TACHO" top --batch -n 1 bad.tacho
    check "$what" "$TACHO" sql bad.tacho 'SELECT count(*), max(dur), max(length(text)) FROM slice LEFT JOIN string ON string.id = name'
done
# one letter of the name of a column: the file is damaged, which is not an error inside of tacho
for name in flops frame correlation t1 samples value; do
    LC_ALL=C sed "s/\b$name \(INTEGER\|REAL\)/${name%?}_ \1/" good.tacho > bad.tacho
    ! cmp -s good.tacho bad.tacho && [ "$(stat -c %s bad.tacho)" = "$size" ] || fail "column $name: nothing was changed"
    for command in report 'top --batch -n 1' advise; do
        # shellcheck disable=SC2086 # words
        check "column $name" "$TACHO" $command bad.tacho
    done
done
[ $refused -gt 5 ] || fail "only $refused of $((read + refused)) noticed"
echo "note: $refused refused, $read read"
