/* SPDX-License-Identifier: Apache-2.0
 *
 * The system layer: what /proc says about the processes of the run and the machine, sampled into
 * counter tracks.
 *
 * A process with a pool, and the direct child, have tracks of their own (cpu_time ns; of its first
 * thread thread_time and cpu_wait ns, in which it ran and waited for a core; rss bytes, rss_anon
 * bytes, minor_faults, major_faults, voluntary_switches, involuntary_switches, disk_read bytes,
 * disk_written bytes, threads: totals since its start, but rss, rss_anon and threads; rss_anon is
 * RssAnon + RssShmem, what is not a mapped file). Where its control groups limit it: cpu_throttled
 * ns added up over CPUs, memory_limit_hits and oom_kills; by the pressure of its own group
 * memory_stall_some and memory_stall_full ns. The run keys process.P.cpu_quota (cores, or "none")
 * and process.P.memory_limit_bytes have the limits. The other descendants are summed
 * (other_cpu_time, other_rss). The machine has cpu_busy %, memory_available bytes, disk_read and
 * disk_written bytes, memory_stall_some and memory_stall_full ns, swap_in and swap_out bytes since
 * it was started, on tracks without process. Switches are read every tenth time, because each
 * thread has a file of its own. A source that cannot be read becomes a loss row with the reason,
 * once.
 */
#ifndef COL_SYSTEM_H
#define COL_SYSTEM_H

#include "profiler/collector/drain/drain.h"

struct col_system;

int col_system_open(struct col_system **out);
/* Takes one sample; writes into the open transaction of the drain. 0 or a store error. */
int col_system_sample(struct col_system *system, struct col_drain *drain);
/* The store was rolled back: rows written so far may be gone. */
void col_system_reset(struct col_system *system);
void col_system_close(struct col_system *system);

#endif
