#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Who may count on a GPU, as `tacho doctor` says it: a substitute driver, and its files in a namespace of this test's own. The driver
# asks for capabilities, so root without them (in a container) is no administrator.
set -u
# shellcheck source=tests/e2e/kit/gpu_common.sh
. "$(dirname "$0")/../kit/gpu_common.sh"
[ "$(id -u)" = 0 ] && unshare -m true 2> /dev/null || { echo "needs root, to give a driver's files to a namespace"; exit 77; }
command -v setpriv > /dev/null || { echo "needs the program setpriv"; exit 77; }

# doctor ADMIN-ONLY MODULE SETPRIV-OPTIONS...: the line `counters` of the GPU
doctor() {
    ADMIN=$1 MODULE=$2 unshare -m bash -c 'mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia && cd /proc/driver/nvidia || exit 9
        echo "NVRM version: NVIDIA UNIX $MODULE  Sat Nov  1 00:00:00 UTC 2025" > version
        [ -z "$ADMIN" ] || echo "RmProfilingAdminOnly: $ADMIN" > params
        cd /tmp && LD_LIBRARY_PATH="$1" exec setpriv "${@:3}" -- "$2" doctor --json' - "$fake" "$TACHO" "${@:3}" > rows.json 2> err ||
        bad "doctor $*" "failed: $(cat err)"
    python3 -c 'import json
row = [r for r in json.load(open("rows.json"))["checks"] if (r["group"], r["name"]) == ("gpu", "counters")]
print(row[0]["status"] + ": " + row[0]["text"] if row else "none")'
}
old="x86_64 Kernel Module  535.129.03" new="Open Kernel Module for x86_64  575.57.08" # as NVIDIA's two kinds of modules write it
drop="--bounding-set=-sys_admin,-perfmon --inh-caps=-sys_admin,-perfmon"
keep="--bounding-set=-sys_admin --inh-caps=-sys_admin"
user="--reuid=65534 --clear-groups"
# shellcheck disable=SC2086 # words
{
    expect root line "$(doctor 1 "$old" --no-new-privs)" "ok: for administrators only; this user is one"
    expect container line "$(doctor 1 "$new" $drop)" "denied: for administrators only (RmProfilingAdminOnly: 1)"
    expect perfmon line "$(doctor 1 "$new" $keep)" "ok: for administrators only; this user is one"
    expect 'perfmon, old driver' line "$(doctor 1 "$old" $keep)" "denied: for administrators only (RmProfilingAdminOnly: 1)"
    expect user line "$(doctor 1 "$new" $user)" "denied: for administrators only (RmProfilingAdminOnly: 1)"
    expect everybody line "$(doctor 0 "$new" $user)" "ok: for everybody"
    expect silent line "$(doctor '' "$new" $user)" "not supported: the driver does not say who may read its counters"
}
exit $fail
