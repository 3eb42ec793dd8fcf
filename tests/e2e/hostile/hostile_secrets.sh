#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# timeout: 300
# Records every kind of secret of secrets.tsv, in arguments and in the environment, and looks for its bytes in every file that the
# recording leaves; also in the live folder and its pools while children run that have secrets in their own command lines.
set -u
. "$(dirname "$0")/../kit/cli_common.sh"
table=$here/secrets.tsv
work_folder secrets
run=("$TACHO" run --no-hook --no-peak --no-counters --overhead 0 --sample-ms 0)
kinds=0 stored=0 line_number=0
# ROUNDS: that many kinds, taken evenly; the unit test of the recorder's redaction takes all of them
all=$(grep -c -e '^argument' -e '^environment' "$table")
rounds=$((${ROUNDS:-150} < all ? ${ROUNDS:-150} : all))

# search WHAT SECRET FILE...: is it in one of the files?
search() {
    local found
    found=$(grep -raFl -- "$2" "${@:3}") || return 0
    stored=$((stored + 1))
    echo "FAIL: $1: '$2' is in $found"
}

mkdir bin runs
while read -r program; do
    ln -s "$(type -P true)" "bin/$program"
done < <(awk -F '\t' '$1 == "argument" { print $3 }' "$table" | grep -x '[A-Za-z0-9_.-]*' | sort -u)
while IFS= read -r line; do
    mapfile -t -d $'\t' field < <(printf '%s' "$line")
    case ${field[0]} in argument | environment) ;; *) continue ;; esac
    line_number=$((line_number + 1))
    [ $((line_number * rounds / all)) -gt "$kinds" ] || continue
    words=()
    for word in "${field[@]:2}"; do
        printf -v word '%b' "$word"
        words+=("$word")
    done
    set -- env "${words[@]}" "${run[@]}" -o runs/x -- "$(type -P true)"
    [ "${field[0]}" = environment ] || set -- env PATH="$PWD/bin:$PATH" "${run[@]}" -o runs/x -- "${words[@]}"
    "$@" > "$work/out" 2> "$work/err" < /dev/null
    [ -f runs/x.tacho ] || fail "no recording of $line: $(cat "$work/err")"
    [ "$(sqlite3 runs/x.tacho "SELECT count(*) FROM run WHERE key IN ('command', 'environment')")" = 2 ] || fail "no command: $line"
    kinds=$((kinds + 1))
    search "$line" "${field[1]}" runs
    rm -f runs/x.tacho
done < "$table"

# ---- children, their titles, and what lies on disk while they run
secret=Xq7hunter2Zw
"${run[@]}" --sample-ms 10 --stacks -o runs/live -- bash -c "export HF_TOKEN=$secret; (exec -a 'child --token $secret' sleep 60) & echo ready > go
    (exec -a 'curl -u bob:$secret' sleep 60) & while [ ! -e stop ]; do sleep 0.05; done; kill %1 %2; wait" > /dev/null 2>&1 &
for ((i = 0; i < 600; i++)); do [ -e go ] && [ -d runs/live.tacho.live ] && break; sleep 0.05; done
sleep 0.5
segments=$(readlink -f runs/live.tacho.live/segments)
search "while it records" "$secret" runs/live.tacho.live ${segments:+"$segments"}
: > stop
wait
[ -f runs/live.tacho ] || fail "no recording of children"
search "children" "$secret" runs

# ---- without the command line
"${run[@]}" --no-command -o runs/none -- sh -c "true $secret plainword" 2> /dev/null || fail "--no-command"
search "--no-command" plainword runs
[ "$(sqlite3 runs/none.tacho "SELECT count(*) FROM run WHERE key = 'command'")" = 0 ] || fail "--no-command stored a command"
"$TACHO" report runs/none.tacho > "$work/out" 2>&1 || fail "report without a command: $(cat "$work/out")"

echo "hostile: secrets | $kinds rounds | $stored stored"
[ "$stored" = 0 ] && [ "$kinds" -gt 0 ]
