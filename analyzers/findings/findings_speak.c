/* SPDX-License-Identifier: Apache-2.0
 *
 * Advice in the words of the framework. The checks say what to do in PyTorch; for a program of XLA
 * (JAX, TensorFlow) the same change has other names, which are listed here. Frameworks around
 * PyTorch have settings for it: what they are called is added to the advice.
 */
#include <string.h>

#include "analyzers/findings/findings_private.h"

#define JAX_PROFILE \
    "profile with jax.profiler.trace(FOLDER) and give each step a " \
    "jax.profiler.StepTraceAnnotation(\"train\", step_num=N)"

/* By finding: what to do in JAX. */
static const struct {
    const char *id, *action;
} jax_actions[] = {
    {"UNATTRIBUTED", "name what the host does there: jax.profiler.TraceAnnotation(\"...\") around "
                     "input, logging and "
                     "checkpoints, and jax.profiler.trace() with the Python tracer on"},
    {"SMALL_KERNELS",
     "fewer kernels: put the whole update into one jax.jit (no work between jitted calls), let XLA "
     "fuse element-wise work, lax.scan over equal layers, XLA_FLAGS=--xla_gpu_graph_level=3 "
     "replays "
     "them as command buffers"},
    {"LAUNCH_BOUND",
     "fewer launches: one jax.jit around the whole update, lax.scan over several steps, "
     "XLA_FLAGS=--xla_gpu_graph_level=3 (command buffers)"},
    {"HOST_BOUND",
     "shorten what the host does between calls: one jax.jit around the whole update, "
     "donate_argnums "
     "for the state, no float(loss) or .item() in each step, so that dispatch stays asynchronous"},
    {"SYNC_STALL", "do not wait in each step: block_until_ready(), float(loss), np.asarray() and "
                   "print() of device "
                   "values stall the dispatch; read them every N steps"},
    {"SYNC_ITEM", "leave values on the device: no float(loss), np.asarray(), print() or "
                  "block_until_ready() in each step; return metrics and read them every N steps"},
    {"INPUT_STALL",
     "make batches ahead: a loader with several workers (Grain worker_count, tf.data "
     "prefetch(AUTOTUNE)) and jax.device_put of the next batch while the step runs"},
    {"PAGEABLE_COPY",
     "copy ahead and less: jax.device_put the next batch before the step, keep the state on the "
     "device, and donate_argnums for what is replaced"},
    {"FUSION", "let XLA fuse: put the chain into one jax.jit, without debug callbacks or host "
               "values between; "
               "else one Pallas kernel for the longest"},
    {"LOW_EFFICIENCY_GEMM", "let XLA time several kernels: XLA_FLAGS=--xla_gpu_autotune_level=4, "
                            "shapes that are multiples "
                            "of 128 on a TPU and of 64 on a GPU"},
    {"UNFUSED_ATTENTION", "jax.nn.dot_product_attention(implementation=\"cudnn\"), or splash "
                          "attention (Pallas) on a TPU, "
                          "in place of matmul, softmax, matmul"},
    {"LOW_PRECISION",
     "bfloat16: cast parameters and activations in the forward pass (jmp, dtype=jnp.bfloat16), or "
     "jax.default_matmul_precision(\"tensorfloat32\")"},
    {"SMALL_BATCH", "a larger batch for each device, or more steps in one call with lax.scan"},
    {"RECOMPUTE", "keep more: jax.checkpoint with a policy that saves GEMMs "
                  "(jax.checkpoint_policies.dots_with_no_batch_dims_saveable)"},
    {"EXPOSED_COMM", "overlap collectives: "
                     "XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true (on by default on "
                     "a TPU), larger combine thresholds, less sharding over slow links"},
    {"LOW_INTENSITY",
     "read and write less: bfloat16 state, larger batch, let XLA fuse across the chain in one "
     "jax.jit"},
    {"NO_STEPS", JAX_PROFILE},
    {"INCOMPLETE_CAPTURE", JAX_PROFILE ", and let the last one end in block_until_ready()"},
    {"FIRST_ITERATION",
     "profile later: call the step two or three times before jax.profiler.start_trace(), so that "
     "compilation and autotuning are over"},
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
struct check_words {
    const char *words, *to_check;
};
static const struct check_words python_checks[] = {
    {"NVTX ranges", "mark the steps and their parts with step() and range() of the module tacho"},
    {"FLOPs (", "tacho report --flops-per-step N gives the MFU of whole steps"},
    {"tacho.work", "tacho report --flops-per-step N gives the MFU of whole steps"},
    {"samples (", "time a step with a batch twice as large"},
};
static const struct check_words jax_checks[] = {
    {"NVTX ranges", JAX_PROFILE},
    {"record_shapes", "give --flops-per-step; on a TPU the profile has the FLOPs itself"},
    {"torch.profiler", JAX_PROFILE},
    {"FLOPs (include/tacho_nvtx.h)", "give --flops-per-step"},
    {"CUDA runtime", "profile with host_tracer_level 2 (jax.profiler.ProfileOptions)"},
};

/* Advice to record with jax.profiler fits only where jax.profiler has recorded. */
static bool is_recorded(const struct an_context *context, const char *action)
{
    return !an_trace_imported(context->trace) && strstr(action, "jax.profiler");
}

static void speak_jax(struct an_findings_list *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        for (size_t k = 0; k < sizeof jax_actions / sizeof *jax_actions; k++)
            if (!strcmp(findings->found[i].id, jax_actions[k].id) &&
                !is_recorded(findings->context, jax_actions[k].action))
                findings->found[i].action = jax_actions[k].action;
}

/* Did tacho record a program that uses neither PyTorch nor JAX? Ranges of the hook show that, and
 * without the hook names of kernels. */
static bool is_plain(const struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    bool torch = an_trace_imported(trace) || an_trace_key(trace, "hook.missing");
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
    if (an_command_framework(findings->context) == AN_FRAMEWORK_JAX)
        speak_jax(findings);
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

const char *an_findings_to_check(const struct an_context *context, const char *to_check)
{
    const char *own = own_check(context, to_check);
    to_check = own ? own : to_check;
    if (!own && an_command_framework(context) == AN_FRAMEWORK_JAX)
        for (size_t k = 0; k < sizeof jax_checks / sizeof *jax_checks; k++)
            if (strstr(to_check, jax_checks[k].words) &&
                !is_recorded(context, jax_checks[k].to_check))
                return jax_checks[k].to_check;
    if (an_command_is_python(context))
        for (size_t k = 0; k < sizeof python_checks / sizeof *python_checks; k++)
            if (strstr(to_check, python_checks[k].words))
                return python_checks[k].to_check;
    return to_check;
}

const char *an_findings_step_advice(struct an_context *context)
{
    return an_command_framework(context) == AN_FRAMEWORK_JAX
               ? "Give each step a jax.profiler.StepTraceAnnotation(\"train\", step_num=N), or put "
                 "the whole update into one jax.jit"
               : "Record with torch.profiler and call its step() after each update, or mark each "
                 "update with an NVTX range named step";
}
