/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of quantities in logs of training programs, and which program writes which words.
 */
#include <ctype.h>
#include <string.h>

#include "store/import/logs/logs.h"

#define NAME_MOST 96

/* Names in lower case, words joined by `_`. A name matches if it ends with the words of a row (of
 * one that begins with `_`: if the log has them with the `_` between; of one that begins with a
 * space: if no `_` or `-` is before them there), or is all that follows the `=` of a row; the row
 * with most letters counts. Names without a quantity keep others from matching. */
static const struct name {
    const char *words;
    enum log_what what;
    double scale;
    bool needs_unit;
} names[] = {
    {"iteration", LOG_STEP, 1, false},
    {"iter", LOG_STEP, 1, false},
    {"step", LOG_STEP, 1, false},
    {"steps", LOG_STEP, 1, false},
    {"batch", LOG_STEP, 1, false},
    {" iters", LOG_STEP, 1, false},
    {"batch_id", LOG_STEP, 1, false}, /* PaddlePaddle */
    {"max_iters", LOG_NOTHING, 1, false},
    {"total_iters", LOG_NOTHING, 1, false},
    {"num_iters", LOG_NOTHING, 1, false},
    {"warmup_iters", LOG_NOTHING, 1, false},
    {"eval_iters", LOG_NOTHING, 1, false},
    {"decay_iters", LOG_NOTHING, 1, false},
    {"train_iters", LOG_NOTHING, 1, false},
    {"test_iters", LOG_NOTHING, 1, false},
    {"save_iters", LOG_NOTHING, 1, false},
    {"log_iters", LOG_NOTHING, 1, false},
    {"accum_iters", LOG_NOTHING, 1, false},
    {"global_step", LOG_GLOBAL_STEP, 1, false},
    {"global_steps", LOG_GLOBAL_STEP, 1, false},
    {"micro_step", LOG_NOTHING, 1, false},
    {"max_steps", LOG_NOTHING, 1, false},
    {"total_steps", LOG_NOTHING, 1, false},
    {"warmup_steps", LOG_NOTHING, 1, false},
    {"num_steps", LOG_NOTHING, 1, false},
    {"max_iter", LOG_NOTHING, 1, false},
    {"logging_steps", LOG_NOTHING, 1, false},
    {"save_steps", LOG_NOTHING, 1, false},
    {"eval_steps", LOG_NOTHING, 1, false},
    {"cache_steps", LOG_NOTHING, 1, false},
    {"decay_steps", LOG_NOTHING, 1, false},
    {"training_steps", LOG_NOTHING, 1, false},
    {"start_step", LOG_NOTHING, 1, false},
    {"end_step", LOG_NOTHING, 1, false},
    {"profile_step", LOG_NOTHING, 1, false},
    {"checkpoint_at_step", LOG_NOTHING, 1, false},
    {"overflow_on_iteration", LOG_NOTHING, 1, false},
    {"accum_steps", LOG_NOTHING, 1, false},
    {"accumulation_steps", LOG_NOTHING, 1, false},
    {"per_step", LOG_NOTHING, 1, false},
    {"micro_batch", LOG_NOTHING, 1, false},
    {"per_batch", LOG_NOTHING, 1, false},
    {"time_batch", LOG_NOTHING, 1, false},                /* Composer: which one, not a time */
    {"num_updates", LOG_STEP, 1, false},                  /* fairseq */
    {"global_step_max_steps", LOG_GLOBAL_STEP, 1, false}, /* ms-swift */

    {"elapsed_time_per_iteration_ms", LOG_STEP_TIME, 1e-3, false}, /* Megatron-LM, nanotron */
    {"elapsed_time_per_iteration_s", LOG_STEP_TIME, 1, false},
    {"train_step_timing_in_s", LOG_STEP_TIME, 1, false}, /* NeMo */
    {"iteration_time", LOG_STEP_TIME, 1, false},
    {"iter_time_s", LOG_STEP_TIME, 1, false}, /* DeepSpeed's pipelines */
    {"iter_time", LOG_STEP_TIME, 1, false},
    {"iter_time_ms", LOG_STEP_TIME, 1e-3, false},
    {"step_time", LOG_STEP_TIME, 1, false},
    {"step_time_s", LOG_STEP_TIME, 1, false},
    {"step_time_ms", LOG_STEP_TIME, 1e-3, false},
    {"time_per_step", LOG_STEP_TIME, 1, false},
    {"seconds_per_step", LOG_STEP_TIME, 1, false},
    {"sec_per_step", LOG_STEP_TIME, 1, false},
    {"ms_per_step", LOG_STEP_TIME, 1e-3, false},
    {"sec_step", LOG_STEP_TIME, 1, false},
    {"ms_step", LOG_STEP_TIME, 1e-3, false},
    {"=time_ms", LOG_STEP_TIME, 1e-3, false}, /* with other words it may be of a part */
    {"=seconds", LOG_STEP_TIME, 1, false},    /* MaxText; other seconds are sums */
    {"time", LOG_STEP_TIME, 1, true},
    {"timer", LOG_STEP_TIME, 1, true},
    {"dt", LOG_STEP_TIME, 1, true},
    {"time_per_batch", LOG_STEP_TIME, 1, false},
    {"time_per_iteration", LOG_STEP_TIME, 1, false},
    {"time_per_iter", LOG_STEP_TIME, 1, false},
    {"timing_s_step", LOG_STEP_TIME, 1, false},   /* verl */
    {"avg_batch_cost", LOG_STEP_TIME, 1, false},  /* PaddlePaddle */
    {"steps_per_sec", LOG_STEPS_PER_S, 1, false}, /* clu, T5X */
    {"steps_per_second", LOG_STEPS_PER_S, 1, false},
    {"ups", LOG_STEPS_PER_S, 1, false},               /* fairseq: updates */
    {"train_speed_iter_s", LOG_MEAN_SPEED, 1, false}, /* ms-swift */
    {"train_speed_s_it", LOG_MEAN_TIME, 1, false},
    {"e2e_latency", LOG_STEP_TIME, 1, false}, /* DeepSpeed-Chat, of which the next are parts */
    {"generate_time", LOG_NOTHING, 1, false},
    {"training_time", LOG_NOTHING, 1, false},
    {"forward_time", LOG_NOTHING, 1, false},
    {"backward_time", LOG_NOTHING, 1, false},
    {"save_time", LOG_NOTHING, 1, false},
    {"eval_time", LOG_NOTHING, 1, false},
    {"data_time", LOG_NOTHING, 1, false},
    {"last_time", LOG_NOTHING, 1, false},
    {"elapsed_time", LOG_PASSED_TIME, 1, false},
    {"time_elapsed", LOG_PASSED_TIME, 1, false},
    {"elapsed", LOG_PASSED_TIME, 1, false},
    {"time_left", LOG_NOTHING, 1, false},
    {"total_time", LOG_NOTHING, 1, false},
    {"remaining_time", LOG_NOTHING, 1, false},
    {"timestamp", LOG_TIMESTAMP, 1, false},
    {"ts", LOG_TIMESTAMP, 1, false},
    {"wall_time", LOG_TIMESTAMP, 1, false},

    {"global_batch_size", LOG_BATCH, 1, false},
    {"total_batch_size", LOG_TOTAL_BATCH, 1, false}, /* llm.c, nanochat: tokens */
    {"total_desired_batch_size", LOG_TOTAL_BATCH, 1, false},
    {"tokens_per_iteration_will_be", LOG_STEP_TOKENS, 1, false}, /* nanoGPT */
    {"consumed_tokens", LOG_CONSUMED_TOKENS, 1, false},
    {"throughput_total_tokens", LOG_CONSUMED_TOKENS, 1, false}, /* OLMo */
    {"tokens_this_step", LOG_STEP_TOKENS, 1, false},            /* ms-swift */
    {"consumed_samples", LOG_CONSUMED_SAMPLES, 1, false},

    {"loss", LOG_LOSS, 1, false},
    {"loss_train", LOG_LOSS, 1, false},
    {"loss_train_total", LOG_LOSS, 1, false}, /* Composer */
    {"crossentropyloss", LOG_LOSS, 1, false}, /* OLMo */
    {"_loss_step", LOG_LOSS, 1, false},       /* Lightning: of one step, of an epoch */
    {"_loss_epoch", LOG_NOTHING, 1, false},
    {"_val_loss_step", LOG_EVAL_LOSS, 1, false},
    {"_val_loss_epoch", LOG_EVAL_LOSS, 1, false},
    {"_acc_step", LOG_NOTHING, 1, false},
    {"_accuracy_step", LOG_NOTHING, 1, false},
    {"aux_loss", LOG_NOTHING, 1, false},
    {"z_loss", LOG_NOTHING, 1, false},
    {"balancing_loss", LOG_NOTHING, 1, false},
    {"val_loss", LOG_EVAL_LOSS, 1, false},
    {"eval_loss", LOG_EVAL_LOSS, 1, false},
    {"valid_loss", LOG_EVAL_LOSS, 1, false},
    {"validation_loss", LOG_EVAL_LOSS, 1, false},
    {"loss_value", LOG_EVAL_LOSS, 1, false}, /* of Megatron's validation */
    {"lr", LOG_LEARNING_RATE, 1, false},
    {"learning_rate", LOG_LEARNING_RATE, 1, false},
    {"grad_norm", LOG_GRADIENT_NORM, 1, false},
    {"gradient_norm", LOG_GRADIENT_NORM, 1, false},
    {"gnorm", LOG_GRADIENT_NORM, 1, false}, /* fairseq */
    {"norm", LOG_GRADIENT_NORM, 1, false},
    {"params_norm", LOG_NOTHING, 1, false},
    {"param_norm", LOG_NOTHING, 1, false},
    {"weight_norm", LOG_NOTHING, 1, false},

    {"tokens_per_sec", LOG_TOKENS_PER_S, 1, false},
    {"tokens_per_second", LOG_TOKENS_PER_S, 1, false},
    {"tokens_global_per_sec", LOG_TOKENS_PER_S, 1, false}, /* ms-swift */
    {"tokens_s", LOG_TOKENS_PER_S, 1, false},
    {"tokens_sec", LOG_TOKENS_PER_S, 1, false},
    {"tok_s", LOG_TOKENS_PER_S, 1, false},
    {"tok_sec", LOG_TOKENS_PER_S, 1, false},
    {"tps", LOG_TOKENS_PER_S_DEVICE, 1, false}, /* torchtitan */
    {"tokens_per_sec_per_gpu", LOG_TOKENS_PER_S_DEVICE, 1, false},
    {"tokens_per_second_per_gpu", LOG_TOKENS_PER_S_DEVICE, 1, false},
    {"tokens_per_gpu_per_sec", LOG_TOKENS_PER_S_DEVICE, 1, false},              /* ms-swift */
    {"throughput_device_tokens_per_second", LOG_TOKENS_PER_S_DEVICE, 1, false}, /* OLMo */
    {"tokens_s_gpu", LOG_TOKENS_PER_S_DEVICE, 1, false},
    {"tokens_per_gpu_per_second_tgs", LOG_TOKENS_PER_S_DEVICE, 1, false}, /* Megatron-DeepSpeed */
    {"tokens_s_device", LOG_TOKENS_PER_S_DEVICE, 1, false},               /* MaxText */
    {"wps", LOG_TOKENS_PER_S, 1, false},                                  /* fairseq */
    {"samples_per_sec", LOG_SAMPLES_PER_S, 1, false},
    {"samples_per_second", LOG_SAMPLES_PER_S, 1, false},
    {"samples_sec", LOG_SAMPLES_PER_S, 1, false},
    {"cursamplespersec", LOG_SAMPLES_PER_S, 1, false}, /* DeepSpeed-Chat */
    {"samples_s", LOG_SAMPLES_PER_S, 1, false},
    {"currsamplespersec", LOG_SAMPLES_PER_S, 1, false},       /* DeepSpeed */
    {"throughput_per_gpu_tflop_s_gpu", LOG_TFLOPS, 1, false}, /* Megatron-LM */
    {"tflops_per_gpu", LOG_TFLOPS, 1, false},
    {"tflop_s_device", LOG_TFLOPS, 1, false}, /* MaxText */
    {"tflops", LOG_TFLOPS, 1, false},
    {"mfu", LOG_MFU, 1, false},
    {"memory", LOG_MEMORY, 1, false},
    {"memory_usage", LOG_MEMORY, 1, false},
    {"memory_gib", LOG_MEMORY, 1073741824, false}, /* ms-swift */
    {"maxmemallocated", LOG_MEMORY, 1, false},
};

