/* SPDX-License-Identifier: Apache-2.0
 *
 * Advice in the words of the framework. The checks say what to do in PyTorch; with JAX, TensorFlow,
 * on Ascend and on devices of AMD the same change has other names, which are listed here.
 * Frameworks around PyTorch have settings for it: what they are called is added to the advice.
 */
#include <ctype.h>
#include <string.h>

#include "analyzers/findings/findings_private.h"
#include "analyzers/steps/recorder.h"

/* Whose words an action is in; a recorder is a bit of its own. */
#define JAX        (1u << AN_RECORDER_JAX | 1u << AN_RECORDER_TPU)
#define TENSORFLOW (1u << AN_RECORDER_TENSORFLOW)
#define ASCEND     (1u << AN_RECORDER_ASCEND)
#define MINDSPORE  (1u << AN_RECORDER_MINDSPORE)
#define ROCM       (1u << AN_RECORDER_ROCM)
#define HIP        (1u << AN_RECORDER_COUNT) /* ROCM, and no kernel is one of PyTorch */

#define TF_FUNCTION \
    "one tf.function(jit_compile=True) around the whole update, steps_per_execution=N of Keras's " \
    "compile()"
#define MS_GRAPH \
    "graph mode: put the update into one mindspore.jit, and sink the data, " \
    "Model.train(dataset_sink_mode=True)"

