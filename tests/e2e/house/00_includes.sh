#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# The direction of includes holds, and the check that says so fails on each kind of wrong include.
set -eu
tests/lint/includes.sh

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cp -R CONTRIBUTING.md analyzers cli history include libtrain monitor planner profiler reports store tui tuner workloads "$tree"
tests/lint/includes.sh "$tree" > /dev/null

# plant FILE LINE: the check must fail with the file's name and pass again without the line
plant() {
    printf '%s\n' "$2" > "$tree/$1"
    if tests/lint/includes.sh "$tree" > "$tree/out"; then
        echo "not noticed: $2 in $1"
        exit 1
    fi
    if ! grep -q "^$1:1: " "$tree/out"; then
        echo "noticed, but elsewhere: $2 in $1"
        cat "$tree/out"
        exit 1
    fi
    rm "$tree/$1"
}
plant libtrain/planted.c '#include "store/store.h"'
plant libtrain/planted.c '#include "../store/store.h"'
plant store/planted.h '#  include "analyzers/result/result.h"'
plant analyzers/planted.c '#include "store/db.h"'
plant analyzers/planted.c '#include <sqlite3.h>'
plant reports/planted.c '#include "store/store.h"'
plant profiler/agent/planted.c '#include "profiler/collector/collector.h"'
plant workloads/planted.c '#include "profiler/wire.h"'
plant monitor/export/planted.c '#include "cli/base/message.h"'
plant monitor/planted.c '#include <microhttpd.h>'
plant store/planted.c '#include <tacho_error.h>'
plant store/planted.c '#include "nowhere.h"'

# a new room without a row may include nothing
sed -i '/^| `store/d' "$tree/CONTRIBUTING.md"
if tests/lint/includes.sh "$tree" > /dev/null; then
    echo "not noticed: a room without a row"
    exit 1
fi
