/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of routers' choices.
 */
#include "workloads/routing.h"

#include <errno.h>
#include <string.h>

#include "workloads/parallel.h"

int routing_open(FILE **out, const char *path, const struct lt_model *model,
                 const struct lt_parallel *parallel, struct tacho_error *err)
{
    char own[PATH_MAX];
    struct lt_routed routed;
    *out = NULL;
    if (!path)
        return 0;
    if (!model->ops->routed)
        return tacho_fail(err, TACHO_EUSAGE, "choose a moe model", "--routing: %s has no routers",
                          model->ops->name);
    int rc = parallel_own_path(parallel, path, "--routing", own, err);
    if (rc)
        return rc;
    *out = fopen(own, "w");
    if (!*out)
        return tacho_fail(err, TACHO_EIO, "name a file that can be written", "%s: %s", own,
                          strerror(errno));
    model->ops->routed(model, 0, &routed);
    fprintf(*out, "step\tmicro_batch\tlayer\tcapacity");
    for (int64_t i = 0; i < routed.experts; i++)
        fprintf(*out, "\texpert%lld", (long long)i);
    fprintf(*out, "\n");
    return 0;
}

void routing_add(void *arg, const struct lt_routed *routed)
{
    FILE *table = arg;
    fprintf(table, "%lld\t%d\t%d\t%lld", (long long)routed->step, routed->micro, routed->layer,
            (long long)routed->capacity);
    for (int64_t i = 0; i < routed->experts; i++)
        fprintf(table, "\t%.0f", (double)routed->load[i]);
    fprintf(table, "\n");
}

int routing_close(FILE *table, const char *path, struct tacho_error *err)
{
    if (!table)
        return 0;
    int failed = ferror(table);
    if (fclose(table) == 0 && !failed)
        return 0;
    return tacho_fail(err, TACHO_EIO, NULL, "%s: not all of it could be written: %s", path,
                      strerror(errno));
}
