#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# train says what is wrong and what to do: exit 2 for a wrong command line, 3 for bad input; nothing is left half-written.
# shellcheck disable=SC2086  # options that are lists of words
set -u
dir=$(mktemp -d)
fails=0
quick="--layers 1 --channels 32 --heads 2 --seq 16 --batch 2 --steps 2"

# expect CODE 'words in the message' COMMAND...
expect() {
    local code=$1 words=$2
    shift 2
    "$@" > "$dir/out" 2> "$dir/err"
    local got=$?
    if [ $got != "$code" ] || ! grep -qe "$words" "$dir/err" || ! grep -q '^train: ' "$dir/err" || ! grep -q '^hint: ' "$dir/err"; then
        echo "FAIL: $*: exit $got, expected $code with '$words'; it said:"
        cat "$dir/err"
        fails=$((fails + 1))
    fi
}

expect 2 'no recipe' "$TRAIN"
expect 2 'nonsense: no such recipe' "$TRAIN" nonsense
expect 2 'unknown option --bogus' "$TRAIN" gpt2-tiny --bogus
expect 2 'unknown option --bogus' "$TRAIN" gpt2-tiny --bogus=3
expect 2 '--steps needs a value' "$TRAIN" gpt2-tiny --steps
expect 2 '--steps -4' "$TRAIN" gpt2-tiny --steps -4
expect 2 '--steps 3x' "$TRAIN" gpt2-tiny --steps 3x
expect 2 '--lr nan' "$TRAIN" gpt2-tiny --lr nan
expect 2 'unexpected argument more' "$TRAIN" gpt2-tiny more
expect 2 'do not divide' "$TRAIN" gpt2-tiny --heads 3
expect 2 '--backend abacus' "$TRAIN" gpt2-tiny --backend abacus
expect 3 'no/such/file: No such file' "$TRAIN" gpt2-tiny --data no/such/file
: > "$dir/empty"
expect 3 'empty: no bytes' "$TRAIN" gpt2-tiny --data "$dir/empty"
printf 'short' > "$dir/short"
expect 3 '5 bytes of text are too few' "$TRAIN" gpt2-tiny --data "$dir/short"
head -c 3000 "$SRC/LICENSE" > "$dir/text"
# threads that wait spin for a short time, unless the caller says how
spins() { OMP_DISPLAY_ENV=verbose env "$@" "$TRAIN" gpt2-tiny $quick --data "$dir/text" 2>&1 | sed -n "s/.*GOMP_SPINCOUNT = '\([0-9]*\)'.*/\1/p" | tail -n 1; }
case "$(spins -u OMP_WAIT_POLICY) $(spins OMP_WAIT_POLICY=passive)" in
"2000 0" | " ") ;; # nothing: not libgomp
*) echo "FAIL: threads spin: $(spins -u OMP_WAIT_POLICY)"; fails=$((fails + 1)) ;;
esac
expect 3 'held out for evaluation are too few' "$TRAIN" gpt2-tiny --data "$dir/text" --eval-every 1 --eval-share 0.01
expect 3 'text: not a checkpoint' "$TRAIN" gpt2-tiny $quick --data "$dir/text" --resume "$dir/text"
expect 3 'nowhere: No such file' "$TRAIN" gpt2-tiny $quick --data "$dir/text" --resume "$dir/nowhere"
expect 3 'no/folder/c: No such file' "$TRAIN" gpt2-tiny $quick --data "$dir/text" --checkpoint "$dir/no/folder/c"
expect 3 'no/folder/t: No such file' "$TRAIN" gpt2-tiny $quick --data "$dir/text" --timers "$dir/no/folder/t"

# before the run, not behind it
for option in --checkpoint --timers; do
    for place in "$dir/no/folder/x" "$dir" "$dir/text/x" ''; do
        code=3
        [ -n "$place" ] || code=2
        words='irectory$' # which of its kinds of trouble
        [ -n "$place" ] || words='an empty name'
        expect $code "$words" "$TRAIN" gpt2-tiny $quick --data "$dir/text" $option "$place"
        grep -q '^step' "$dir/out" && { echo "FAIL: $option $place: refused only behind the training"; fails=$((fails + 1)); }
    done
done
expect 2 'checkpoint-every: no --checkpoint' "$TRAIN" gpt2-tiny $quick --data "$dir/text" --checkpoint-every 1
expect 2 'hidden is for mlp' "$TRAIN" gpt2-tiny $quick --data "$dir/text" --hidden 3
expect 3 'empty: no bytes' "$TRAIN" mlp --data "$dir/empty"
grep -q text "$dir/err" && { echo "FAIL: mlp asks for text"; fails=$((fails + 1)); }
# more than any machine of today has: refused before it takes memory
expect 5 'not enough memory: 1 rank here needs [0-9.]* GiB, this machine has [0-9.]* GiB left' \
    "$TRAIN" gpt2-1558M --layers 4096 --channels 16000 --heads 25 --data "$dir/text"

