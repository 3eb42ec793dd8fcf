# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts about options that train refuses: sourced, not run. The script has `fail`.
# shellcheck shell=bash
# refuse CODE PATTERN ARGUMENTS: train ends with this code, says this, and hints at what to do
refuse() {
    local want=$1 pattern=$2
    shift 2
    "$TRAIN" "$@" > err 2>&1
    local code=$?
    [ $code = "$want" ] && grep -q "$pattern" err && grep -q '^hint: ' err || { cat err; fail "$*: exit $code, not $want with '$pattern'"; }
}
