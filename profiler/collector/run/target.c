/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment in which a target records.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/job/gpu_env.h"
#include "profiler/collector/run/session.h"
#include "profiler/wire.h"

/* PYTHONPATH with the folder of the Python hook first (`tacho-python` beside the library); false
 * where there is none. Other programs do not look at it. */
static bool python_path(const struct col_session *session, const char *library, char *to,
                        size_t size)
{
    char folder[COL_PATH_MAX];
    const char *slash = strrchr(library, '/'), *old = getenv("PYTHONPATH");
    int n = snprintf(folder, sizeof folder, "%.*s/tacho-python", slash ? (int)(slash - library) : 1,
                     slash ? library : ".");
    if (session->options->no_hook || n < 0 || (size_t)n >= sizeof folder ||
        access(folder, R_OK | X_OK))
        return false;
    n = snprintf(to, size, "%s%s%s", folder, old && *old ? ":" : "", old ? old : "");
    return n > 0 && (size_t)n < size;
}

/* LD_PRELOAD with libtacho_gemm.so first; false where that is not asked for or not possible, which
 * is said. */
static bool preload(struct col_session *session, const char *library, char *to, size_t size)
{
    char gemm[COL_PATH_MAX];
    const char *slash = strrchr(library, '/'), *old = getenv("LD_PRELOAD");
    if (!session->options->gemm_shapes)
        return false;
    int n = snprintf(gemm, sizeof gemm, "%.*s/libtacho_gemm.so", slash ? (int)(slash - library) : 1,
                     slash ? library : ".");
    if (n < 0 || (size_t)n >= sizeof gemm || access(gemm, R_OK)) {
        col_session_warn(
            session, "shapes of matrix products are not recorded: no libtacho_gemm.so beside %s",
            library);
        return false;
    }
    if (gemm[strcspn(gemm, " :")]) {
        col_session_warn(session,
                         "shapes of matrix products are not recorded: LD_PRELOAD cannot name a "
                         "path with a blank or a colon: %s",
                         gemm);
        return false;
    }
    n = snprintf(to, size, "%s%s%s", gemm, old && *old ? ":" : "", old ? old : "");
    return n > 0 && (size_t)n < size;
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
    struct col_env env[10 + COL_GPU_ENV_MAX];
    struct col_gpu_env gpu;
    size_t count = 0;
    env[count++] = (struct col_env){"NVTX_INJECTION64_PATH", library};
    env[count++] = (struct col_env){WIRE_ENV_SEGMENTS, session->live.segments};
    env[count++] = (struct col_env){WIRE_ENV_PAUSE, pause};
    if (session->options->pool_mib > 0) /* else a value of the user's own stays */
        env[count++] = (struct col_env){WIRE_ENV_POOL_MIB, pool};
    if (python_path(session, library, python, sizeof python))
        env[count++] = (struct col_env){"PYTHONPATH", python};
    if (session->options->stacks_hz >
        0) { /* names in /tmp/perf-PID.map: functions of Python from 3.12 on, kernels of oneDNN */
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
        session->result->exit_code = error == ENOENT ? 127 : error ? 126 : 125;
        return rc;
    }
    session->result->started = true;
    return 0;
}
