#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Near relatives of files that tacho reads or refuses: each is read for what it is, or refused by its name.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
here=$(cd "$(dirname "$0")" && pwd)
work_folder
export XDG_CACHE_HOME=$PWD/cache
python3 "$here/kin.py" make made || fail "the files were not made"
rows_of() { "$TACHO" sql "$1" "$2" --csv | tail -n +2 | tr -d '\r"'; }
import() { # FILE RUN
    "$TACHO" import "made/$1" -o "$2" 2> err || fail "$1: $(cat err)"
}
is() { # WHAT FOUND WANTED
    [ "$2" = "$3" ] || fail "$1: not '$3' but '$2'"
}

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
exit 0
