/* SPDX-License-Identifier: Apache-2.0
 *
 * Read from /proc. The CPU model names the file of a calibration and the cached instruction peak;
 * the boot id tells `tacho recover` whether the clocks of a recording are still those of now.
 */
#include "profiler/collector/os/machine.h"

#include <stdio.h>
#include <string.h>

#include "profiler/collector/os/proc.h"

void col_read_boot_id(char *text, size_t size)
{
    if (col_proc_read("/proc/sys/kernel/random/boot_id", text, size) < 0)
        text[0] = 0;
    text[strcspn(text, "\n")] = 0;
}

void col_cpu_model(char *text, size_t size)
{
    char cpuinfo[8192];
    text[0] = 0;
    if (col_proc_read("/proc/cpuinfo", cpuinfo, sizeof cpuinfo) <= 0)
        return;
    const char *model = strstr(cpuinfo, "model name");
    model = model ? strchr(model, ':') : NULL;
    if (model)
        snprintf(text, size, "%.*s", (int)strcspn(model + 2, "\n"), model + 2);
}
