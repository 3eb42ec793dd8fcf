#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# No notes to oneself, merge marks or private paths in the tree; a licence line in each source.
exec tests/lint/marks.sh
