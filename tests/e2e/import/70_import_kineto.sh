#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# Kineto imports of the shared traces against counts that Python makes from the JSON: rows, ns, correlations, details, names,
# two ranks as one run, names with anything in them, files cut off at 12 random places (1,000 in long_import_truncation.sh).
set -u
cd "$(dirname "$0")/../../.." || exit 1
BUILD=${BUILD:-$PWD/build}
TACHO=${TACHO:-$BUILD/tacho}
traces=${TACHO_TRACES:-../shared/traces}
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/tacho-import-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
run() { python3 tests/e2e/import/import_kineto.py "$@" || exit 1; }
run hostile "$TACHO" "$work"
[ -f "$traces/expected.json" ] || { echo "hostile names passed; the rest needs the folder of shared traces ($traces)"; exit 77; }
run exact "$traces" "$TACHO" "$work"
run folder "$traces" "$TACHO" "$work"
run salvage "$traces" "$BUILD/tests/bench/import" "$work" 12 "${SEED:-1}"