/* Words that only one program writes. */
static const struct {
    const char *words, *tool;
} tools[] = {
    {"elapsed_time_per_iteration_ms:", "nanotron"},
    {"elapsed time per iteration", "Megatron-LM"},
    {"train_step_timing in s", "NeMo"},
    {"CurrSamplesPerSec", "DeepSpeed"},
    {"samples/sec:", "DeepSpeed"},
    {"[titan]", "torchtitan"},
    {"v_num=", "Lightning"},
    {"v_num:", "Lightning"},
    {"global_step/max_steps", "ms-swift"}, /* which is one of the next, too */
    {"{'loss':", "Hugging Face Trainer"},
    {"bf16 MFU", "llm.c"},
    {"[batch=", "Composer"},
    {"completed step:", "MaxText"},
    {"num_updates=", "fairseq"},
    {"mmengine", "MMEngine"},
    {"d2.utils.events", "Detectron2"},
    {"logging_writer.py:", "clu"},
    {"\"current_steps\"", "LLaMA-Factory"},
    {"timing_s/step", "verl"},
    {"olmo.train", "OLMo"},
    {"Wall time,Step,Value", "TensorBoard"},
};

/* The last words of a name in lower case, joined by `_`. */
static size_t plain_words(const char *name, size_t bytes, char out[NAME_MOST + 1])
{
    size_t used = 0;
    for (size_t i = bytes > NAME_MOST ? bytes - NAME_MOST : 0; i < bytes; i++) {
        unsigned char letter = (unsigned char)name[i];
        if (isalnum(letter))
            out[used++] = (char)tolower(letter);
        else if (used && out[used - 1] != '_')
            out[used++] = '_';
    }
    used -= used && out[used - 1] == '_';
    out[used] = '\0';
    return used;
}