/* By finding: what to do, and in whose words. An action names only what every one of them has. */
static const struct {
    unsigned whose;
    const char *id, *action;
} actions[] = {
    {JAX, "SMALL_KERNELS",
     "fewer kernels: put the whole update into one jax.jit (no work between jitted calls), let XLA "
     "fuse element-wise work, lax.scan over equal layers, XLA_FLAGS=--xla_gpu_graph_level=3 "
     "replays "
     "them as command buffers"},
    {JAX, "LAUNCH_BOUND",
     "fewer launches: one jax.jit around the whole update, lax.scan over several steps, "
     "XLA_FLAGS=--xla_gpu_graph_level=3 (command buffers)"},
    {JAX, "HOST_BOUND",
     "shorten what the host does between calls: one jax.jit around the whole update, "
     "donate_argnums "
     "for the state, no float(loss) or .item() in each step, so that dispatch stays asynchronous"},
    {JAX, "SYNC_STALL",
     "do not wait in each step: block_until_ready(), float(loss), np.asarray() and "
     "print() of device "
     "values stall the dispatch; read them every N steps"},
    {JAX, "SYNC_ITEM",
     "leave values on the device: no float(loss), np.asarray(), print() or "
     "block_until_ready() in each step; return metrics and read them every N steps"},
    {JAX, "INPUT_STALL",
     "make batches ahead: a loader with several workers (Grain worker_count, tf.data "
     "prefetch(AUTOTUNE)) and jax.device_put of the next batch while the step runs"},
    {JAX, "PAGEABLE_COPY",
     "copy ahead and less: jax.device_put the next batch before the step, keep the state on the "
     "device, and donate_argnums for what is replaced"},
    {JAX, "FUSION",
     "let XLA fuse: put the chain into one jax.jit, without debug callbacks or host "
     "values between; "
     "else one Pallas kernel for the longest"},
    {JAX, "LOW_EFFICIENCY_GEMM",
     "let XLA time several kernels: XLA_FLAGS=--xla_gpu_autotune_level=4, "
     "shapes that are multiples "
     "of 128 on a TPU and of 64 on a GPU"},
    {JAX, "UNFUSED_ATTENTION",
     "jax.nn.dot_product_attention(implementation=\"cudnn\"), or splash "
     "attention (Pallas) on a TPU, "
     "in place of matmul, softmax, matmul"},
    {JAX, "LOW_PRECISION",
     "bfloat16: cast parameters and activations in the forward pass (jmp, dtype=jnp.bfloat16), or "
     "jax.default_matmul_precision(\"tensorfloat32\")"},
    {JAX, "SMALL_BATCH", "a larger batch for each device, or more steps in one call with lax.scan"},
    {JAX, "RECOMPUTE",
     "keep more: jax.checkpoint with a policy that saves GEMMs "
     "(jax.checkpoint_policies.dots_with_no_batch_dims_saveable)"},
    {JAX, "EXPOSED_COMM",
     "overlap collectives: "
     "XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true (on by default on "
     "a TPU), larger combine thresholds, less sharding over slow links"},
    {JAX, "LOW_INTENSITY",
     "read and write less: bfloat16 state, larger batch, let XLA fuse across the chain in one "
     "jax.jit"},
    {JAX, "NO_STEPS", AN_JAX_PROFILE},
    {JAX, "INCOMPLETE_CAPTURE", AN_JAX_PROFILE ", and let the last one end in block_until_ready()"},
    {JAX, "FIRST_ITERATION",
     "profile later: call the step two or three times before jax.profiler.start_trace(), so that "
     "compilation and autotuning are over"},
    {JAX, "EXPOSED_COPY",
     "copy less between host and device inside a step: offload less of the state and of what "
     "jax.checkpoint saves (memory_kind=\"pinned_host\"), or begin a copy one layer or step ahead "
     "of its use, so that compute hides it"},

    {TENSORFLOW, "SMALL_KERNELS",
     "fewer kernels: " TF_FUNCTION ", so that XLA fuses element-wise work"},
    {TENSORFLOW, "LAUNCH_BOUND", "fewer launches: " TF_FUNCTION},
    {TENSORFLOW, "HOST_BOUND",
     "shorten what the host does between launches: " TF_FUNCTION ", no .numpy() in each step"},
    {TENSORFLOW, "SYNC_STALL",
     "do not wait in each step: .numpy(), float() and print() of tensors wait for the device; "
     "read them every N steps"},
    {TENSORFLOW, "SYNC_ITEM",
     "leave values on the device: no .numpy(), float() or print() of tensors in each step; update "
     "a keras.metrics object and read it every N steps"},
    {TENSORFLOW, "INPUT_STALL",
     "make batches ahead: tf.data with map(num_parallel_calls=tf.data.AUTOTUNE), interleave, "
     "cache and prefetch(tf.data.AUTOTUNE)"},
    {TENSORFLOW, "PAGEABLE_COPY",
     "copy ahead: tf.data.experimental.prefetch_to_device as the last step of the input"},
    {TENSORFLOW, "EXPOSED_COPY",
     "copy less inside a step: keep operators on the device (tf.debugging.set_log_device_placement "
     "shows those that are not), tf.data.experimental.prefetch_to_device for batches"},
    {TENSORFLOW, "FUSION",
     "let XLA fuse: tf.function(jit_compile=True) around the model or the whole update"},
    {TENSORFLOW, "LOW_EFFICIENCY_GEMM",
     "sizes that are multiples of 8 in 16-bit types, and tf.function(jit_compile=True), which "
     "times "
     "several kernels"},
    {TENSORFLOW, "UNFUSED_ATTENTION",
     "keras.config.enable_flash_attention(), or cuDNN's attention by "
     "tf.function(jit_compile=True)"},
    {TENSORFLOW, "LOW_PRECISION", "keras.mixed_precision.set_global_policy(\"mixed_bfloat16\")"},
    {TENSORFLOW, "LOW_INTENSITY",
     "read and write less: mixed_bfloat16, a larger batch, tf.function(jit_compile=True)"},
    {TENSORFLOW, "RECOMPUTE", "keep more: fewer layers under tf.recompute_grad"},
    {TENSORFLOW, "EXPOSED_COMM",
     "overlap collectives: larger packs, tf.distribute.experimental.CommunicationOptions("
     "bytes_per_pack=...), fewer of them over slow links"},
    {TENSORFLOW, "NO_STEPS",
     "give each step a tf.profiler.experimental.Trace(\"train\", step_num=N), or profile with the "
     "callback TensorBoard of Keras"},
    {TENSORFLOW, "INCOMPLETE_CAPTURE",
     "profile some steps more, and let the last one end in .numpy(), which waits for the device"},
    {TENSORFLOW, "FIRST_ITERATION",
     "profile later, when tracing and autotuning are over: profile_batch=(10, 20) of the callback "
     "TensorBoard"},

    {ASCEND, "SMALL_KERNELS",
     "fewer kernels: fused operators and optimizers of torch_npu, or an ACL graph of the step "
     "(torchair, torch_npu.npu.NPUGraph) where the launches are what takes long"},
    {ASCEND, "LAUNCH_BOUND",
     "fewer launches: an ACL graph of the step (torchair, torch_npu.npu.NPUGraph), "
     "TASK_QUEUE_ENABLE=2, a larger batch"},
    {ASCEND, "HOST_BOUND",
     "shorten what the host does between launches: TASK_QUEUE_ENABLE=2, CPU_AFFINITY_CONF=1, an "
     "ACL graph of the step (torchair), fused optimizers of torch_npu, a larger batch"},
    {ASCEND, "FUSION",
     "fuse the chains: fused operators of torch_npu, torchair, or one kernel in Ascend C for the "
     "longest"},
    {ASCEND, "LOW_EFFICIENCY_GEMM",
     "dimensions that are multiples of 16, and weights in the format of the cube unit "
     "(torch_npu.npu_format_cast)"},
    {ASCEND, "UNFUSED_ATTENTION",
     "torch_npu.npu_fusion_attention in place of matmul, softmax, "
     "matmul"},
    {ASCEND, "NO_STEPS",
     "record several steps with torch_npu.profiler and call its step() after "
     "each update"},

    {MINDSPORE, "SMALL_KERNELS", "fewer kernels: " MS_GRAPH},
    {MINDSPORE, "LAUNCH_BOUND", "fewer launches: " MS_GRAPH},
    {MINDSPORE, "HOST_BOUND", "shorten what the host does between launches: " MS_GRAPH},
    {MINDSPORE, "FUSION",
     "let the compiler fuse the chains: mindspore.jit with jit_level O1 (graph kernel fusion), or "
     "one kernel in Ascend C for the longest"},
    {MINDSPORE, "LOW_EFFICIENCY_GEMM", "dimensions that are multiples of 16"},
    {MINDSPORE, "UNFUSED_ATTENTION",
     "mindspore.ops.flash_attention_score in place of matmul, "
     "softmax, matmul"},
    {MINDSPORE, "LOW_PRECISION", "mindspore.amp.auto_mixed_precision(network, \"O2\")"},
    {MINDSPORE, "EXPOSED_COMM",
     "let communication begin earlier, so that compute hides it: comm_fusion of "
     "mindspore.set_auto_parallel_context, several groups of gradients in place of one"},
    {MINDSPORE, "SYNC_STALL",
     "do not wait for the device inside a step: asnumpy() of the loss every N steps"},
    {MINDSPORE, "SYNC_ITEM",
     "do not wait for the device inside a step: asnumpy() of the loss every N steps"},
    {MINDSPORE, "INPUT_STALL",
     "make batches ahead: more num_parallel_workers of mindspore.dataset, a larger "
     "set_prefetch_size, dataset_sink_mode=True"},
    {MINDSPORE, "PAGEABLE_COPY",
     "copy ahead: dataset_sink_mode=True sends batches before they are "
     "needed"},
    {MINDSPORE, "EXPOSED_COPY",
     "copy less inside a step, or begin earlier: dataset_sink_mode=True for batches"},
    {MINDSPORE, "NO_STEPS",
     "record several steps with mindspore.profiler and call its step() after "
     "each update"},

    {ROCM, "NO_STEPS",
     "record several steps, each in a roctx range named step (rocprofv3 "
     "--marker-trace --hip-trace)"},
    {HIP, "SMALL_KERNELS",
     "fewer kernels: fuse element-wise work into its neighbours; a HIP graph where the launches "
     "are "
     "what takes long"},
    {HIP, "LAUNCH_BOUND",
     "fewer launches: a HIP graph of the step, fused element-wise kernels, a larger batch"},
    {HIP, "HOST_BOUND",
     "shorten what the host does between launches: a HIP graph of the step, fewer and longer "
     "kernels, a larger batch"},
    {HIP, "FUSION",
     "fuse the chains: one kernel for operations that follow each other, or epilogues of the GEMMs "
     "before them"},
    {HIP, "LOW_EFFICIENCY_GEMM",
     "another algorithm for these shapes: let hipBLASLt propose several and time them, or a newer "
     "library"},
    {HIP, "SYNC_STALL",
     "do not wait for the device inside a step: read values every N steps, from pinned memory that "
     "hipMemcpyAsync has filled"},
    {HIP, "PAGEABLE_COPY",
     "copy from pinned memory (hipHostMalloc, hipHostRegister) with hipMemcpyAsync on a stream of "
     "its own, overlapped with compute"},
    {HIP, "EXPOSED_COPY",
     "copy less inside a step, or begin earlier: hipMemcpyAsync on a stream of its own, from and "
     "to pinned memory, overlapped with compute"},
    {HIP, "FIRST_ITERATION",
     "record later, when the first steps are over: rocprofv3 --collection-period"},
};

