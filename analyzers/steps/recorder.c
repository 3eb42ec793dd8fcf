/* SPDX-License-Identifier: Apache-2.0
 *
 * Who recorded an imported file, and its words (recorder.h).
 */
#include "analyzers/steps/recorder.h"

#include <string.h>

#define TF_PROFILE "profile with tf.profiler.experimental.start(FOLDER), host_tracer_level 2"
#define TF_STEPS \
    "give each step a tf.profiler.experimental.Trace(\"train\", step_num=N), or profile with the " \
    "callback TensorBoard of Keras"

#define NSYS_TF1 "record with nsys profile --trace=cuda,nvtx,cudnn,cublas"
#define TF1_PROFILE \
    "trace with tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE) and write the timeline"

/* What profilers of Ascend's NPUs say; they have the same options. */
#define NPU(profiler, shapes) \
    { \
        [AN_SAY_CALLS] = \
            "record the host, too, with its aclrt calls: " profiler ", activities CPU and NPU", \
        [AN_SAY_OPERATORS] = "record with " profiler ", activities CPU and NPU", \
        [AN_SAY_SHAPES] = (shapes), \
        [AN_SAY_STEPS] = "record with " profiler " and call its step() after each update", \
        [AN_SAY_RANGES] = "mstx ranges", \
        [AN_SAY_STACKS] = profiler ", activities CPU and NPU, with with_stack=True", \
        [AN_SAY_SYNCS] = profiler " with profiler_level Level1 or higher", \
        [AN_SAY_CLOCKS] = "the clocks of the NPUs are not in the file: npu-smi info shows them", \
        [AN_SAY_DEVICE] = "record with " profiler ", activities CPU and NPU", \
        [AN_SAY_COMPLETE] = "give the schedule of " profiler \
                            " more warm-up steps, and synchronise the NPU before it stops", \
        [AN_SAY_LATER] = "record later steps: schedule(wait=10, warmup=2, active=5) of " profiler \
                         ", with its step() in the loop" \
    }

static const char *const words[AN_RECORDER_COUNT][AN_SAY_COUNT] = {
    [AN_RECORDER_JAX] =
        {[AN_SAY_CALLS] = "profile with host_tracer_level 2 (jax.profiler.ProfileOptions)",
         [AN_SAY_OPERATORS] = AN_JAX_PROFILE,
         [AN_SAY_SHAPES] = "give --flops-per-step; on a TPU the profile has the FLOPs "
                           "itself",
         [AN_SAY_STEPS] = AN_JAX_PROFILE,
         [AN_SAY_RANGES] =
             "jax.profiler.TraceAnnotation(\"...\") around input, logging and checkpoints",
         [AN_SAY_STACKS] = "jax.profiler with its Python tracer on"},
    [AN_RECORDER_TPU] =
        {[AN_SAY_CALLS] = "an XLA profile of a TPU has none",
         [AN_SAY_OPERATORS] = AN_JAX_PROFILE,
         [AN_SAY_SHAPES] = "give --flops-per-step; on a TPU the profile has the FLOPs "
                           "itself",
         [AN_SAY_STEPS] = AN_JAX_PROFILE,
         [AN_SAY_RANGES] =
             "jax.profiler.TraceAnnotation(\"...\") around input, logging and checkpoints",
         [AN_SAY_STACKS] = "jax.profiler with its Python tracer on",
         [AN_SAY_CLOCKS] = "the clocks of a TPU are not sampled: tacho samples GPUs only"},
    [AN_RECORDER_TENSORFLOW] =
        {[AN_SAY_CALLS] = TF_PROFILE " (tf.profiler.experimental.ProfilerOptions)",
         [AN_SAY_OPERATORS] = TF_PROFILE,
         [AN_SAY_SHAPES] = "give --flops-per-step",
         [AN_SAY_STEPS] = TF_STEPS,
         [AN_SAY_RANGES] =
             "tf.profiler.experimental.Trace(\"...\") around input, logging and checkpoints",
         [AN_SAY_STACKS] = "tf.profiler.experimental with python_tracer_level 1"},
    [AN_RECORDER_TENSORFLOW1] = {[AN_SAY_CALLS] = NSYS_TF1,
                                 [AN_SAY_OPERATORS] = NSYS_TF1 ", with NVTX ranges",
                                 [AN_SAY_SHAPES] = "give --flops-per-step",
                                 [AN_SAY_STEPS] =
                                     TF1_PROFILE ", one call of session.run in each file",
                                 [AN_SAY_RANGES] = NSYS_TF1 ", with NVTX ranges",
                                 [AN_SAY_STACKS] =
                                     "'tacho run --stacks -- CMD', which samples call stacks",
                                 [AN_SAY_SYNCS] = NSYS_TF1},
    [AN_RECORDER_ASCEND] =
        NPU("torch_npu.profiler", "record with torch_npu.profiler, record_shapes=True"),
    [AN_RECORDER_MINDSPORE] = NPU("mindspore.profiler", "give --flops-per-step"),
    [AN_RECORDER_ROCM] =
        {[AN_SAY_CALLS] = "record the calls of HIP, too: rocprofv3 --hip-trace",
         [AN_SAY_OPERATORS] = "mark them with roctx ranges (rocprofv3 --marker-trace)",
         [AN_SAY_SHAPES] = "give --flops-per-step, or mark the work with roctx ranges",
         [AN_SAY_STEPS] =
             "mark each update with a roctx range named step (rocprofv3 --marker-trace "
             "--hip-trace)",
         [AN_SAY_RANGES] =
             "roctx ranges (rocprofv3 --marker-trace), and the calls of HIP (--hip-trace)",
         [AN_SAY_SYNCS] = "rocprofv3 --hip-trace",
         [AN_SAY_CLOCKS] = "the clocks of the GPUs are not in the file: amd-smi monitor shows them",
         [AN_SAY_DEVICE] =
             "record the device, too: rocprofv3 --kernel-trace --memory-copy-trace, by a user of "
             "the groups video and render, with no other profiler on the device",
         [AN_SAY_COMPLETE] = "let rocprofv3 record from the start of the program to its end "
                             "(--hip-trace --kernel-trace --memory-copy-trace), and synchronise "
                             "the device before the program ends",
         [AN_SAY_LATER] =
             "record later, when the first steps are over: rocprofv3 --collection-period"},
    [AN_RECORDER_UNITRACE] = {[AN_SAY_DEVICE] =
                                  "record the device, too: unitrace --chrome-kernel-logging",
                              [AN_SAY_COMPLETE] =
                                  "let unitrace record calls and kernels (--chrome-call-logging "
                                  "--chrome-kernel-logging) until the program has ended by itself",
                              [AN_SAY_LATER] =
                                  "record later: unitrace --conditional-collection, and let the "
                                  "program set PTI_ENABLE_COLLECTION=1 after the first steps"},
};

