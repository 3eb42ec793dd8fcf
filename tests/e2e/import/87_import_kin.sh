#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Near relatives of files that tacho reads or refuses: each is read for what it is, or refused by its name.
set -u
# shellcheck source=tests/e2e/kit/import_common.sh
. "$(dirname "$0")/../kit/import_common.sh"
make_files kin.py

# TensorFlow 1: a stream is a stream of its GPU, copies are no kernels, nothing counts twice, and the file is one step
operations="SELECT n.text, c.text, t.device, t.tid, s.start - (SELECT min(start) FROM slice), dur FROM slice s JOIN track t ON t.id = s.track
    JOIN string n ON n.id = s.name JOIN string c ON c.id = s.category WHERE t.device IS NOT NULL ORDER BY start"
import tf115.json tf115.tacho
is "streams of TensorFlow 1.15" "$(rows_of tf115.tacho "$operations" | tr '\n' ' ')" \
    'Memcpy HtoD,memcpy,gpu:0,2,20000,10000 gemm(float const*),kernel,gpu:0,1,40000,50000 '
is "its operators" "$(rows_of tf115.tacho "SELECT n.text, c.text, dur FROM slice s JOIN track t ON t.id = s.track JOIN string n ON n.id = s.name
    JOIN string c ON c.id = s.category WHERE t.device IS NULL ORDER BY start" | tr '\n' ' ')" '_Arg,op,5000 MatMul,op,20000 Relu,op,5000 '
is "its step" "$(rows_of tf115.tacho 'SELECT count(*), min("end" - start) FROM step')" 1,90000
is "its GPU" "$(rows_of tf115.tacho "SELECT value FROM run WHERE key LIKE 'device.%.gpu:0.name'")" 'Tesla P4'
is "its programs" "$(rows_of tf115.tacho "SELECT count(*) FROM process")" 1
"$TACHO" report tf115.tacho --full > out || fail "no report of TensorFlow 1"
! grep -qi 'jax' out || fail "advice of JAX for TensorFlow 1: $(grep -i jax out)"
import tf112.json tf112.tacho
is "streams of TensorFlow 1.12" "$(rows_of tf112.tacho "$operations" | tr '\n' ' ')" \
    'MatMul,kernel,gpu:1,13,40000,50000 Memcpy DtoH,memcpy,gpu:1,13,95000,5000 '
import tf_all.json tf_all.tacho
is "all streams as one" "$(rows_of tf_all.tacho "$operations" | tr '\n' ' ')" 'Memcpy HtoD,memcpy,gpu:0,0,20000,10000 MatMul,kernel,gpu:0,0,40000,50000 '

# rocmProfileData: what its monitor sampled
import monitor.rpd monitor.tacho
is "clocks of two GPUs" "$(rows_of monitor.tacho "SELECT t.device, t.name, t.unit, count(*), min(value), max(value) FROM counter c
    JOIN track t ON t.id = c.track GROUP BY 1, 2" | tr '\n' ' ')" 'gpu:0,sclk,MHz,3,500,502 gpu:1,sclk,MHz,3,600,602 '

# a folder: ranks run at the same time and in a job of several, captures of other times or runs are no ranks
apart() { # FOLDER WORDS
    for verb in "report made/$1" "import made/$1 -o apart.tacho"; do
        # shellcheck disable=SC2086  # words
        "$TACHO" $verb > out 2> err
        [ $? = 2 ] || fail "$verb: not exit status 2: $(cat out err)"
        grep -q "^tacho: made/$1: [23] captures that are not ranks of one run: $2" err || fail "$verb: $(cat err)"
        grep -q "^hint: give ${3:-one of these files}" err || fail "$verb: $(cat err)"
    done
    [ ! -e apart.tacho ] || fail "$1: a file was left"
}
apart times 'they were made at different times: sub/trace_0.json, sub/trace_1.json, sub/trace_2.json$'
apart alone 'each is of a job of one process: trace_0.json, trace_1.json, trace_2.json$'
apart tables 'they were made at different times: decode_hip_api_trace.csv, prefill_hip_api_trace.csv$'
apart gaps 'they were made at different times: gpu0.json, gpu2.json, gpu5.json$'
apart cycles 'they were made at different times: rank0.json, rank1.json$' 'one cycle'
! grep -q 'name them' err || fail "ranks that are named get other names: $(cat err)"
# names number ranks, and say the rank where a trace knows of one process; clocks of other hosts, and a launcher without devices, say nothing
for folder in once named job late late_nodes late_pids alone_named booted launcher; do
    import $folder $folder.tacho
    is "ranks of $folder" "$(rows_of $folder.tacho "SELECT rank FROM process ORDER BY 1" | tr '\n' ' ')" '0 1 2 '
done
import hosts hosts.tacho
import beside beside.tacho
"$TACHO" import made/times/sub/*.json -o given.tacho 2> err || fail "files that are given: $(cat err)"
is "ranks that are given" "$(rows_of given.tacho "SELECT rank FROM process ORDER BY 1" | tr '\n' ' ')" '0 1 2 '

# event files: are the steps epochs? Those of one folder are of one program; CatBoost leaves the version out
for folder in "epochs: its steps are epochs" "named: its steps are epochs" "maybe: its steps may be epochs" steps quick boost; do
    import "board_${folder%%:*}" "board_${folder%%:*}.tacho"
    more=${folder#"${folder%%:*}"}
    is "the steps of ${folder%%:*}" "$(rows_of "board_${folder%%:*}.tacho" "SELECT value FROM run WHERE key = 'steps.marked_by'")" "log of TensorBoard$more"
done
"$TACHO" report board_epochs.tacho > out || fail "no report of epochs"
tr '\n' ' ' < out | grep -q 'its steps are epochs' || fail "the report does not say epochs: $(cat out)"
import board_again again.tacho

# an empty trace is refused, and is no rank of a folder
for file in nothing spans; do
    refused 3 $file.json 'an empty trace: none of its [0-9]* entries says when something ran'
done
import half half.tacho
is "slices beside an empty trace" "$(rows_of half.tacho "SELECT count(*), (SELECT count(*) FROM loss) FROM slice")" 2,1

# refusals by name
for file in ref.prof shared.prof plain.pstats flat.out dump.prof; do
    refused 4 $file 'this is a cProfile file'
done
refused 4 dldb.sqlite 'this is a database of DLProf'
refused 4 cluster_step_trace_time.csv 'a table of sums of steps of an Ascend NPU'
refused 4 step_trace_time.csv 'a table of sums of steps of an Ascend NPU'
refused 4 plugin.jsonl 'a log of a profiler plugin of NCCL'
refused 4 switch.jsonl 'a list of context switches (bpftrace)'
refused 4 probes.json 'the output of bpftrace'
while IFS=$'\t' read -r k what; do
    refused 4 "relative_$k" "this is $what"
done < made/relatives
exit 0
