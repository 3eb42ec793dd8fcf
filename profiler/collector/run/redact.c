/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps secrets out of the file of a run. Environment variables are stored only if their names are
 * on an allow-list. Arguments and values are checked for names and shapes that keys and passwords
 * have; what is in doubt is replaced.
 */
#include "profiler/collector/run/redact.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "profiler/collector/pool/state.h"
#include "tacho_utf8.h"

/* Exact names, or prefixes where they end in '*'. */
static const char *const allowed[] = {
    "OMP_*",
    "MKL_*",
    "OPENBLAS_*",
    "GOMP_*",
    "KMP_*",
    "BLIS_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "NUMEXPR_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUBLAS_WORKSPACE_CONFIG",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_TF32_OVERRIDE",
    "HIP_VISIBLE_DEVICES",
    "NCCL_*",
    "UCX_TLS",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "NODE_RANK",
    "MASTER_PORT",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NTASKS",
    "SLURM_NNODES",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_CPUS_PER_TASK",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "PMIX_RANK",
    "MPI_LOCALRANKID",
    "LANG",
    "LC_*",
    "PYTHONHASHSEED",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_NCCL_*",
    "TORCHDYNAMO_DISABLE",
    "XLA_FLAGS",
    "MALLOC_ARENA_MAX",
    "TACHO_*",
};

static const char *const secret_words[] = {
    "token",   "passw",      "passphrase", "secret",     "credential",  "apikey",      "api-key",
    "api_key", "auth",       "private",    "access-key", "access_key",  "accesskey",   "signature",
    "cookie",  "session-id", "session_id", "bearer",     "license-key", "license_key", "dsn"};
/* Words that hold one of the above and are harmless. */
static const char *const harmless_words[] = {"tokenizer", "author",    "tokens",   "num-token",
                                             "num_token", "max-token", "max_token"};

bool col_redact_env_allowed(const char *name)
{
    if (col_redact_name_is_secret(name))
        return false;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        size_t length = strlen(allowed[i]);
        if (allowed[i][length - 1] == '*' ? strncmp(name, allowed[i], length - 1) == 0
                                          : strcmp(name, allowed[i]) == 0)
            return true;
    }
    return false;
}

/* Harmless words are blanked out first, so that "--tokenizer" and "--max-tokens" are not taken for
 * tokens. */
bool col_redact_name_is_secret(const char *name)
{
    char low[256];
    size_t bytes = 0;
    for (; name[bytes] && bytes < sizeof low - 1; bytes++)
        low[bytes] = (char)tolower((unsigned char)name[bytes]);
    low[bytes] = 0;
    for (size_t i = 0; i < sizeof harmless_words / sizeof *harmless_words; i++)
        for (char *found; (found = strstr(low, harmless_words[i])) != NULL;)
            memset(found, '.', strlen(harmless_words[i]));
    for (size_t i = 0; i < sizeof secret_words / sizeof *secret_words; i++)
        if (strstr(low, secret_words[i]))
            return true;
    /* "key" and "pwd" as a whole word: --key, SSH_KEY, but not --keyboard or monkey */
    for (const char *word = low; *word;) {
        word += strspn(word, "-_.");
        size_t length = strcspn(word, "-_.");
        if ((length == 3 && (strncmp(word, "key", 3) == 0 || strncmp(word, "pwd", 3) == 0)) ||
            (length == 4 && strncmp(word, "keys", 4) == 0))
            return true;
        word += length;
    }
    return false;
}

/* Does a value have user:password@ before a host, or in a URL anything before the @? */
static bool has_credentials(const char *value)
{
    const char *scheme = strstr(value, "://"), *host = scheme ? scheme + 3 : value;
    size_t authority = strcspn(host, "/?# ");
    const char *sign = memchr(host, '@', authority);
    return sign && (scheme || memchr(host, ':', (size_t)(sign - host)));
}

/* Does a word begin like the keys of a well-known service? */
static bool has_known_prefix(const char *word, size_t length)
{
    static const char *const prefix[] = {"sk-",         "ghp_", "gho_",   "ghs_",    "ghu_",
                                         "github_pat_", "hf_",  "glpat-", "xoxb-",   "xoxp-",
                                         "AKIA",        "ASIA", "AIza",   "eyJhbGci"};
    for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
        if (length >= 16 && strncmp(word, prefix[i], strlen(prefix[i])) == 0)
            return true;
    return false;
}

