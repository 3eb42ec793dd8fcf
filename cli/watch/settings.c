/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/watch/settings.h"

#include <limits.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "tacho_folder.h"

int cli_watch_settings(const char *file, bool says, struct mon_config *config)
{
    char path[PATH_MAX];
    struct tacho_error err = {0};
    mon_config_init(config);
    if (!file && !tacho_config_name("tacho/watch.conf", path, sizeof path) && !access(path, F_OK))
        file = path;
    if (file && mon_config_read(config, file, &err))
        return cli_fail(&err);
    for (size_t i = 0; i < config->slo.count; i++) {
        struct mon_objective objective = config->slo.objective[i];
        struct mon_burn burn[MON_BURNS];
        char why[512];
        size_t count;
        objective.period_s = objective.period_s > 0 ? objective.period_s : MON_PERIOD_DAYS_30;
        if (mon_burns(&objective, 0, burn, &count, why, sizeof why, &err))
            return cli_fail(&err);
        if (*why && file && says)
            cli_say("objective %s: excluded: %s", objective.name, why);
    }
    return 0;
}