/* Is a space or the like, and no `_` or `-`, before the last letters of a name? `n_iters` is a
 * setting. */
static bool stands_apart(const char *name, size_t bytes, size_t length)
{
    while (bytes && !isalnum((unsigned char)name[bytes - 1]))
        bytes--;
    return bytes <= length ||
           !strchr("_-", name[bytes - length - 1] ? name[bytes - length - 1] : ' ');
}

enum log_what log_what_of(const char *name, size_t bytes, double *scale, bool *needs_unit)
{
    char words[NAME_MOST + 1];
    size_t used = plain_words(name, bytes, words), best = 0;
    enum log_what what = LOG_NOTHING;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool whole = names[i].words[0] == '=', joined = names[i].words[0] == '_';
        bool apart = names[i].words[0] == ' ';
        const char *wanted = names[i].words + (whole || joined || apart);
        size_t length = strlen(wanted);
        if (length <= best || length > used || strcmp(words + used - length, wanted) != 0 ||
            (length < used && (whole || words[used - length - 1] != '_')) ||
            (joined && !memmem(name, bytes, wanted, length)) ||
            (apart && !stands_apart(name, bytes, length)))
            continue;
        best = length;
        what = names[i].what;
        *scale = names[i].scale;
        *needs_unit = names[i].needs_unit;
    }
    return what;
}

bool log_has_word(const char *text, size_t bytes, const char *joined, const char *const *words,
                  size_t count)
{
    for (size_t i = 0, length; i < bytes; i += length ? length : 1) {
        for (length = 0;
             i + length < bytes && text[i + length] &&
             (isalpha((unsigned char)text[i + length]) || strchr(joined, text[i + length]));)
            length++;
        for (size_t word = 0; word < count; word++)
            if (length == strlen(words[word]) && !strncasecmp(text + i, words[word], length))
                return true;
    }
    return false;
}

const char *log_tool_of(const char *line)
{
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
        if (strstr(line, tools[i].words))
            return tools[i].tool;
    return NULL;
}

uint64_t log_tools_of(const char *line)
{
    uint64_t all = 0;
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
        for (size_t first = 0; first <= i && strstr(line, tools[i].words); first++)
            if (!strcmp(tools[first].tool, tools[i].tool)) {
                all |= UINT64_C(1) << first;
                break;
            }
    return all;
}

const char *log_series_name(enum log_what what)
{
    static const char *const series[] = {
#define LOG_NAME(key, name, unit) name,
        LOG_WHAT_MAP(LOG_NAME)
#undef LOG_NAME
    };
    return what == LOG_NOTHING ? NULL : series[what];
}
