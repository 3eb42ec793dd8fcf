#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The folders of tests/unit that test what commits of the last day changed, one a line: of the day before the newest commit, so that
# a later run of the same revision says the same. All of them where git has no history here.
cd "$(dirname "$0")/.." || exit 1
all() { find tests/unit -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort; }
newest=$(git show --no-patch --format=%ct HEAD 2> /dev/null) || { all; exit; }
git log --since=$((newest - 86400)) --format= --name-only HEAD | sed -n -E '
    s!^tests/unit/([a-z]+)/.*!\1!p
    s!^(analyzers|cli|history|libtrain|monitor|planner|reports|store|tui|tuner)/.*!\1!p
    s!^profiler/agent/.*|^include/.*!agent!p
    s!^profiler/.*!collector!p
    s!^workloads/.*!libtrain!p' | sort -u