/* By finding: what to do in a program of no framework, and the option of the reference engine that
 * does it; NULL: it has none. */
static const struct {
    const char *id, *action, *engine;
} plain_actions[] = {
    {"HOST_BOUND",
     "shorten what the host does between launches: a CUDA graph of the step, fewer and longer "
     "kernels, a larger batch",
     NULL},
    {"LAUNCH_BOUND",
     "fewer launches: a CUDA graph of the step, fused element-wise kernels, a larger batch", NULL},
    {"SMALL_KERNELS",
     "fewer kernels: fuse element-wise work into its neighbours; a CUDA graph where the launches "
     "are what takes long",
     NULL},
    {"FUSION",
     "fuse the chains: one kernel for operations that follow each other, or epilogues of the GEMMs "
     "before them",
     NULL},
    {"LOW_EFFICIENCY_GEMM",
     "another algorithm for these shapes: let cuBLASLt propose several and time them, or a newer "
     "library",
     NULL},
    {"UNATTRIBUTED", "name what the host does there: NVTX ranges (include/tacho_nvtx.h)", NULL},
    {"SYNC_STALL",
     "do not wait for the device inside a step: read the loss every N steps, from pinned memory "
     "that cudaMemcpyAsync has filled",
     "do not wait for the device inside a step: --log-every with a larger number"},
    {"PAGEABLE_COPY",
     "copy from pinned memory (cudaHostAlloc, cudaHostRegister) with cudaMemcpyAsync on a stream "
     "of its own, overlapped with compute",
     "copy from pinned memory: --pin"},
    {"EXPOSED_COPY",
     "copy less inside a step, or begin earlier: cudaMemcpyAsync on a stream of its own, from and "
     "to pinned memory, overlapped with compute",
     NULL},
    {"NO_STEPS", "mark steps and record several: an NVTX range named step around each update",
     NULL},
    {"LOW_PRECISION",
     "mixed precision: GEMMs with operands in bf16 or fp16 and sums in fp32, master weights in "
     "fp32",
     "mixed precision: --dtype bf16"},
    {"LOW_INTENSITY",
     "one pass over each tensor: fuse bias, activation function, residual and norm into the GEMM "
     "before them; or a 16-bit type for activations",
     NULL},
};