/* Does a word look like a random key? It has at least 24 characters of a key's alphabet, with an
 * entropy per character near that of random text: 3.0 bits for hexadecimal words, 3.7 for others,
 * which must have several digits and capitals. Paths and plain names have less. */
static bool looks_random(const char *word, size_t length)
{
    if (length < 24)
        return false;
    unsigned count[256] = {0}, digits = 0, upper = 0, lower = 0, other = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char letter = (unsigned char)word[i];
        count[letter]++;
        digits += isdigit(letter) != 0;
        upper += isupper(letter) != 0;
        lower += islower(letter) != 0;
        other += !isalnum(letter);
    }
    if (other > length / 10 || digits == 0 || upper + lower == 0)
        return false;
    double bits = 0;
    for (int i = 0; i < 256; i++)
        if (count[i]) {
            double share = (double)count[i] / (double)length;
            bits -= share * log2(share);
        }
    bool hexadecimal = strspn(word, "0123456789abcdefABCDEF") >= length;
    if (hexadecimal)
        return length >= 32 && bits > 3.0;
    return bits > 3.7 && digits >= 3 && (upper >= 3 || digits >= 6);
}

bool col_redact_value_is_secret(const char *value)
{
    if (has_credentials(value) || strstr(value, "-----BEGIN"))
        return true;
    for (const char *word = value; *word;) {
        word += strspn(word, " \t\n,;:=/\"'()[]{}|&?@<>");
        size_t length = strcspn(word, " \t\n,;:=/\"'()[]{}|&?@<>");
        if (has_known_prefix(word, length) || looks_random(word, length))
            return true;
        word += length;
    }
    return false;
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

static void put_redacted(struct col_buffer *buffer)
{
    put_json(buffer, COL_REDACTED, strlen(COL_REDACTED));
}

/* An argument NAME=VALUE of which only the first `bytes` are kept. */
static void put_assignment(struct col_buffer *buffer, const char *arg, size_t bytes)
{
    struct col_buffer whole = {0};
    col_buffer_put(&whole, arg, bytes);
    put_text(&whole, COL_REDACTED);
    if (whole.failed)
        put_redacted(buffer);
    else
        put_json(buffer, (char *)whole.bytes, whole.used);
    free(whole.bytes);
}

/* After an option whose name sounds secret ("--token") the next argument is its value. The program
 * itself is never taken for an option. */
char *col_redact_command(char *const *argv)
{
    struct col_buffer buffer = {0};
    bool next_is_secret = false;
    put_text(&buffer, "[");
    for (int i = 0; argv[i]; i++) {
        const char *arg = argv[i];
        if (i)
            put_text(&buffer, ",");
        const char *equals = strchr(arg, '=');
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(arg, "="), arg);
        bool option = arg[0] == '-' && arg[1], secret = next_is_secret && !option;
        next_is_secret = false;
        if (secret) {
            put_redacted(&buffer);
        } else if (equals && i > 0 &&
                   (col_redact_name_is_secret(name) || col_redact_value_is_secret(equals + 1))) {
            put_assignment(&buffer, arg, (size_t)(equals - arg) + 1);
        } else if (col_redact_value_is_secret(arg)) {
            put_redacted(&buffer);
        } else {
            next_is_secret = option && !equals && i > 0 && col_redact_name_is_secret(name);
            put_json(&buffer, arg, strlen(arg));
        }
    }
    put_text(&buffer, "]");
    return finish(&buffer);
}

static int order_text(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

char *col_redact_environment(char *const *envp)
{
    size_t count = 0, kept = 0;
    while (envp[count])
        count++;
    const char **list = calloc(count + 1, sizeof *list);
    if (!list)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        const char *equals = strchr(envp[i], '=');
        char name[256];
        if (!equals || equals == envp[i] || equals - envp[i] >= (long)sizeof name)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - envp[i]), envp[i]);
        if (col_redact_env_allowed(name))
            list[kept++] = envp[i];
    }
    qsort(list, kept, sizeof *list, order_text);
    struct col_buffer buffer = {0};
    put_text(&buffer, "{");
    for (size_t i = 0; i < kept; i++) {
        const char *equals = strchr(list[i], '=');
        const char *value = col_redact_value_is_secret(equals + 1) ? COL_REDACTED : equals + 1;
        if (i)
            put_text(&buffer, ",");
        put_json(&buffer, list[i], (size_t)(equals - list[i]));
        put_text(&buffer, ":");
        put_json(&buffer, value, strlen(value));
    }
    put_text(&buffer, "}");
    free(list);
    return finish(&buffer);
}
