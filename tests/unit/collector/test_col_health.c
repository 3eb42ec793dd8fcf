/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults of links and devices, from substitutes for /sys, /proc and the kernel's log in a folder of
 * the test: what there is, what changes, what cannot be read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "profiler/collector/samplers/health.h"

static char root[64];

/* Writes root/path and the folders to it, or appends to it. */
static void put_mode(const char *path, const void *text, size_t size, const char *mode)
{
    char name[512];
    snprintf(name, sizeof name, "%s/%s", root, path);
    for (char *slash = strchr(name + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(name, 0755);
        *slash = '/';
    }
    FILE *file = fopen(name, mode);
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void put(const char *path, const char *text)
{
    put_mode(path, text, strlen(text), "w");
}

static void append(const char *path, const char *text)
{
    put_mode(path, text, strlen(text), "a");
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/tacho-health-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

/* The values of one look. */
struct looked {
    struct {
        char name[32], device[48];
        int64_t process;
        double value;
    } row[64];
    size_t count;
};

static int keep(void *ctx, const struct col_health_value *value)
{
    struct looked *looked = ctx;
    assert_true(looked->count < 64);
    snprintf(looked->row[looked->count].name, 32, "%s", value->name);
    snprintf(looked->row[looked->count].device, 48, "%s", value->device ? value->device : "");
    looked->row[looked->count].process = value->process;
    looked->row[looked->count++].value = value->value;
    *value->track = 7;
    return 0;
}

/* The last value of a name and a device; -1: it was not written. */
static double value_of(const struct looked *looked, const char *name, const char *device)
{
    double value = -1;
    for (size_t i = 0; i < looked->count; i++)
        if (!strcmp(looked->row[i].name, name) && !strcmp(looked->row[i].device, device))
            value = looked->row[i].value;
    return value;
}

static struct col_health *open_health(void)
{
    static char sys[96], proc[96], log[96];
    snprintf(sys, sizeof sys, "%s/sys", root);
    snprintf(proc, sizeof proc, "%s/proc", root);
    snprintf(log, sizeof log, "%s/kmsg", root);
    const struct col_health_roots roots = {sys, proc, log};
    struct col_health *health = col_health_open(&roots);
    assert_non_null(health);
    return health;
}

static struct looked look(struct col_health *health, size_t processes)
{
    static const struct col_health_process process[] = {{11, 500}, {12, 501}};
    struct looked looked = {.count = 0};
    assert_int_equal(col_health_look(health, process, processes, keep, &looked), 0);
    return looked;
}

#define assert_value(looked, name, device, wanted) \
    assert_true(value_of(looked, name, device) > (wanted)-1e-9 && \
                value_of(looked, name, device) < (wanted) + 1e-9)

static void test_links(void **state)
{
    (void)state;
    put("sys/bus/pci/devices/0000:3b:00.0/class", "0x030200\n");
    put("sys/bus/pci/devices/0000:3b:00.0/current_link_width", "16\n");
    put("sys/bus/pci/devices/0000:3b:00.0/current_link_speed", "16.0 GT/s PCIe\n");
    put("sys/bus/pci/devices/0000:00:1f.0/class", "0x060100\n"); /* a bridge */
    put("sys/bus/pci/devices/0000:00:1f.0/current_link_width", "4\n");
    put("sys/bus/pci/devices/0000:5e:00.0/class", "0x020700\n");
    put("sys/bus/pci/devices/0000:5e:00.0/current_link_width", "16\n");
    put("sys/bus/pci/devices/0000:5e:00.0/current_link_speed", "Unknown\n");
    put("sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    put("sys/class/net/eth0/device/vendor", "0x15b3\n");
    put("sys/class/net/eth0/speed", "100000\n");
    put("sys/class/net/lo/speed", "-1\n");
    put("sys/class/net/docker0/speed", "10000\n");
    struct col_health *health = open_health();
    assert_string_equal(col_health_kernel_log(health), "No such file or directory");
    struct looked looked = look(health, 0);
    assert_int_equal(looked.count, 5);
    assert_value(&looked, "pcie_width", "pci:0000:3b:00.0", 16);
    assert_value(&looked, "pcie_speed", "pci:0000:3b:00.0", 16);
    assert_value(&looked, "pcie_width", "pci:0000:5e:00.0", 16);
    assert_value(&looked, "link_rate", "mlx5_0/1", 400);
    assert_value(&looked, "link_rate", "eth0", 100);
    assert_int_equal(look(health, 0).count, 0); /* nothing is another one */
    put("sys/bus/pci/devices/0000:3b:00.0/current_link_width", "4\n");
    put("sys/class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (1X NDR)\n");
    looked = look(health, 0);
    assert_int_equal(looked.count, 2);
    assert_value(&looked, "pcie_width", "pci:0000:3b:00.0", 4);
    assert_value(&looked, "link_rate", "mlx5_0/1", 100);
    col_health_reset(health);
    assert_int_equal(look(health, 0).count, 5); /* rows that were taken back are written again */
    col_health_close(health);
}

static void test_kernel_log(void **state)
{
    (void)state;
    put("kmsg", "4,1,1,-;NVRM: Xid (PCI:0000:17:00): 31, pid=1, before the recording\n");
    struct col_health *health = open_health();
    assert_string_equal(col_health_kernel_log(health), "ok");
    assert_int_equal(look(health, 0).count, 0);
    append("kmsg", "4,2,2,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=5, GPU has fallen off the bus.\n"
                   "6,3,3,-;usb 1-1: new device\n"
                   "4,4,4,-;NVRM: Xid (PCI:0000:c1:00.1): 63, pid=5, Row Remapper\n"
                   "4,5,5,-;NVRM: Xid (PCI:broken\n");
    struct looked looked = look(health, 0);
    assert_int_equal(looked.count, 2);
    assert_value(&looked, "gpu_xid", "pci:0000:3b:00.0", 79);
    assert_value(&looked, "gpu_xid", "pci:0000:c1:00.1", 63);
    append("kmsg", "4,6,6,-;NVRM: Xid (PCI:0000:3b:00): 79, again\n");
    assert_int_equal(look(health, 0).count, 1);
    col_health_close(health);
}

/* The first thread of process 500 runs on CPU 1 and moves to CPU 2, of the other node. */
static void test_nodes(void **state)
{
    (void)state;
    static const char stat[] = "500 (a (b) c) S 1 1 1 0 -1 0 10 0 2 0 5 6 0 0 20 0 3 0 99 0 7 0 0 "
                               "0 0 0 0 0 0 0 0 0 0 0 17 %d 0 0 0 0 0\n";
    char text[256];
    put("sys/devices/system/node/node0/cpulist", "0-1\n");
    put("sys/devices/system/node/node1/cpulist", "2,3\n");
    put("sys/devices/system/node/node0/numastat", "numa_hit 5\nother_node 100\n");
    put("sys/devices/system/node/node1/numastat", "numa_hit 5\nother_node 20\n");
    snprintf(text, sizeof text, stat, 1);
    put("proc/500/stat", text);
    struct col_health *health = open_health();
    struct looked looked = look(health, 1);
    assert_value(&looked, "numa_node", "", 0);
    assert_value(&looked, "numa_other_node", "", 120);
    snprintf(text, sizeof text, stat, 2);
    put("proc/500/stat", text);
    looked = look(health, 1);
    assert_value(&looked, "numa_node", "", 1);
    assert_int_equal(looked.row[looked.count - 1].process, 11);
    col_health_close(health);
}

/* NCCL writes a file for each process; a line that is not complete yet is read later. */
static void test_nccl(void **state)
{
    (void)state;
    const char with_file[] = "PATH=/bin\0NCCL_DEBUG_FILE=/log/nccl.%p\0A=b";
    put_mode("proc/500/environ", with_file, sizeof with_file, "w");
    put_mode("proc/501/environ", "PATH=/bin", sizeof "PATH=/bin", "w");
    struct col_health *health = open_health();
    assert_int_equal(look(health, 2).count, 0);
    put("proc/500/root/log/nccl.500", "a:1:1 [0] NCCL INFO Using network IB\na:1:1 [0] NCCL INFO "
                                      "Channel 00/0 : 1[1] -> 2[0] [send] via NET/Sock");
    struct looked looked = look(health, 2);
    assert_int_equal(looked.count, 1);
    assert_value(&looked, "nccl_network", "", 2);
    assert_int_equal(looked.row[0].process, 11);
    append("proc/500/root/log/nccl.500", "et/0\n");
    looked = look(health, 2);
    assert_value(&looked, "nccl_network", "", 1);
    append("proc/500/root/log/nccl.500", "a:1:1 [0] NCCL INFO Using network Socket\n");
    assert_int_equal(look(health, 2).count, 0);
    assert_int_equal(look(health, 0).count, 0); /* both have ended */
    col_health_close(health);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_links, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_kernel_log, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_nodes, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_nccl, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