/* By words of the advice for a check that lacks its input: the advice in tacho's own recordings. */
static const struct {
    const char *words, *torch, *plain;
} own_checks[] = {
    {"record_shapes", "tacho run --gemm-shapes; or torch.profiler with record_shapes=True",
     "tacho run --gemm-shapes; or tacho.work of include/tacho_nvtx.h around each operation"},
    {"(torch.profiler)", NULL, "tacho.work of include/tacho_nvtx.h around each operation"},
};

/* By words of what brings an input that a check lacked: the words for a program of Python, which
 * has tacho's module in place of the payloads of C. */
#define FLOPS_OF_STEPS "tacho report --flops-per-step N gives the MFU of whole steps"
struct check_words {
    const char *words, *to_check;
};
static const struct check_words python_checks[] = {
    {"NVTX ranges", "mark the steps and their parts with step() and range() of the module tacho"},
    {"FLOPs (", FLOPS_OF_STEPS},
    {"tacho.work", FLOPS_OF_STEPS},
    {"samples (", "time a step with a batch twice as large"},
};
/* By words of what brings an input that a check lacked: what the recorder of the file says of it.
 */
static const struct {
    const char *words;
    enum an_say say;
} recorder_checks[] = {{"NVTX range", AN_SAY_STEPS},
                       {"record_shapes", AN_SAY_SHAPES},
                       {"torch.profiler", AN_SAY_OPERATORS},
                       {"CUDA runtime", AN_SAY_CALLS}};

