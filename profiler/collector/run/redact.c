/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps secrets out of the file of a run. Environment variables are stored only if their names are
 * on an allow-list. What is found in arguments and values (secrets.h) is replaced.
 */
#include "profiler/collector/run/redact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/collector/pool/state.h"
#include "profiler/collector/run/secret_names.h"
#include "profiler/collector/run/secrets.h"
#include "store/store.h"
#include "tacho_utf8.h"

#define ARGUMENT_MOST 16384 /* bytes of an argument; a longer one is hidden */

/* Exact names, or prefixes where they end in '*'. With '#' the value is a number, or a list of
 * numbers, and nothing else is stored. */
static const char *const allowed[] = {
    "OMP_*",
    "MKL_*",
    "OPENBLAS_*",
    "GOMP_*",
    "KMP_*",
    "BLIS_NUM_THREADS#",
    "NUMEXPR_MAX_THREADS#",
    "NUMEXPR_NUM_THREADS#",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_DEVICE_MAX_CONNECTIONS#",
    "CUDA_LAUNCH_BLOCKING#",
    "CUDA_MODULE_LOADING",
    "CUBLAS_WORKSPACE_CONFIG",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_TF32_OVERRIDE",
    "HIP_VISIBLE_DEVICES",
    "NCCL_*",
    "UCX_TLS",
    "RANK#",
    "WORLD_SIZE#",
    "LOCAL_RANK#",
    "LOCAL_WORLD_SIZE#",
    "GROUP_RANK#",
    "NODE_RANK#",
    "MASTER_PORT#",
    "SLURM_JOB_ID#",
    "SLURM_STEP_ID#",
    "SLURM_PROCID#",
    "SLURM_LOCALID#",
    "SLURM_NODEID#",
    "SLURM_NTASKS#",
    "SLURM_NNODES#",
    "SLURM_NTASKS_PER_NODE#",
    "SLURM_CPUS_PER_TASK#",
    "OMPI_COMM_WORLD_RANK#",
    "OMPI_COMM_WORLD_SIZE#",
    "OMPI_COMM_WORLD_LOCAL_RANK#",
    "OMPI_COMM_WORLD_LOCAL_SIZE#",
    "PMI_RANK#",
    "PMI_SIZE#",
    "PMIX_RANK#",
    "MPI_LOCALRANKID#",
    "LANG",
    "LC_*",
    "PYTHONHASHSEED",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_NCCL_*",
    "TORCHDYNAMO_DISABLE",
    "XLA_FLAGS",
    "MALLOC_ARENA_MAX#",
    "TACHO_*",
};

/* The row of the allow-list for NAME=VALUE; NULL: it may not be stored. */
static const char *allowed_row(const char *variable)
{
    size_t bytes = strcspn(variable, "=");
    if (!variable[bytes] || col_name_kind(variable, bytes) != COL_NAME_HARMLESS)
        return NULL;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        size_t length = strcspn(allowed[i], "*#");
        if (strncmp(variable, allowed[i], length) == 0 &&
            (allowed[i][length] == '*' || bytes == length))
            return allowed[i];
    }
    return NULL;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------------------ */

static void put_text(struct col_buffer *buffer, const char *text)
{
    col_buffer_put(buffer, text, strlen(text));
}

/* Writes a string. Bytes that are not valid UTF-8 become U+FFFD: JSON is text, an argument may be
 * anything. */
static void put_json(struct col_buffer *buffer, const char *text, size_t bytes)
{
    const unsigned char *letter = (const unsigned char *)text, *end = letter + bytes;
    put_text(buffer, "\"");
    while (letter < end) {
        char escape[8];
        if (*letter < 0x80) {
            if (*letter == '"' || *letter == '\\')
                snprintf(escape, sizeof escape, "\\%c", *letter);
            else if (*letter < 0x20 || *letter == 0x7f)
                snprintf(escape, sizeof escape, "\\u%04x", *letter);
            else
                snprintf(escape, sizeof escape, "%c", *letter);
            put_text(buffer, escape);
            letter++;
            continue;
        }
        size_t length = tacho_utf8_sequence(letter, (size_t)(end - letter));
        if (length)
            col_buffer_put(buffer, letter, length);
        else
            put_text(buffer, "\xef\xbf\xbd");
        letter += length ? length : 1;
    }
    put_text(buffer, "\"");
}

