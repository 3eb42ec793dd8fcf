/* SPDX-License-Identifier: Apache-2.0
 *
 * For test_rep_*.c: a result of an accelerator run, made by hand: two devices, all tables, names
 * that kernels really have and names that try to break out. Static storage.
 */
#ifndef REP_GPU_H
#define REP_GPU_H

#include <string.h>

#include "analyzers/result/result.h"
#include "store/store.h"

#define GPU_ELEMENTWISE \
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, " \
    "at::detail::Array<char*, 3> " \
    ">(int, " \
    "at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)"
#define GPU_HOSTILE "\x1b[31mkernel</script>\n<b>\xe2\x80\xae"

static inline struct an_budget gpu_budget(int64_t shift)
{
    struct an_budget b = {.step_ns = 1000000000, .steps = 10, .roles_known = true};
    const int64_t ns[AN_CLASS_COUNT] = {[AN_CLASS_COMPUTE] = 550000000 - shift,
                                        [AN_CLASS_COMM] = 200000000 + shift,
                                        [AN_CLASS_COPY] = 30000000,
                                        [AN_CLASS_INPUT] = 120000000,
                                        [AN_CLASS_HOST] = 90000000,
                                        [AN_CLASS_UNATTRIBUTED] = 10000000};
    for (int k = 0; k < AN_CLASS_COUNT; k++) {
        b.ns[k] = an_int(ns[k]);
        b.pct[k] = an_num((double)ns[k] / 1e7);
    }
    b.ns[AN_CLASS_BUBBLE] = an_int_none("no pipeline stages were recorded");
    b.pct[AN_CLASS_BUBBLE] = an_num_none("no pipeline stages were recorded");
    return b;
}

static inline struct an_gpu_device gpu_device(int64_t rank, const char *name)
{
    return (struct an_gpu_device){.rank = rank,
                                  .process = rank + 1,
                                  .device = rank,
                                  .label = rank ? "gpu:1" : "gpu:0",
                                  .name = name,
                                  .host = "",
                                  .ops = 10300,
                                  .streams = 4,
                                  .span_ns = an_int(1234567891234),
                                  .busy_ns = an_int(1134567891234),
                                  .compute_ns = an_int(900000000001),
                                  .comm_ns = an_int(300000000000),
                                  .copy_ns = an_int(40000000000),
                                  .exposed_comm_ns = an_int(200000000000),
                                  .exposed_copy_ns = an_int(34567891233),
                                  .opaque_ns = an_int(0),
                                  .idle_ns = an_int(100000000000),
                                  .compute_sum_ns = an_int(950000000001),
                                  .comm_sum_ns = an_int(300000000000),
                                  .copy_sum_ns = an_int(40000000000),
                                  .overlap_pct = an_num(33.3333),
                                  .blocking_proven_ns = an_int(150000000000),
                                  .blocking_inferred_ns = an_int(20000000000),
                                  .blocking_unknown_ns = an_int(30000000000),
                                  .absent_launch_starved_ns = an_int(60000000000),
                                  .absent_blocked_ns = an_int(230000000000),
                                  .absent_dispatch_ns =
                                      an_int_none("the trace has no launch calls"),
                                  .absent_dependency_ns = an_int(44567891233)};
}

static const struct an_absent_cause gpu_causes[] = {
    {"input", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 30000000, 60},
    {"framework", "aten::copy_", 15000000, 30},
    {"think", "", 5000000, 10}};

/* Why a device does not compute; `known`: its launches are in the file. */
static inline struct an_absent gpu_absent(int64_t rank, bool known)
{
    const char *none = "no launch of this device's ops is in the file";
    struct an_absent x = {.rank = rank,
                          .device = an_int(rank),
                          .window = "steps 4-13",
                          .steps = 10,
                          .window_ns = 1000000000,
                          .absent_ns = 450000000,
                          .unlinked_ns = known ? an_int(10000000) : an_int_none(none),
                          .after_wait_ns = known ? an_int(20000000) : an_int_none(none),
                          .causes = known ? gpu_causes : NULL,
                          .cause_count = known ? 3 : 0,
                          .causes_reason = known ? NULL : none};
    const int64_t part[AN_ABSENT_PARTS] = {50000000, 320000000, 40000000, 40000000};
    for (int k = 0; k < AN_ABSENT_PARTS; k++) {
        x.part_ns[k] = known ? an_int(part[k]) : an_int_none(none);
        for (int i = 0; i < AN_OCCUPANTS; i++)
            x.occupied_ns[k][i] = known ? an_int(part[k] / AN_OCCUPANTS) : an_int_none(none);
    }
    for (int k = 0; k < AN_BLOCKING_COUNT; k++)
        x.blocking_ns[k] = an_int(90000000 - k * 30000000);
    return x;
}

