/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/rocm/: captures of rocprofv3, as JSON (rocprof_json.c) and as rocpd
 * database (rocpd.c). Both hand the same records to rocm_rows.c.
 */
#ifndef STORE_IMPORT_ROCM_ROCM_PRIVATE_H
#define STORE_IMPORT_ROCM_ROCM_PRIVATE_H

#include "store/import/input/json.h"
#include "store/import/input/rows.h"
#include "store/import/kineto/kineto_text.h"

/* One process of a capture while it is read. */
struct rocm {
    struct imp_rows rows;
    struct imp_map agents;  /* id -> index in agent */
    struct imp_map kernels; /* id of a kernel -> string of its name */
    struct rocm_agent {
        int64_t gpu; /* number among the GPUs; STORE_ABSENT: a CPU */
    } * agent;
    size_t agent_count, agent_room;
    int64_t gpus;            /* among them */
    int64_t no_agent;        /* device records that name no GPU */
    int64_t others;          /* records of kinds that are not read */
    struct kineto_text text; /* of rocm_plain */
};

/* Work of a device. Fields that the capture does not have are absent. */
struct rocm_work {
    int64_t start, end, agent, queue, correlation;
    int64_t kernel;            /* id, of a kernel */
    int64_t name;              /* of this kernel alone, a string of the store; 0: that of the id */
    int64_t grid[3], group[3]; /* threads of the grid and of a work group */
    int64_t shared_memory;
    int64_t bytes;   /* of a copy or a fill */
    const char *way; /* of a copy: "MEMORY_COPY_HOST_TO_DEVICE"; NULL: a kernel or a fill */
    bool fill;       /* memory is set; it has its name as a kernel has */
};

/* Adds an agent; a GPU gets its number (STORE_ABSENT: the number of GPUs before it) and, where
 * known, its name and size under the run keys that all importers use. */
int rocm_agent_add(struct rocm *rocm, int64_t id, bool gpu, int64_t number, const char *name,
                   int64_t units);
/* Stores the name of a kernel. */
int rocm_kernel_name(struct rocm *rocm, const char *name, size_t bytes, int64_t *string);
int rocm_kernel_add(struct rocm *rocm, int64_t id, const char *name, size_t bytes);
/* A text of JSON with its escapes decoded, until the next call. */
struct ij_text rocm_plain(struct rocm *rocm, struct ij_text text);
int rocm_work_put(struct rocm *rocm, const struct rocm_work *work);
/* A call or range of a thread. `kind`: HIP_RUNTIME_API, MARKER_CORE_RANGE_API ... */
int rocm_call_put(struct rocm *rocm, const char *kind, const char *name, size_t bytes, int64_t tid,
                  int64_t start, int64_t end, int64_t correlation);
/* Writes losses and frees; `rc` is passed on. */
int rocm_end(struct rocm *rocm, int rc);

#endif