/* Advice to record with jax.profiler fits only where jax.profiler has recorded. */
static bool is_recorded(const struct an_context *context, const char *action)
{
    return !an_trace_imported(context->trace) && strstr(action, "jax.profiler");
}

/* Is a kernel one of PyTorch, by its name? */
static bool has_torch_kernels(const struct an_trace *trace)
{
    for (size_t i = 0; i < trace->string_count; i++)
        if (strstr(trace->string[i], "at::native"))
            return true;
    return false;
}

/* Whose words fit: those of the recorder of the file, or of JAX that tacho recorded itself. */
static unsigned words_of(const struct an_context *context)
{
    enum an_recorder recorder = an_recorder_of(context);
    if (recorder == AN_RECORDER_OTHER)
        return an_command_framework(context) == AN_FRAMEWORK_JAX ? JAX : 0;
    bool hip = recorder == AN_RECORDER_ROCM && !has_torch_kernels(context->trace);
    return 1u << recorder | (hip ? HIP : 0);
}

static void speak_recorder(struct an_findings_list *findings)
{
    unsigned whose = words_of(findings->context);
    for (size_t i = 0; i < findings->count; i++)
        for (size_t k = 0; k < sizeof actions / sizeof *actions; k++)
            if (whose & actions[k].whose && !strcmp(findings->found[i].id, actions[k].id) &&
                !is_recorded(findings->context, actions[k].action))
                findings->found[i].action = actions[k].action;
}

/* Was it recorded by what profiles any program, and is it none of Python? */
static bool may_be_plain(const struct an_trace *trace)
{
    bool plain = !an_trace_imported(trace) || an_trace_from(trace, "nsight");
    for (size_t i = 0; i < trace->process_count && an_trace_imported(trace); i++)
        plain = plain && !strstr(trace->process[i].program, "python");
    return plain;
}

/* Is it a program that uses neither PyTorch nor JAX? Ranges of the hook show that, and without the
 * hook names of kernels. */
static bool is_plain(const struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    bool torch = !may_be_plain(trace) || an_trace_key(trace, "hook.missing");
    for (size_t i = 0; i < trace->string_count && !torch; i++)
        torch = !strcmp(trace->string[i], "torch") || !strncmp(trace->string[i], "aten::", 6) ||
                !strncmp(trace->string[i], "void at::", 9);
    return !torch && an_command_framework(context) != AN_FRAMEWORK_JAX;
}

/* Does advice name what only PyTorch has? */
static bool names_torch(const char *action)
{
    static const char *const words[] = {"torch", "DataLoader", "non_blocking", ".item()",
                                        ".contiguous()"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(action, words[i]))
            return true;
    return false;
}