static inline struct an_op gpu_op(const char *name, const char *category, int64_t count,
                                  int64_t total)
{
    return (struct an_op){.name = name,
                          .category = category,
                          .kind = "",
                          .pass = "",
                          .count = count,
                          .total_ns = total,
                          .self_ns = total,
                          .min_ns = an_int(total / count - 1000),
                          .max_ns = an_int(total / count + 1000),
                          .mean_us = an_num((double)total / (double)count / 1e3),
                          .sd_us = an_num(0.5),
                          .share_pct = an_num((double)total / 1e10),
                          .flops_per_s = an_num_none("kernels carry no FLOPs"),
                          .bytes_per_s = an_num_none("kernels carry no bytes"),
                          .flops = an_int_none("kernels carry no FLOPs"),
                          .bytes = an_int_none("kernels carry no bytes")};
}

static inline void gpu_tables(struct an_result *r)
{
    static struct an_op ops[8];
    static struct an_launch_row launches[] = {{"cudaLaunchKernel", 9000, 45000000},
                                              {"cudaGraphLaunch", 12, 9000000}};
    static struct an_copy_row copies[3];
    static struct an_sync_row syncs[2];
    static struct an_precision_row precision[] = {{"fp32", 400, 500000000, false, true},
                                                  {"bf16", 600, 200000000, true, true},
                                                  {"unknown", 9, 100000000, false, false}};
    static struct an_attribution_row rows[3];
    static struct an_roofline_point points[2];
    static char long_name[10001];
    memset(long_name, 'k', sizeof long_name - 1);
    ops[0] = gpu_op("ampere_sgemm_128x64_nn", "kernel", 1000, 400000000000);
    ops[1] = gpu_op(GPU_ELEMENTWISE, "kernel", 3000, 200000000000);
    ops[2] =
        gpu_op("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
               "kernel", 60, 300000000000);
    ops[3] = gpu_op("Memcpy HtoD (Pageable -> Device)", "memcpy", 20, 40000000000);
    ops[4] = gpu_op("Memset (Device)", "memset", 5, 5000000);
    ops[5] = gpu_op(GPU_HOSTILE, "kernel", 2, 4000);
    ops[6] = gpu_op(long_name, "kernel", 2, 4000);
    ops[7] = gpu_op("aten::mm", "op", 1000, 90000000000);
    r->ops = ops;
    r->op_count = sizeof ops / sizeof *ops;
    r->ops_window = "the whole trace";
    r->launches = (struct an_launches){.calls = 9012,
                                       .matched = 9000,
                                       .graphs = 12,
                                       .host_mean_us = an_num(5.99),
                                       .delay_mean_us = an_num(41.5),
                                       .delay_median_us = an_num(12.25),
                                       .delay_p95_us = an_num(300),
                                       .delay_max_us = an_num(12000),
                                       .queue_mean = an_num(3.5),
                                       .queue_max = an_num(120),
                                       .full_queue_pct = an_num(0),
                                       .short_kernels = an_int(3000),
                                       .short_pct = an_num(33.333),
                                       .rows = launches,
                                       .row_count = 2};
    copies[0] = (struct an_copy_row){.kind = "HtoD",
                                     .memory = "pageable",
                                     .count = 20,
                                     .bytes = an_int(3200000000),
                                     .total_ns = 400000000,
                                     .exposed_ns = 300000000,
                                     .synchronous = an_int(20),
                                     .rule = "copies of pageable memory wait",
                                     .bytes_per_s = an_num(8e9),
                                     .max_bytes_per_s = an_num(9.5e9)};
    copies[1] = (struct an_copy_row){.kind = "DtoD",
                                     .memory = "",
                                     .count = 400,
                                     .bytes = an_int(1000000000),
                                     .total_ns = 5000000,
                                     .exposed_ns = 0,
                                     .synchronous = an_int_none("no launch calls"),
                                     .bytes_per_s = an_num(2e11),
                                     .max_bytes_per_s = an_num(4e11)};
    copies[2] = (struct an_copy_row){.kind = "memset",
                                     .memory = "",
                                     .count = 5,
                                     .bytes = an_int(100),
                                     .total_ns = 5000,
                                     .exposed_ns = 0,
                                     .synchronous = an_int(0),
                                     .bytes_per_s = an_num(2e7),
                                     .max_bytes_per_s = an_num(3e7)};
    r->copy = copies;
    r->copy_count = 3;
    syncs[0] =
        (struct an_sync_row){"cudaStreamSynchronize", 60, 90000000, 5000000, an_int(20000000)};
    syncs[1] = (struct an_sync_row){"cudaDeviceSynchronize", 1, 1000, 1000,
                                    an_int_none("no device ops around it")};
    r->sync = syncs;
    r->sync_count = 2;
    static const struct an_bound_row bounds[] = {
        {GPU_ELEMENTWISE, AN_BOUND_MEMORY, 400, 300000000, {80, NULL, true}, {2, NULL, true}},
        {GPU_HOSTILE,
         AN_BOUND_UNKNOWN,
         20,
         100000000,
         {0, "FLOPs, bytes or the roof are not known", false},
         {0, "FLOPs, bytes or the roof are not known", false}}};
    static const struct an_gemm_row gemms[] = {{.name = "aten::mm",
                                                .shapes = "[4096,1023] [1023,4096]",
                                                .dtype = "bf16",
                                                .count = 10,
                                                .total_ns = 100000000,
                                                .roof_ns = 40000000,
                                                .multiple = 8,
                                                .misaligned = 1023,
                                                .waves = {1.2, NULL, true},
                                                .wave_pct = {60, NULL, true}}};
    static const struct an_chain_row chains[] = {
        {"aten::mul, aten::add", 200, 2, 300000000, 6000000000, 3000000000}};
    r->bounds = (struct an_kernel_bounds){
        .total_ns = 400000000,
        .kernels = 420,
        .ns = {[AN_BOUND_MEMORY] = 300000000, [AN_BOUND_UNKNOWN] = 100000000},
        .class = "MEMORY-BOUND",
        .class_pct = {75, NULL, true},
        .sentence = "Kernels MEMORY-BOUND: 75.0 % of their time.",
        .unknown = "no recorded operator launched them",
        .unknown_ns = 100000000,
        .rows = bounds,
        .row_count = 2,
        .gemms = gemms,
        .gemm_count = 1,
        .chains = chains,
        .chain_count = 1};
    static const struct an_fusion_row fusion[] = {{.operators = "aten::mul, aten::add",
                                                   .how = "size",
                                                   .place = "memory",
                                                   .note = "",
                                                   .length = 2,
                                                   .count = {10, NULL, true},
                                                   .ms = {30, NULL, true},
                                                   .bytes = {600000000, NULL, true},
                                                   .saved_bytes = {300000000, NULL, true},
                                                   .launches_saved = {10, NULL, true},
                                                   .gain_ms = {15, NULL, true},
                                                   .gain_low_ms = {9, NULL, true},
                                                   .gain_high_ms = {16, NULL, true}}};
    static const struct an_flow_row flow_rows[] = {{"aten::relu", 4, 4096, 5000}};
    r->dataflow = (struct an_dataflow){.source = "tensors and dependencies of the file",
                                       .step = 3,
                                       .steps = 4,
                                       .operators = 12,
                                       .edges = 11,
                                       .serial_ns = 1200000,
                                       .bandwidth_words = "3350 GB/s",
                                       .fusion = fusion,
                                       .fusion_count = 1,
                                       .fusion_gain_ms = an_num(15),
                                       .fusion_low_ms = an_num(9),
                                       .fusion_high_ms = an_num(16),
                                       .step_ms = an_num(100),
                                       .path_ns = an_int(800000),
                                       .width_mean = an_num(1.5),
                                       .width_most = an_int(3),
                                       .two_streams_ns = an_int(900000),
                                       .tensor_count = an_int(20),
                                       .tensor_bytes = an_int(40960),
                                       .live_bound_bytes = an_int(8192),
                                       .pool_bytes = an_int(8192),
                                       .in_place_saved_bytes = an_int(4096),
                                       .in_place = flow_rows,
                                       .in_place_count = 1,
                                       .repeated = flow_rows,
                                       .repeated_count = 1,
                                       .dead = flow_rows,
                                       .dead_count = 1};
    r->precision = (struct an_precision){.matrix_ns = 800000000,
                                         .matrix_unit_ns = 300000000,
                                         .matrix_unit_pct = an_num(37.5),
                                         .rows = precision,
                                         .row_count = 3};
    rows[0] = (struct an_attribution_row){"aten::mm",
                                          1000,
                                          1000,
                                          400000000000,
                                          90000000000,
                                          an_num(40),
                                          an_int(7000000000000000),
                                          an_int(9000000000),
                                          an_num(1.75e13)};
    rows[1] = (struct an_attribution_row){"aten::add_",
                                          3000,
                                          3000,
                                          200000000000,
                                          30000000000,
                                          an_num(20),
                                          an_int_none("no shapes"),
                                          an_int_none("no shapes"),
                                          an_num_none("no shapes")};
    rows[2] = (struct an_attribution_row){GPU_HOSTILE,
                                          1,
                                          1,
                                          4000,
                                          10,
                                          an_num(0),
                                          an_int_none("no shapes"),
                                          an_int_none("no shapes"),
                                          an_num_none("no shapes")};
    for (int k = 0; k < 4; k++)
        r->attribution[k] =
            (struct an_attribution){.by = (const char *[]){"op", "module", "line", "annotation"}[k],
                                    .unattributed_ns = 5000000,
                                    .rows = rows,
                                    .row_count = 3};
    r->attribution[2].reason = "the trace recorded no Python stacks: record with with_stack=True";
    r->attribution[2].row_count = 0;
    points[0] = (struct an_roofline_point){.name = "aten::mm",
                                           .dtype = "fp32",
                                           .pass = "",
                                           .kind = "matrix",
                                           .product = true,
                                           .count = 1000,
                                           .shapes = 1,
                                           .flops = 7000000000000000,
                                           .bytes = 9000000000,
                                           .flops_per_call = an_int(7000000000000),
                                           .bytes_per_call = an_int(9000000),
                                           .time_ns = 400000000000,
                                           .intensity = 777.8,
                                           .achieved_flops = 1.75e13,
                                           .attainable_flops = 1.95e13,
                                           .peak_flops = 1.95e13,
                                           .bound = "compute",
                                           .level_reason = "bound by arithmetic"};
    points[1] = (struct an_roofline_point){.name = "aten::add_",
                                           .dtype = "",
                                           .pass = "",
                                           .kind = "other",
                                           .count = 3000,
                                           .shapes = 2,
                                           .flops = 1000000000,
                                           .bytes = 12000000000,
                                           .flops_per_call = an_int_none("its calls have 2 shapes"),
                                           .bytes_per_call = an_int_none("its calls have 2 shapes"),
                                           .time_ns = 200000000000,
                                           .intensity = 0.083,
                                           .achieved_flops = 5e9,
                                           .attainable_flops = 1.3e11,
                                           .peak_flops = 1.95e13,
                                           .bound = "memory",
                                           .level = "dram"};
    r->points = points;
    r->point_count = 2;
}

