# SPDX-License-Identifier: Apache-2.0
"""Runs a script under torch.profiler, as its documentation shows it, and writes the table of operators.

usage: profiled.py TABLE SCRIPT [ARGUMENT...]       (beside.py; of several ranks the first one writes)
"""

import os
import runpy
import sys

from torch.profiler import ProfilerActivity, profile

table = sys.argv[1]
sys.argv = sys.argv[2:]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit:
        pass
if os.environ.get("RANK", "0") == "0":
    with open(table, "w") as file:
        file.write(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=15, max_name_column_width=40))