static void speak_plain(struct an_findings_list *findings)
{
    bool engine = an_command_framework(findings->context) == AN_FRAMEWORK_LIBTRAIN;
    for (size_t i = 0; i < findings->count; i++) {
        struct an_finding *finding = &findings->found[i];
        for (size_t k = 0; k < sizeof plain_actions / sizeof *plain_actions; k++) {
            if (strcmp(finding->id, plain_actions[k].id) || !names_torch(finding->action))
                continue;
            const char *option = engine ? plain_actions[k].engine : NULL;
            finding->action = option ? option : plain_actions[k].action;
        }
    }
}

/* By framework (an_command_around) and finding: the setting that does it. */
static const struct {
    const char *around, *id, *setting;
} around_settings[] = {
    {"HF Trainer", "INPUT_STALL",
     "TrainingArguments(dataloader_num_workers=..., dataloader_prefetch_factor=...)"},
    {"HF Trainer", "WORKERS_RESTARTED", "TrainingArguments(dataloader_persistent_workers=True)"},
    {"HF Trainer", "SYNC_ITEM", "TrainingArguments(logging_steps=...)"},
    {"HF Trainer", "CHECKPOINT", "TrainingArguments(save_steps=...)"},
    {"HF Trainer", "EVALUATION", "TrainingArguments(eval_steps=...)"},
    {"HF Trainer", "LOW_PRECISION", "TrainingArguments(bf16=True)"},
    {"HF Trainer", "RECOMPILE", "a data collator with pad_to_multiple_of=..."},
    {"HF Trainer", "DDP_UNUSED_PARAMETERS", "TrainingArguments(ddp_find_unused_parameters=False)"},
    {"HF Trainer", "DDP_BUFFERS", "TrainingArguments(ddp_broadcast_buffers=False)"},
    {"HF Trainer", "DDP_BUCKETS", "TrainingArguments(ddp_bucket_cap_mb=...)"},
    {"Lightning", "SYNC_ITEM", "Trainer(log_every_n_steps=...), self.log(..., prog_bar=False)"},
    {"Lightning", "CHECKPOINT", "ModelCheckpoint(every_n_train_steps=...)"},
    {"Lightning", "EVALUATION",
     "Trainer(val_check_interval=..., check_val_every_n_epoch=..., limit_val_batches=...)"},
    {"Lightning", "LOW_PRECISION", "Trainer(precision=\"bf16-mixed\")"},
    {"Lightning", "DDP_UNUSED_PARAMETERS", "DDPStrategy(find_unused_parameters=False)"},
    {"Lightning", "DDP_BUFFERS", "DDPStrategy(broadcast_buffers=False)"},
    {"Lightning", "DDP_BUCKETS", "DDPStrategy(bucket_cap_mb=...)"},
    {"accelerate", "DDP_SYNC_EACH_MICROSTEP", "with accelerator.accumulate(model)"},
    {"accelerate", "LOW_PRECISION", "Accelerator(mixed_precision=\"bf16\")"},
    {"accelerate", "DDP_UNUSED_PARAMETERS",
     "DistributedDataParallelKwargs(find_unused_parameters=False)"},
    {"accelerate", "DDP_BUFFERS", "DistributedDataParallelKwargs(broadcast_buffers=False)"},
    {"accelerate", "DDP_BUCKETS", "DistributedDataParallelKwargs(bucket_cap_mb=...)"},
    {"DeepSpeed", "LOW_PRECISION", "\"bf16\": {\"enabled\": true}"},
    {"DeepSpeed", "EXPOSED_COMM", "\"zero_optimization\": {\"overlap_comm\": true}"},
    {"torchtitan", "CHECKPOINT", "[checkpoint] async_mode = \"async\", interval = ..."},
    {"torchtitan", "FSDP_RESHARD", "[parallelism] fsdp_reshard_after_forward = \"never\""},
    {"timm", "INPUT_STALL", "train.py --workers ..."},
    {"timm", "LOW_PRECISION", "train.py --amp --amp-dtype bfloat16"}};

/* Of a name without its version, which begins with a digit. */
static size_t name_length(const char *around)
{
    size_t length = strlen(around);
    const char *space = strrchr(around, ' ');
    return space && strchr("0123456789", space[1]) ? (size_t)(space - around) : length;
}

