/* SPDX-License-Identifier: Apache-2.0
 *
 * What hardware counters of GPUs are asked for, in the metric language of CUPTI's profiler: data
 * only. Chips differ in names and in what fits into one pass, so each quantity has candidates, best
 * first; the first that the chip knows and that still fits is taken.
 * tests/unit/agent/test_agent_gpu_host.c asks the profiler host interface of a real CUPTI, which
 * needs no GPU, what that gives for every chip that it knows; docs/gpu.md has the table.
 */
#ifndef TACHO_GPU_METRICS_H
#define TACHO_GPU_METRICS_H

#include <stddef.h>

#define GPU_METRIC_CANDIDATES 3

struct gpu_metric {
    const char *name, *unit; /* of the counter track */
    const char *candidate[GPU_METRIC_CANDIDATES];
};

#define GPU_PCT ".avg.pct_of_peak_sustained_elapsed"

/* Sampled over time on the whole device, in one pass: shares of the peak, bytes in an interval. */
static const struct gpu_metric gpu_pm_metrics[] = {
    {"pm_sm_active",
     "%",
     {"TPC.TriageCompute.sm__cycles_active" GPU_PCT, "sm__cycles_active" GPU_PCT}},
    {"pm_tensor_active",
     "%",
     {"TPC.TriageCompute.sm__pipe_tensor_cycles_active_realtime" GPU_PCT,
      "sm__pipe_tensor_cycles_active" GPU_PCT, "sm__inst_executed_pipe_tensor" GPU_PCT}},
    {"pm_dram_read", "%", {"dram__read_throughput" GPU_PCT}},
    {"pm_dram_write", "%", {"dram__write_throughput" GPU_PCT}},
    {"pm_instructions",
     "1/cycle",
     {"TPC.TriageCompute.sm__inst_executed_realtime.avg.per_cycle_elapsed",
      "sm__inst_executed.avg.per_cycle_elapsed"}},
    {"pm_pcie_read", "bytes", {"PCI.TriageCompute.pcie__read_bytes.sum", "pcie__read_bytes.sum"}},
    {"pm_pcie_write",
     "bytes",
     {"PCI.TriageCompute.pcie__write_bytes.sum", "pcie__write_bytes.sum"}},
    {"pm_nvlink_received",
     "bytes",
     {"NVLRX.TriageCompute.nvlrx__bytes_packet_response_data_user.sum", "nvlrx__bytes.sum"}},
    {"pm_nvlink_sent",
     "bytes",
     {"NVLTX.TriageCompute.nvltx__bytes_packet_request_data_user.sum", "nvltx__bytes.sum"}},
};
#define GPU_PM_METRICS (sizeof gpu_pm_metrics / sizeof *gpu_pm_metrics)

/* Counted over a whole step, in as many passes as they take, a pass a step: operations of the
 * matrix units by type of their sources, FP32 instructions of threads (an FMA is two operations),
 * bytes at each level, occupancy, why warps waited. */
static const struct gpu_metric gpu_range_metrics[] = {
    {"range_tensor_bf16", "op", {"sm__ops_path_tensor_src_bf16_dst_fp32.sum"}},
    {"range_tensor_fp16",
     "op",
     {"sm__ops_path_tensor_src_fp16.sum", "sm__ops_path_tensor_src_fp16_dst_fp32.sum"}},
    {"range_tensor_tf32", "op", {"sm__ops_path_tensor_src_tf32_dst_fp32.sum"}},
    {"range_tensor_fp8",
     "op",
     {"sm__ops_path_tensor_src_fp8.sum", "sm__ops_path_tensor_src_fp8_dst_fp32.sum",
      "sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp32.sum"}},
    {"range_fp32_fma", "instructions", {"sm__sass_thread_inst_executed_op_ffma_pred_on.sum"}},
    {"range_fp32_add", "instructions", {"sm__sass_thread_inst_executed_op_fadd_pred_on.sum"}},
    {"range_fp32_mul", "instructions", {"sm__sass_thread_inst_executed_op_fmul_pred_on.sum"}},
    {"range_dram_read", "bytes", {"dram__bytes_read.sum"}},
    {"range_dram_write", "bytes", {"dram__bytes_write.sum"}},
    {"range_l2", "bytes", {"lts__t_bytes.sum"}},
    {"range_l1", "bytes", {"l1tex__t_bytes.sum"}},
    {"range_time", "ns", {"gpu__time_duration.sum"}},
    {"range_occupancy", "%", {"sm__warps_active.avg.pct_of_peak_sustained_active"}},
    {"range_stall_memory",
     "warps",
     {"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"}},
    {"range_stall_barrier",
     "warps",
     {"smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio"}},
    {"range_stall_math",
     "warps",
     {"smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio"}},
    {"range_stall_wait",
     "warps",
     {"smsp__average_warps_issue_stalled_wait_per_issue_active.ratio"}},
};
#define GPU_RANGE_METRICS (sizeof gpu_range_metrics / sizeof *gpu_range_metrics)

#undef GPU_PCT

#endif
