/* SPDX-License-Identifier: Apache-2.0
 *
 * Capabilities by the system calls: the C library has no functions for them.
 */
#include "profiler/collector/os/privileges.h"

#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* CAP_SYS_ADMIN: counters on kernels before CAP_PERFMON (5.8), and NVML's. */
static const int needed[] = {
    CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_KILL,     CAP_SYS_PTRACE, CAP_PERFMON,
    CAP_SYS_ADMIN,    CAP_SYS_RESOURCE,    CAP_SYS_NICE, CAP_IPC_LOCK,
};

bool col_privileges_have(int capability)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    return syscall(SYS_capget, &head, data) == 0 &&
           (data[capability / 32].effective >> capability % 32 & 1);
}

void col_privileges_keep(const int *capabilities, size_t count)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    uint32_t kept[_LINUX_CAPABILITY_U32S_3] = {0};
    if (syscall(SYS_capget, &head, data) != 0)
        return;
    for (size_t i = 0; i < count; i++)
        kept[capabilities[i] / 32] |= UINT32_C(1) << capabilities[i] % 32;
    for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        data[i].effective &= kept[i];
        data[i].permitted &= kept[i];
        data[i].inheritable = 0;
    }
    if (syscall(SYS_capset, &head, data) == 0)
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

void col_privileges_keep_from_target(void)
{
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, CAP_PERFMON, 0, 0);
}

void col_privileges_drop(void)
{
    col_privileges_keep(needed, sizeof needed / sizeof *needed);
}