"$TRAIN" gpt2-tiny $quick --data "$dir/text" --checkpoint "$dir/c" > /dev/null || fails=$((fails + 1))
expect 3 'c: holds another model' "$TRAIN" gpt2-tiny $quick --channels 64 --data "$dir/text" --resume "$dir/c"
"$TRAIN" gpt2-tiny $quick --data "$dir/text" --resume "$dir/c" | grep -q 'nothing is left to do' || { echo "FAIL: nothing left, not said"; fails=$((fails + 1)); }
cp "$dir/c" "$dir/long" && echo more >> "$dir/long"
expect 3 'long: damaged (longer' "$TRAIN" gpt2-tiny $quick --data "$dir/text" --resume "$dir/long"
expect 3 'Is a directory' "$TRAIN" gpt2-tiny $quick --data "$dir/text" --resume "$dir"
truncate -s -5 "$dir/c"
expect 3 'c: damaged' "$TRAIN" gpt2-tiny $quick --data "$dir/text" --resume "$dir/c"

# every option in the list is one that the program takes, and every default it prints is one it accepts
"$TRAIN" --help all > "$dir/help" || fails=$((fails + 1))
for name in gpt2-tiny gpt2-124M gpt2-1558M; do
    grep -q "^  $name " "$dir/help" || { echo "FAIL: --help does not list $name"; fails=$((fails + 1)); }
done
# the short help fits a screen and lists what the long one lists, with the same defaults; --help=all, -h and a word that it does not know
"$TRAIN" --help > "$dir/brief" || fails=$((fails + 1))
[ "$(wc -l < "$dir/brief")" -le 40 ] && [ "$(awk 'length > 80' "$dir/brief" | wc -l)" = 0 ] ||
    { echo "FAIL: the short help is $(wc -l < "$dir/brief") lines, or wider than 80 columns"; fails=$((fails + 1)); }
for name in gpt2-tiny llama-1.1B resnet50; do
    grep -q " $name\b" "$dir/brief" || { echo "FAIL: the short help does not name $name"; fails=$((fails + 1)); }
done
for option in --steps --dtype --workers --layout --resume --device; do
    grep -q "^  $option " "$dir/brief" || { echo "FAIL: the short help does not list $option"; fails=$((fails + 1)); }
done
sed -n 's/^  \(--[a-z0-9-]*\) .*(default \([^ )]*\)).*/\1 \2/p' "$dir/brief" | while read -r option default; do
    grep -q "^  $option .*(default $default)" "$dir/help" || echo "$option $default"
done > "$dir/differ"
[ ! -s "$dir/differ" ] || { echo "FAIL: other defaults in the long help: $(cat "$dir/differ")"; fails=$((fails + 1)); }
"$TRAIN" -h | cmp -s - "$dir/brief" && "$TRAIN" --help=all | cmp -s - "$dir/help" && "$TRAIN" gpt2-tiny --help all | cmp -s - "$dir/help" ||
    { echo "FAIL: -h, --help=all"; fails=$((fails + 1)); }
expect 2 "only 'all' may follow" "$TRAIN" --help=most
sed -n 's/^  \(--[a-z0-9-]*\)[ [].*/\1/p' "$dir/help" | sort -u > "$dir/options"
[ "$(wc -l < "$dir/options")" -ge 60 ] || { echo "FAIL: --help lists few options"; fails=$((fails + 1)); }
while read -r option; do
    case $option in --help) continue ;; esac
    grep -qF -e "\`$option" -e "$option " -e "$option\`" "$SRC/docs/engine.md" || { echo "FAIL: docs/engine.md does not name $option"; fails=$((fails + 1)); }
done < "$dir/options"
sed -n 's/^  \(--[a-z0-9-]*\) .*(default \([^ /)]*\)).*/\1 \2/p' "$dir/help" > "$dir/defaults"
[ "$(wc -l < "$dir/defaults")" -ge 15 ] || { echo "FAIL: --help lists few defaults"; fails=$((fails + 1)); }
read -r -d '' -a defaults < "$dir/defaults"
"$TRAIN" gpt2-tiny --data "$dir/text" "${defaults[@]}" $quick > /dev/null || { echo "FAIL: defaults refused"; fails=$((fails + 1)); }
# the growth of a small model is the library's: no percentage of it
"$TRAIN" gpt2-tiny $quick --data "$dir/text" | grep -q '^memory: .* grew by [0-9.]* MiB\(, [0-9.]* of them code and mapped files\)\{0,1\}$' ||
    { echo "FAIL: the last line"; fails=$((fails + 1)); }
"$TRAIN" --version | grep -q '^train [0-9]' || fails=$((fails + 1))
[ -z "$(find "$dir" -name '*.tmp')" ] || { echo "FAIL: a temporary file was left"; fails=$((fails + 1)); }
[ $fails = 0 ]