static const char *setting_of(const char *around, const char *id)
{
    for (size_t i = 0; i < sizeof around_settings / sizeof *around_settings; i++)
        if (!strncmp(around, around_settings[i].around, strlen(around_settings[i].around)) &&
            !strcmp(id, around_settings[i].id))
            return around_settings[i].setting;
    return NULL;
}

static void speak_around(struct an_findings_list *findings, const char *around)
{
    const struct an_context *context = findings->context;
    bool shows_overlap = context->gpu || context->result->communication.overlap_pct.valid;
    for (size_t i = 0; i < findings->count; i++) {
        struct an_finding *finding = &findings->found[i];
        const char *setting = setting_of(around, finding->id);
        if (!shows_overlap && !strcmp(finding->id, "EXPOSED_COMM")) /* its setting is for overlap */
            continue;
        if (setting && finding->action)
            finding->action =
                an_finding_text(findings->context, "%.600s; %.*s has %s", finding->action,
                                (int)name_length(around), around, setting);
    }
}

void an_findings_speak(struct an_findings_list *findings)
{
    const char *around = findings->context->result->run.around;
    if (around)
        speak_around(findings, around);
    speak_recorder(findings);
    if (is_plain(findings->context))
        speak_plain(findings);
}

/* The advice in a recording of tacho's own; NULL: the same as elsewhere. */
static const char *own_check(const struct an_context *context, const char *to_check)
{
    if (an_trace_imported(context->trace))
        return NULL;
    for (size_t k = 0; k < sizeof own_checks / sizeof *own_checks; k++) {
        if (!strstr(to_check, own_checks[k].words))
            continue;
        if (is_plain(context))
            return own_checks[k].plain;
        return an_command_framework(context) == AN_FRAMEWORK_TORCH ? own_checks[k].torch : NULL;
    }
    return NULL;
}

/* The advice in the words of the recorder; NULL: the same as elsewhere. */
static const char *recorder_check(const struct an_context *context, const char *to_check)
{
    enum an_recorder recorder = an_recorder_of(context);
    if (recorder == AN_RECORDER_OTHER && an_command_framework(context) == AN_FRAMEWORK_JAX)
        recorder = AN_RECORDER_JAX;
    bool flops = strstr(to_check, "FLOPs (include/tacho_nvtx.h)");
    if (flops && recorder != AN_RECORDER_OTHER)
        return "give --flops-per-step";
    if (flops && an_trace_from(context->trace, "kineto"))
        return FLOPS_OF_STEPS;
    for (size_t k = 0; k < sizeof recorder_checks / sizeof *recorder_checks; k++) {
        const char *says = strstr(to_check, recorder_checks[k].words)
                               ? an_recorder_says(recorder, recorder_checks[k].say, NULL)
                               : NULL;
        if (says && !is_recorded(context, says))
            return says;
    }
    return NULL;
}

const char *an_findings_to_check(const struct an_context *context, const char *to_check)
{
    const char *own = own_check(context, to_check);
    const char *says = own ? NULL : recorder_check(context, to_check);
    if (says)
        return says;
    to_check = own ? own : to_check;
    if (an_command_is_python(context))
        for (size_t k = 0; k < sizeof python_checks / sizeof *python_checks; k++)
            if (strstr(to_check, python_checks[k].words))
                return python_checks[k].to_check;
    return to_check;
}

const char *an_findings_step_advice(struct an_context *context)
{
    if (an_command_framework(context) == AN_FRAMEWORK_JAX)
        return "Give each step a jax.profiler.StepTraceAnnotation(\"train\", step_num=N), or put "
               "the whole update into one jax.jit";
    const char *says = an_recorder_says(an_recorder_of(context), AN_SAY_STEPS,
                                        "record with torch.profiler and call its step() after each "
                                        "update, or mark each update with an NVTX range named "
                                        "step");
    return an_finding_text(context, "%c%s", toupper((unsigned char)*says), says + 1);
}
