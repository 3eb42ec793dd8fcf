/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment in which a target records: the agent through NVTX and CUDA, the Python hook, the
 * cuBLAS shim, and variables that make interpreters write the names of their functions.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/job/gpu_env.h"
#include "profiler/collector/os/text.h"
#include "profiler/collector/run/session.h"
#include "profiler/wire.h"

/* Puts `first` in front of the list that a variable holds already, with a colon between. False
 * where it does not fit. */
static bool prepend(const char *first, const char *variable, char *list, size_t size)
{
    const char *old = getenv(variable);
    int length =
        old && *old ? snprintf(list, size, "%s:%s", first, old) : snprintf(list, size, "%s", first);
    return length > 0 && (size_t)length < size;
}

/* PYTHONPATH with the folder of the Python hook first (`tacho-python` beside the library); false
 * where none exists. Programs that are not Python ignore it. */
static bool python_path(const struct col_session *session, const char *library, char *path,
                        size_t size)
{
    char hook[COL_PATH_MAX];
    int length;
    const char *folder = col_folder_of(library, &length);
    length = snprintf(hook, sizeof hook, "%.*s/tacho-python", length, folder);
    if (session->options->no_hook || length < 0 || (size_t)length >= sizeof hook ||
        access(hook, R_OK | X_OK))
        return false;
    return prepend(hook, "PYTHONPATH", path, size);
}

/* LD_PRELOAD with libtacho_gemm.so first; false where that is not asked for. Warns where it is not
 * possible. */
static bool preload(struct col_session *session, const char *library, char *list, size_t size)
{
    char gemm[COL_PATH_MAX];
    int length;
    const char *folder = col_folder_of(library, &length);
    if (!session->options->gemm_shapes)
        return false;
    length = snprintf(gemm, sizeof gemm, "%.*s/libtacho_gemm.so", length, folder);
    if (length < 0 || (size_t)length >= sizeof gemm || access(gemm, R_OK)) {
        col_session_warn(session, "shapes of GEMMs are not recorded: no libtacho_gemm.so beside %s",
                         library);
        return false;
    }
    if (gemm[strcspn(gemm, " :")]) {
        col_session_warn(session,
                         "shapes of GEMMs are not recorded: LD_PRELOAD cannot name a path with a "
                         "space or a colon: %s",
                         gemm);
        return false;
    }
    return prepend(gemm, "LD_PRELOAD", list, size);
}

int col_session_start(struct col_session *session, const char *library,
                      void (*prepare)(void *ctx, pid_t pid), void *ctx, struct tacho_error *err)
{
    char pause[32], pool[32], python[2 * COL_PATH_MAX], gemm[2 * COL_PATH_MAX];
    snprintf(pause, sizeof pause, "%.6g", session->options->pause);
    snprintf(pool, sizeof pool, "%d", session->options->pool_mib);
    const char *old = getenv("NVTX_INJECTION64_PATH");
    if (old && *old && strcmp(old, library) != 0)
        col_session_warn(
            session,
            "NVTX_INJECTION64_PATH was set to %s; tacho's own library is used for this run instead",
            old);
    struct col_env env[11 + COL_GPU_ENV_MAX];
    struct col_gpu_env gpu;
    size_t count = 0;
    env[count++] = (struct col_env){"NVTX_INJECTION64_PATH", library};
    env[count++] = (struct col_env){WIRE_ENV_SEGMENTS, session->live.segments};
    env[count++] = (struct col_env){WIRE_ENV_LENDER, session->lender.name};
    env[count++] = (struct col_env){WIRE_ENV_PAUSE, pause};
    if (session->options->pool_mib > 0) /* else the user's value stays */
        env[count++] = (struct col_env){WIRE_ENV_POOL_MIB, pool};
    if (python_path(session, library, python, sizeof python))
        env[count++] = (struct col_env){"PYTHONPATH", python};
    /* names in /tmp/perf-PID.map: functions of Python from 3.12 on, kernels of oneDNN */
    if (session->options->stacks_hz > 0) {
        if (!getenv("PYTHONPERFSUPPORT"))
            env[count++] = (struct col_env){"PYTHONPERFSUPPORT", "1"};
        if (!getenv("ONEDNN_JIT_PROFILE"))
            env[count++] = (struct col_env){"ONEDNN_JIT_PROFILE", "2"};
    }
    if (preload(session, library, gemm, sizeof gemm))
        env[count++] = (struct col_env){"LD_PRELOAD", gemm};
    count += col_gpu_environment(session->options, library, env + count, &gpu);
    if (gpu.warning[0])
        col_session_warn(session, "%s", gpu.warning);
    int error = 0;
    int rc = col_launch(session->options->command, env, count, &session->signals, prepare, ctx,
                        &session->child, &error, err);
    if (rc) {
        session->result->exit_code = 125;
        if (error)
            session->result->exit_code = error == ENOENT ? 127 : 126;
        return rc;
    }
    session->result->started = true;
    return 0;
}
