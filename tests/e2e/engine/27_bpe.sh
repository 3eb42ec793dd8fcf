#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# train bpe: a tokenizer learned from real text, training on text that it cuts, and on the shard that it wrote: the same losses.
# Shards read by another program's rules. What is refused, and that nothing half-written stays.
# shellcheck disable=SC2086  # options that are lists of words
set -u
dir=$(mktemp -d)
fail() {
    echo "FAIL: $*"
    exit 1
}
data=$SRC/LICENSE
quick="--layers 1 --channels 32 --heads 2 --seq 16 --batch 2 --steps 8 --log-every 1"
losses() {
    # shellcheck disable=SC2086
    "$TRAIN" gpt2-tiny $quick "$@" 2>&1 | sed -n 's/.*\(loss [0-9.]*  norm [0-9.]*\).*/\1/p'
}

"$TRAIN" bpe --data "$data" --vocab 600 -o "$dir/tokenizer" > "$dir/out" || fail "train bpe"
grep -q '600 tokens from' "$dir/out" || { cat "$dir/out"; fail "what it says"; }
"$TRAIN" bpe --data "$data" --vocab 600 --output "$dir/again" > "$dir/out" && cmp -s "$dir/tokenizer" "$dir/again" || fail "not the same twice"
"$TRAIN" bpe --encode --tokenizer "$dir/tokenizer" --data "$data" -o "$dir/shard.bin" > "$dir/out" || fail "--encode"
cat "$dir/out"
tokens=$(sed -n 's/.*: \([0-9]*\) tokens of 600 .*/\1/p' "$dir/out")
# magic, version, count as llm.c has them; 2 bytes a token behind 1024
[ "$(od -An -t d4 -N 12 "$dir/shard.bin" | tr -s ' ')" = " 20240520 1 $tokens" ] || fail "the shard's header"
[ "$(stat -c %s "$dir/shard.bin")" = $((1024 + 2 * tokens)) ] || fail "the shard's size"
[ "$tokens" -lt $(($(stat -c %s "$data") / 2)) ] || fail "600 tokens do not halve the text: $tokens"

losses --data "$data" --tokenizer "$dir/tokenizer" --vocab 600 > "$dir/a"
[ "$(wc -l < "$dir/a")" = 8 ] || fail "no losses with --tokenizer"
losses --data "$dir/shard.bin" --vocab 600 --workers 2 --worker-kind processes > "$dir/b"
cmp -s "$dir/a" "$dir/b" || fail "text and shard differ"
"$TRAIN" bpe --encode --data "$data" -o "$dir/bytes.bin" > /dev/null || fail "--encode without a tokenizer"
losses --data "$data" > "$dir/a"
losses --data "$dir/bytes.bin" --format tokens > "$dir/b"
cmp -s "$dir/a" "$dir/b" || fail "bytes as text and as a shard differ"