/* Everything that an accelerator run has. */
static inline const struct an_result *gpu_result(void)
{
    static struct an_result r;
    static struct an_device_budget devices[2];
    static struct an_gpu_device gpus[2];
    static struct an_absent absent[2];
    static struct an_stage stages[1];
    static const char *const signs[] = {"the host step is 12 % longer than the device's"};
    static const char *const checked[] = {"loader", "copies"};
    static const struct an_step_exclusion excluded[] = {{0, 9, 120.5, "first"},
                                                        {0, 20, 99, "last"}};
    static const struct an_ceiling ceilings[] = {
        {"NVIDIA A100", "flops", "fp32", "datasheet", 1.95e13, "FLOP/s"},
        {"NVIDIA A100", "bandwidth", "", "datasheet", 1.555e12, "bytes/s"}};
    static const struct an_loss losses[] = {{"kineto", "no end", {3, NULL, true}, true, 0.5, 1.5}};
    static const struct an_finding findings[] = {
        {.id = "EXPOSED_COMM",
         .claim = "20 % of the step is communication that nothing hides",
         .evidence = {"exposed communication 20 ms a step (steps 10-19)"},
         .action = "overlap the gradients' all-reduce with backward",
         .gain = {{0, "a ceiling", false}, {0, "a ceiling", false}, {25, NULL, true}, true},
         .method = "ceiling: T / (T - R) - 1",
         .effort = "a setting",
         .confidence = AN_MEDIUM,
         .verify = "tacho report",
         .wrong_when = "the link is the limit"}};
    const char *none = "not in this test";
    memset(&r, 0, sizeof r);
    gpus[0] = gpu_device(0, "NVIDIA A100-SXM4-80GB");
    gpus[1] = gpu_device(1, "");
    gpus[1].overlap_pct = an_num_none("no communication");
    devices[0] = (struct an_device_budget){
        .rank = 0, .process = 1, .device = "gpu:0", .host = "", .budget = gpu_budget(0)};
    devices[1] = (struct an_device_budget){.rank = 1,
                                           .process = 2,
                                           .device = "gpu:1",
                                           .host = "node2",
                                           .budget = gpu_budget(50000000),
                                           .worst = true};
    r.verdict = "COMMUNICATION-BOUND: 22.5 % of every step is exposed communication (steps 10-19, "
                "medium confidence).";
    r.verdict_class = "COMMUNICATION-BOUND";
    r.checked = checked;
    r.checked_count = 2;
    r.run = (struct an_run){
        .file = "trace.json.gz",
        .program = "python",
        .host = "",
        .ended = "",
        .processes = 2,
        .ranks = 2,
        .threads = 4,
        .exit_status = an_int_none("a trace has none"),
        .cores = an_int_none("the file does not record how many cores the target could use"),
        .duration_s = an_num(1.2)};
    r.steps = (struct an_steps){.source = "ProfilerStep",
                                .count = 12,
                                .counted = 10,
                                .lanes = 2,
                                .of_a_lane = 5,
                                .detailed = 10,
                                .first_index = 10,
                                .last_index = 19,
                                .median_ms = an_num(100),
                                .mean_ms = an_num(100),
                                .p95_ms = an_num(110),
                                .min_ms = an_num(90),
                                .max_ms = an_num(111),
                                .sd_ms = an_num(3),
                                .host_median_ms = an_num(98.5),
                                .tokens_per_s = an_num_none(none),
                                .samples_per_s = an_num_none(none),
                                .tokens_per_step = an_num_none(none),
                                .samples_per_step = an_num_none(none),
                                .between_ms = an_num_none(none),
                                .excluded = excluded,
                                .excluded_count = 2};
    r.budget = gpu_budget(25000000);
    r.devices = devices;
    r.device_count = 2;
    struct an_utilization *u = &r.utilization;
    u->model_flops_per_step = u->hardware_flops_per_step = u->palm_flops_per_step =
        an_int_none(none);
    u->model_flops = u->hardware_flops = u->palm_flops = an_int_none(none);
    u->mfu = u->mfu_palm = u->hfu = u->mfu_measured = u->achieved_flops = an_num_none(none);
    u->peak_flops = u->roof_measured_flops = u->flop_coverage_pct = an_num_none(none);
    u->dtype_reason = none;
    absent[0] = gpu_absent(0, true);
    absent[1] = gpu_absent(1, false);
    r.absent = absent;
    r.absent_count = 2;
    r.gpus = gpus;
    r.gpu_count = 2;
    gpu_tables(&r);
    r.quality = (struct an_quality){.launches_without_op = an_int(12),
                                    .ops_without_launch = an_int(34),
                                    .zero_times = an_int(0),
                                    .unknown_kernels = an_int(7),
                                    .kernels_lost = an_int(5),
                                    .unknown_names = an_int(2),
                                    .unknown_pct = an_num(0.4),
                                    .signs = signs,
                                    .sign_count = 1,
                                    .cut_steps = an_int(1),
                                    .start_gap_ms = an_num(1.25),
                                    .profiler_overhead_ms = an_num(8),
                                    .step_overhead_pct = an_num(0.8)};
    stages[0] = (struct an_stage){"next", an_num(12), 10};
    r.loader = (struct an_loader){.source = "enumerate(DataLoader)",
                                  .inferred_wait_ms_per_step = an_num_none(none),
                                  .wait_ms_per_step = an_num(12),
                                  .stages = stages,
                                  .stage_count = 1,
                                  .workers = an_int_none(none),
                                  .queue_depth_mean = an_num_none(none),
                                  .workers_needed = an_int_none(none),
                                  .batches = 10};
    static const struct an_collective collectives[] = {
        {.name = "all_reduce",
         .communicator = {.value = 0x7f, .valid = true},
         .ranks = {.value = 2, .valid = true},
         .count = 40,
         .matched = 36,
         .calls_per_step = {.value = 4, .valid = true},
         .bytes_per_step = {.value = 4e6, .valid = true},
         .bytes_per_call = {.value = 1e6, .valid = true},
         .bytes_max_over_mean = {.value = 1.25, .valid = true},
         .mean_ms = {.value = 2.5, .valid = true},
         .transfer_ms = {.value = 1.5, .valid = true},
         .waiting_ms = {.value = 1, .valid = true},
         .algorithm_bytes_per_s = {.value = 4e8, .valid = true},
         .bus_bytes_per_s = {.value = 4e8, .valid = true},
         .bandwidth_of = "transfer"},
        {.name = "a\nname|",
         .communicator = {.reason = "not said"},
         .ranks = {.reason = "not said"},
         .count = 2,
         .calls_per_step = {.reason = "no steps"},
         .bytes_per_step = {.reason = "no steps"},
         .bytes_per_call = {.reason = "not said"},
         .bytes_max_over_mean = {.reason = "one rank"},
         .mean_ms = {.value = 0.001, .valid = true},
         .transfer_ms = {.reason = "one rank"},
         .waiting_ms = {.reason = "one rank"},
         .algorithm_bytes_per_s = {.reason = "not said"},
         .bus_bytes_per_s = {.reason = "not said"}}};
    static struct an_comm_rank ranks[2];
    for (int k = 0; k < 2; k++)
        ranks[k] = (struct an_comm_rank){.rank = k,
                                         .total_ms = an_num(10),
                                         .exposed_ms = an_num(6),
                                         .overlap_pct = an_num(40),
                                         .transfer_ms = an_num(6),
                                         .waiting_ms = k ? an_num(4) : an_num(0),
                                         .exposed_transfer_ms = an_num(2),
                                         .exposed_waiting_ms = k ? an_num(4) : an_num(0),
                                         .last_pct = k ? an_num(2.5) : an_num(97.5),
                                         .caused_ms = k ? an_num(0) : an_num(4)};
    r.communication = (struct an_communication){.bytes_per_step = an_num(4e6),
                                                .total_ms = an_num(10),
                                                .exposed_ms = an_num(6),
                                                .overlap_pct = an_num(40),
                                                .transfer_ms = an_num(6),
                                                .waiting_ms = an_num(2),
                                                .exposed_transfer_ms = an_num(2),
                                                .exposed_waiting_ms = an_num(2),
                                                .blocking_proven_ms = an_num(6),
                                                .blocking_inferred_ms = an_num(0),
                                                .blocking_unknown_ms = an_num(0),
                                                .skew_ms = an_num_none("several hosts"),
                                                .calls = 42,
                                                .matched = 36,
                                                .collectives = collectives,
                                                .collective_count = 2,
                                                .ranks = ranks,
                                                .rank_count = 2};
    r.system.reason = "a trace has no system layer";
    r.system.cpu_cores = r.system.machine_busy_pct = r.system.rss_peak_bytes =
        an_num_none(r.system.reason);
    r.system.read_bytes = r.system.write_bytes = r.system.minor_faults =
        an_num_none(r.system.reason);
    r.system.major_faults = r.system.voluntary_switches = an_num_none(r.system.reason);
    r.system.involuntary_switches = r.system.instructions_per_cycle = an_num_none(r.system.reason);
    r.findings = findings;
    r.finding_count = 1;
    r.ceilings = ceilings;
    r.ceiling_count = 2;
    r.critical_path.reason = r.ranks.reason = r.memory.reason = none;
    r.ranks.pipeline.reason = r.ranks.experts.reason = r.ranks.clocks.reason = none;
    static const struct an_throttle held[] = {{"power cap", 41.5, false},
                                              {"heat (software)", 3.25, true}};
    static struct an_gpu_hardware gpu;
    gpu =
        (struct an_gpu_hardware){.gpu = 0,
                                 .name = "Test GPU <b>",
                                 .uuid = "GPU-00",
                                 .power_w = an_num(642.5),
                                 .power_limit_w = an_num(700),
                                 .energy_j = an_num(1285),
                                 .clock_sm_mhz = an_num(1620),
                                 .clock_sm_max_mhz = an_num(1980),
                                 .temperature_max_c = an_num(71),
                                 .memory_used_bytes = an_num_none("NVML: not supported"),
                                 .sm_active_pct = an_num(88.2),
                                 .sm_occupancy_pct = an_num(31),
                                 .tensor_active_pct = an_num(42.4),
                                 .dram_active_pct = an_num(55),
                                 .fp32_active_pct = an_num(3),
                                 .fp16_active_pct = an_num(0),
                                 .fp64_active_pct = an_num_none("NVML: not supported"),
                                 .pm_sm_active_pct = an_num(91),
                                 .pm_tensor_active_pct = an_num(44),
                                 .pm_dram_read_pct = an_num(38.5),
                                 .pm_dram_write_pct = an_num(17),
                                 .step = {.matrix_ops = an_num(2.5e13),
                                          .fp32_flops = an_num(5e11),
                                          .dram_bytes = an_num(1.7e11),
                                          .l2_bytes = an_num(6e11),
                                          .l1_bytes = an_num(9e11),
                                          .time_ms = an_num(85),
                                          .occupancy_pct = an_num(29),
                                          .intensity = an_num(150),
                                          .flops_per_s = an_num(3e14),
                                          .dram_bytes_per_s = an_num(2e12),
                                          .stall_memory = an_num(2.25),
                                          .stall_barrier = an_num(0.5),
                                          .stall_math = an_num(1),
                                          .stall_wait = an_num_none("this chip does not count it")},
                                 .throttled_pct = an_num(44.75),
                                 .reasons = held,
                                 .reason_count = 2,
                                 .energy_source = "energy counter"};
    r.hardware_gpus = &gpu;
    r.hardware_gpu_count = 1;
    r.energy = (struct an_energy){.energy_j = an_num(1285),
                                  .power_w = an_num(642.5),
                                  .per_step_j = an_num(321.25),
                                  .per_token_j = an_num_none("the steps do not say their tokens"),
                                  .per_sample_j = an_num(2.5),
                                  .cost = an_num_none("no price was given; --price-kwh PRICE"),
                                  .steps = 4};
    r.trust = (struct an_trust){.events = 105167,
                                .lost_events = an_int(3),
                                .overhead_pct = an_num_none("a trace has no paused steps"),
                                .overhead_low_pct = an_num_none(none),
                                .overhead_high_pct = an_num_none(none),
                                .replay_error_pct = an_num_none(none),
                                .source = "kineto",
                                .tool = "",
                                .clock = "",
                                .version = "",
                                .ended = "complete",
                                .losses = losses,
                                .loss_count = 1};
    return &r;
}

#endif
