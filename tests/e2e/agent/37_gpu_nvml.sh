#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# What NVIDIA's management library says, from a substitute (tests/targets/fake_nvml.c): counters with units on the machine's tracks;
# what a GPU does not tell has no row, and a reason.
set -u
# shellcheck source=tests/e2e/kit/gpu_common.sh
. "$(dirname "$0")/../kit/gpu_common.sh"
value() { # NAME DEVICE TRACK
    ask "$1" "SELECT DISTINCT value || ' ' || unit FROM counter JOIN track ON track.id = track WHERE device = '$2' AND name = '$3' AND process IS NULL"
}
record() {
    local name=$1
    shift
    env LD_LIBRARY_PATH="$BUILD/tests/fake" "$@" "$TACHO" run --no-hook --no-peak --no-counters --sample-ms 50 -o "$name.tacho" -- \
        sleep 1.5 > "$name.out" 2>&1
    expect "$name" status $? 0
}
record all FAKE_NVML=
expect all power "$(value all gpu:0 gpu_power)" "250.0 W"
expect all "power of the second" "$(value all gpu:1 gpu_power)" "251.0 W"
expect all clock "$(value all gpu:0 gpu_clock_sm)" "1980.0 MHz"
expect all throttling "$(value all gpu:0 gpu_throttle_reasons)" "4.0 bits"
expect all memory "$(value all gpu:0 gpu_memory_used)" "10737418240.0 bytes"
expect all "memory temperature" "$(value all gpu:0 gpu_temperature_memory)" "61.0 C"
expect all nvlink "$(value all gpu:0 gpu_nvlink_rx)" "1024000.0 bytes"
expect all "tensor units" "$(value all gpu:0 gpu_tensor_active)" "25.0 %"
# faults: links that are up, errors that ECC could not correct, remapped rows; the place on the bus
expect all "links that are up" "$(value all gpu:0 gpu_nvlink_active)" "12.0 links"
expect all "ECC errors" "$(value all gpu:0 gpu_ecc_uncorrected)" "2.0 errors"
expect all "remapped rows" "$(value all gpu:0 gpu_remapped_rows)" "4.0 rows"
expect all "links of one that has none" "$(ask all "SELECT value FROM run WHERE key = 'nvml.1.gpu_nvlink_active'")" "not supported"
expect all "place on the bus" "$(ask all "SELECT value FROM run WHERE key = 'nvml.1.pci'")" "0000:c1:00.0"
# a counter of energy: 300 W
watts=$(ask all "SELECT round((max(value) - min(value)) / (max(time) - min(time)) * 1e9) FROM counter JOIN track ON track.id = track WHERE name = 'gpu_energy'")
expect all "energy a second" "$watts" 300.0
expect all "energy of one that has none" "$(value all gpu:1 gpu_energy)" ""
expect all "and why" "$(ask all "SELECT value FROM run WHERE key = 'nvml.1.gpu_energy'")" "not supported"
expect all "GPM of one that has none" "$(ask all "SELECT value FROM run WHERE key = 'nvml.1.gpu_sm_active'")" "not supported"
expect all "a unit it does not count" "$(ask all "SELECT value FROM run WHERE key = 'nvml.0.gpu_fp64_active'")" "not supported"
expect all uuid "$(ask all "SELECT value FROM run WHERE key = 'nvml.0.uuid'")" "GPU-00112233-4455-6677-8899-aabbccddeeff"
n=$(ask all "SELECT count(*) FROM counter JOIN track ON track.id = track WHERE name = 'gpu_power' AND device = 'gpu:0'")
[ "$n" -ge "$([ -n "${TIMING:-}" ] && echo 15 || echo 3)" ] || { echo "all: $n readings of power in 1.5 s at 50 ms"; fail=1; }
record denied FAKE_NVML=denied
expect denied power "$(value denied gpu:0 gpu_power)" ""
expect denied "and why" "$(ask denied "SELECT value FROM run WHERE key = 'nvml.0.gpu_power'")" denied
record dead FAKE_NVML=dead
expect dead tracks "$(ask dead "SELECT count(*) FROM track WHERE name LIKE 'gpu_%'")" 0
exit $fail