/* Ends the text and hands it to the caller; NULL: memory ran out. */
static char *finish(struct col_buffer *buffer)
{
    col_buffer_put(buffer, "", 1);
    if (buffer->failed) {
        free(buffer->bytes);
        return NULL;
    }
    return (char *)buffer->bytes;
}

/* Writes an argument as a JSON string, with a mark in place of each run of hidden bytes. */
static void put_argument(struct col_buffer *buffer, const char *text, const bool *hide)
{
    struct col_buffer shown = {0};
    for (size_t i = 0; text[i]; i++) {
        if (!hide[i])
            col_buffer_put(&shown, text + i, 1);
        else if (!i || !hide[i - 1])
            put_text(&shown, STORE_REDACTED);
    }
    put_json(buffer, shown.used ? (char *)shown.bytes : "", shown.used);
    buffer->failed = buffer->failed || shown.failed;
    free(shown.bytes);
}

/* Puts the arguments one behind the other, a NUL after each. One that is too long to be read keeps
 * nothing of its text. */
static struct col_buffer join_arguments(char *const *argv)
{
    struct col_buffer joined = {0};
    for (size_t i = 0; argv[i]; i++) {
        size_t length = strlen(argv[i]);
        const char *text = length > ARGUMENT_MOST ? STORE_REDACTED : argv[i];
        col_buffer_put(&joined, text, strlen(text) + 1);
    }
    return joined;
}

char *col_redact_command(char *const *argv)
{
    struct col_buffer buffer = {0}, joined = join_arguments(argv);
    bool *hide = calloc(joined.used + 1, sizeof *hide);
    const char *text = (const char *)joined.bytes, *at = text;
    buffer.failed = joined.failed || !hide;
    if (!buffer.failed)
        col_secrets_find(text, joined.used, hide);
    put_text(&buffer, "[");
    for (; !buffer.failed && at < text + joined.used; at += strlen(at) + 1) {
        put_text(&buffer, at > text ? "," : "");
        put_argument(&buffer, at, hide + (at - text));
    }
    put_text(&buffer, "]");
    free(joined.bytes);
    free(hide);
    return finish(&buffer);
}

/* A value that holds a secret anywhere is hidden as a whole: nothing of it is worth a risk. */
static bool value_is_secret(const char *row, const char *value)
{
    size_t size = strlen(value) + 1;
    if (row[strlen(row) - 1] == '#' && value[strspn(value, "0123456789.,:-(x)")])
        return true;
    bool *hide = size <= ARGUMENT_MOST ? calloc(size, sizeof *hide) : NULL;
    if (!hide)
        return true;
    col_secrets_find(value, size, hide);
    bool found = memchr(hide, true, size) != NULL;
    free(hide);
    return found;
}

static int order_text(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Writes NAME=VALUE as a member of an object. */
static void put_variable(struct col_buffer *buffer, const char *variable)
{
    const char *equals = strchr(variable, '='), *value = equals + 1;
    if (value_is_secret(allowed_row(variable), value))
        value = STORE_REDACTED;
    put_json(buffer, variable, (size_t)(equals - variable));
    put_text(buffer, ":");
    put_json(buffer, value, strlen(value));
}

char *col_redact_environment(char *const *envp)
{
    size_t count = 0, kept = 0;
    while (envp[count])
        count++;
    const char **list = calloc(count + 1, sizeof *list);
    if (!list)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (allowed_row(envp[i]))
            list[kept++] = envp[i];
    qsort(list, kept, sizeof *list, order_text);
    struct col_buffer buffer = {0};
    put_text(&buffer, "{");
    for (size_t i = 0; i < kept; i++) {
        put_text(&buffer, i ? "," : "");
        put_variable(&buffer, list[i]);
    }
    put_text(&buffer, "}");
    free(list);
    return finish(&buffer);
}
