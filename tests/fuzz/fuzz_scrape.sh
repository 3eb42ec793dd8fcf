#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Seeds of fuzz_scrape: the samples of a watch in both texts. usage: fuzz_scrape.sh TRACES OUT
set -u
mkdir -p "$2"
printf '%s\n' '# TYPE tacho_last_step_index gauge' 'tacho_last_step_index{run="r"} 100' 'tacho_rank_work_seconds{run="r",rank="0"} 0.5' \
    'tacho_rank_progress_age_seconds{run="r",rank="0"} 1e9' 'tacho_progress_bound_seconds{run="r"} 60' 'tacho_run_ended{run="r"} 0' > "$2/text"
printf '%s\n' 'tacho_stalled{run="a\"b\\c\n"} 1 1700000000' 'tacho_alerts_active{run="r",code="X",severity="page"} 2 # {file="f"} 1 2' \
    'tacho_step_time_seconds_bucket{run="r",le="+Inf"} 3' '# EOF' > "$2/openmetrics"