/* Is a name that begins so in the file? */
static bool has_name(const struct an_trace *trace, const char *begins)
{
    for (size_t i = 0; i < trace->string_count; i++)
        if (!strncmp(trace->string[i], begins, strlen(begins)))
            return true;
    return false;
}

static bool is_from(const struct an_trace *trace, const char *const *formats)
{
    while (*formats && !an_trace_from(trace, *formats))
        formats++;
    return *formats;
}

static bool has_tpu(const struct an_trace *trace)
{
    for (size_t i = 0; i < trace->track_count; i++)
        if (!strncmp(trace->track[i].device, "tpu:", 4))
            return true;
    return false;
}

enum an_recorder an_recorder_of(const struct an_context *context)
{
    static const char *const xla[] = {"xplane", "xla-json", NULL},
                             *const ascend[] = {"ascend", "ascend-csv", NULL},
                             *const rocm[] = {"rocpd",         "rocprof",  "rocprofv3",
                                              "rocprofv3-csv", "rpd-json", NULL};
    const struct an_trace *trace = context->trace;
    if (an_trace_from(trace, "unitrace"))
        return AN_RECORDER_UNITRACE;
    if (is_from(trace, rocm))
        return AN_RECORDER_ROCM;
    if (is_from(trace, ascend)) /* graphs of MindSpore name their operators so */
        return has_name(trace, "Default/") ? AN_RECORDER_MINDSPORE : AN_RECORDER_ASCEND;
    if (an_trace_from(trace, "tf-timeline"))
        return AN_RECORDER_TENSORFLOW1;
    if (!is_from(trace, xla))
        return AN_RECORDER_OTHER;
    bool executor = has_name(trace, "ExecutorState::Process") || has_name(trace, "tf_Compute");
    if (executor && !has_name(trace, "PjitFunction("))
        return AN_RECORDER_TENSORFLOW;
    return has_tpu(trace) ? AN_RECORDER_TPU : AN_RECORDER_JAX;
}

const char *an_recorder_says(enum an_recorder recorder, enum an_say what, const char *otherwise)
{
    return words[recorder][what] ? words[recorder][what] : otherwise;
}
