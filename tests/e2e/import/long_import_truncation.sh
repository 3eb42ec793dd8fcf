#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 3600
# Every shared Kineto trace, plain and gz, cut off at 1,000 random places each: what is salvaged is what was whole.
set -u
cd "$(dirname "$0")/../../.." || exit 1
BUILD=${BUILD:-$PWD/build}
traces=${TACHO_TRACES:-../shared/traces}
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
[ -f "$traces/expected.json" ] || { echo "needs the folder of shared traces ($traces)"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/tacho-import-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
python3 tests/e2e/import/import_kineto.py salvage "$traces" "$BUILD/tests/bench/import" "$work" 1000 "${SEED:-$(date +%s)}"
