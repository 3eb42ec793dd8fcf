#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A real recording, spoilt in every way of hostile_files.py: every command that reads a run ends within 5 s of processor time and
# 2 GiB of address space, with exit 0 or with a message and the exit code of bad input; never by a signal, never as an internal error.
# parallel: yes
# timeout: 3600
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
script=$here/hostile_files.py
work_folder hostile-files
# shellcheck source=tests/e2e/kit/hostile_common.sh
. "$here/../kit/hostile_common.sh"
rounds=${ROUNDS:-34} seed=${SEED:-$((RANDOM % 1000))}

data=/usr/share/common-licenses
[ -d "$data" ] || data=$SRC/LICENSE
OMP_NUM_THREADS=1 "$TACHO" run -o good.tacho --no-peak --overhead 0 --stacks -- "$TRAIN" gpt2-tiny --steps 20 --layers 2 --channels 64 \
    --heads 2 --batch 2 --seq 64 --workers 2 --slow decode=0.2 --data "$data" > log 2>&1 || fail "recording: $(tail -3 log)"
sqlite3 good.tacho "INSERT INTO ceiling VALUES ('cpu', 'memory', 'fp32', 1e10, 'measured'); INSERT INTO edge VALUES (1, 2, 'wait')"
"$TACHO" run -o other.tacho --no-peak --overhead 0 -- true > log 2>&1 || fail "another recording: $(tail -3 log)"

mapfile -t kinds < <(python3 "$script" kinds)
for ((round = 0; round < rounds; round++)); do
    cp good.tacho bad.tacho
    kind=${kinds[round % ${#kinds[@]}]}
    what=$(python3 "$script" spoil bad.tacho "$kind" $((seed + round / ${#kinds[@]})))
    case $? in
    0) read_all bad.tacho "$what" ;;
    77) ;;
    *) fail "not spoilt: $what" ;;
    esac
    rm -f bad.tacho*
done
echo "seed $seed; commands: $commands, refused with a message: $refused"
echo "hostile: damaged and malicious .tacho files | $rounds rounds | $commands commands, $wrong_ends crashed, hung or said nothing"
[ "$wrong_ends" = 0 ]
