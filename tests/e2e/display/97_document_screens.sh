#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Screens in the README and in docs/ are what tacho prints: those of traces letter by letter, those of programs that the pages show in
# what does not depend on the machine, and all others in the words of the reports. Pages that were spoilt are refused.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
"$TRAIN" gpt2-tiny --help > /dev/null 2>&1 || { echo "needs the program train"; exit 77; }
work_folder screens
export OMP_NUM_THREADS=1
"$SRC/.ci/screens.py" "$BUILD" --check runs > checked 2>&1 || fail "$(cat checked)"
cat checked

# ---- what the check is for
cp -R "$SRC/docs" "$SRC/README.md" .
sed -i 's/^ 1  INPUT_STALL  / 1  INPUT_WAIT   /' docs/howto/pytorch.md
sed -i 's/load batches in workers:/load batches by workers:/' README.md
sed -i 's/^ data wait  / waiting    /' docs/howto/annotate-c.md
sed -i 's/^What to change/What to do/' docs/howto/ddp-torchrun.md
sed -i 's/+20 %  in backward/+21 %  in backward/' docs/howto/slow-rank.md
sed -i 's/ · 2 cores · 37 steps/ · 37 steps/' docs/howto/annotate-python.md
SCREENS_SOURCE=$PWD "$SRC/.ci/screens.py" "$BUILD" --check runs > spoilt 2>&1 && fail "spoilt screens are taken"
for words in "pytorch.md: no finding is called INPUT_WAIT" "README.md: INPUT_STALL no longer says" "annotate-c.md: no longer rows" \
    "ddp-torchrun.md: nothing is called 'What to do'" "slow-rank.md: its screen is now" "annotate-python.md: begins with"; do
    grep -q "$words" spoilt || fail "not found: $words ($(cat spoilt))"
done
exit 0