expect() { # CODE WORDS COMMAND...
    local code=$1 words=$2
    shift 2
    "$@" > "$dir/out" 2>&1
    local got=$?
    [ $got = "$code" ] && grep -qe "$words" "$dir/out" && grep -q '^train: ' "$dir/out" && grep -q '^hint: ' "$dir/out" ||
        { cat "$dir/out"; fail "$*: exit $got"; }
}
expect 2 'no -o' "$TRAIN" bpe --data "$data"
expect 2 '--vocab 70000' "$TRAIN" bpe --vocab 70000 -o "$dir/x"
expect 2 '--vocab 12' "$TRAIN" bpe --vocab 12 -o "$dir/x"
expect 2 'unknown option' "$TRAIN" bpe --nonsense -o "$dir/x"
expect 2 'unexpected argument' "$TRAIN" bpe -o "$dir/x" more
expect 2 'tokenizer goes with --encode' "$TRAIN" bpe --tokenizer "$dir/tokenizer" -o "$dir/x"
expect 3 'no/folder: No such file' "$TRAIN" bpe --data "$data" -o "$dir/no/folder"
expect 3 'no/folder: No such file' "$TRAIN" bpe --encode --data "$data" -o "$dir/no/folder"
expect 3 'not a tokenizer' "$TRAIN" bpe --encode --tokenizer "$data" --data "$data" -o "$dir/x"
# shellcheck disable=SC2086
{
    expect 2 'the data has 600 different tokens, the model.s vocabulary 256' "$TRAIN" gpt2-tiny $quick --data "$data" --tokenizer "$dir/tokenizer"
    expect 3 'token [0-9]* is [0-9]*, the model.s vocabulary has 256' "$TRAIN" gpt2-tiny $quick --data "$dir/shard.bin"
    expect 2 'hold tokens already' "$TRAIN" gpt2-tiny $quick --data "$dir/shard.bin" --tokenizer "$dir/tokenizer"
    expect 3 'nowhere: No such file' "$TRAIN" gpt2-tiny $quick --data "$data" --tokenizer "$dir/nowhere"
    sed '5s/^/1/' "$dir/tokenizer" > "$dir/damaged"
    expect 3 'damaged: ' "$TRAIN" gpt2-tiny $quick --data "$data" --tokenizer "$dir/damaged"
    head -n 40 "$dir/tokenizer" > "$dir/cut"
    expect 3 'cut: 344 merges, no merge in line 41' "$TRAIN" gpt2-tiny $quick --data "$data" --tokenizer "$dir/cut"
    head -c 3000 "$dir/shard.bin" > "$dir/cut.bin"
    expect 3 "cut.bin: says $tokens tokens" "$TRAIN" gpt2-tiny $quick --data "$dir/cut.bin"
    # a checkpoint belongs to its tokens: another tokenizer is other data
    "$TRAIN" gpt2-tiny $quick --data "$data" --tokenizer "$dir/tokenizer" --vocab 600 --checkpoint "$dir/checkpoint" > /dev/null || fail "checkpoint"
    "$TRAIN" bpe --data "$data" --vocab 500 -o "$dir/other" > /dev/null || fail "another tokenizer"
    expect 3 'written by a run on other data' "$TRAIN" gpt2-tiny $quick --data "$data" --tokenizer "$dir/other" --vocab 600 --resume "$dir/checkpoint"
}
# Ctrl-C while a shard is written: nothing is left of it, and the older file is as it was
for _ in $(seq 400); do cat "$data"; done > "$dir/much"
for _ in $(seq 10); do cat "$dir/much"; done > "$dir/more"
echo older > "$dir/kept"
for signal in INT TERM; do
    # a job in the background of a script ignores SIGINT unless it is told not to
    python3 -c 'import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])' \
        "$TRAIN" bpe --encode --tokenizer "$dir/tokenizer" --data "$dir/more" -o "$dir/kept" > "$dir/out" 2>&1 &
    pid=$!
    until [ -s "$dir/kept.tmp" ] || ! kill -0 $pid 2> /dev/null; do sleep 0.01; done
    [ -s "$dir/kept.tmp" ] || { cat "$dir/out"; fail "nothing written before the signal"; }
    # a second writer of the same file is refused and does not touch it
    expect 3 'kept.tmp: another run is writing it' "$TRAIN" bpe --vocab 300 --data "$data" -o "$dir/kept"
    [ -e "$dir/kept.tmp" ] || fail "the second writer removed the first one's file"
    kill -$signal $pid
    wait $pid
    code=$?
    case $signal in TERM) want=143 ;; INT) want=130 ;; esac
    [ $code = $want ] || { cat "$dir/out"; fail "SIG$signal: exit $code, expected $want"; }
    [ ! -e "$dir/kept.tmp" ] && [ "$(cat "$dir/kept")" = older ] || fail "SIG$signal left kept.tmp or changed kept"
done
rm "$dir/much" "$dir/more"
[ -z "$(find "$dir" -name '*.tmp')" ] || fail "a temporary file was left"
[ ! -e "$dir/x" ] || fail "a refused command wrote its output"
rm -rf "$dir"
