#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# Kineto imports of shared traces (of every one in long_import_kineto.sh) against counts that Python makes from the JSON: rows, ns,
# correlations, details, names, two ranks as one run, names with anything in them, files cut off at 4 random places (1,000 in
# long_import_truncation.sh).
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
# one of each kind: old and new names of PyTorch, AMD's, times in ns, no operators
few='_workers_4_|mi250|b200|ns_resolution|alexnet'
[ -z "${EVERY_TRACE:-}" ] || few=.
run exact "$traces" "$few" "$TACHO" "$work" "$BUILD/tests/bench/import" 4 "${SEED:-1}"
run folder "$traces" "$TACHO" "$work"
