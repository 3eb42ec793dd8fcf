/* SPDX-License-Identifier: Apache-2.0
 *
 * What the collector reads as text and what it hides: redaction, /proc, payload schemas.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "profiler/collector/os/proc.h"
#include "profiler/collector/pool/payload.h"
#include "profiler/collector/run/hookless.h"
#include "profiler/collector/run/redact.h"
#include "tacho_nvtx.h"

static void check_command(char *const *argv, const char *wanted)
{
    char *text = col_redact_command(argv);
    assert_non_null(text);
    assert_string_equal(text, wanted);
    free(text);
}

static void test_command(void **state)
{
    (void)state;
    check_command((char *[]){"python3", "train.py", "--lr", "3e-4", "--tokens", "512", NULL},
                  "[\"python3\",\"train.py\",\"--lr\",\"3e-4\",\"--tokens\",\"512\"]");
    check_command((char *[]){"x", "--api-key", "abc", "--next", NULL},
                  "[\"x\",\"--api-key\",\"<redacted>\",\"--next\"]");
    check_command((char *[]){"x", "--password=abc", NULL}, "[\"x\",\"--password=<redacted>\"]");
    check_command((char *[]){"x", "WANDB_API_KEY=abc", "--auth_token=q", NULL},
                  "[\"x\",\"WANDB_API_KEY=<redacted>\",\"--auth_token=<redacted>\"]");
    check_command((char *[]){"x", "--token", "--flag", NULL}, "[\"x\",\"--token\",\"--flag\"]");
    check_command((char *[]){"x", "https://me:pw@host/path", "https://host/a@b", NULL},
                  "[\"x\",\"https://<redacted>@host/path\",\"https://host/a@b\"]");
    check_command((char *[]){"x", "me:pw@host", "me@host:22", "--db=me:pw@host/path", NULL},
                  "[\"x\",\"<redacted>@host\",\"me@host:22\",\"--db=<redacted>@host/path\"]");
    check_command((char *[]){"x", "--data=s3://u:p@bucket", NULL},
                  "[\"x\",\"--data=s3://<redacted>@bucket\"]");
    check_command((char *[]){"x", "hf_aBcDeFgHiJkLmNoPqRsTuV", NULL}, "[\"x\",\"<redacted>\"]");
    check_command((char *[]){"x", "kJ8sQz2LpX9vRt4WmB7nYc3D", NULL}, "[\"x\",\"<redacted>\"]");
    check_command(
        (char *[]){"x", "/data/imagenet/train/n01440764", "gpt2-124M", "a\"b\\c\n", NULL},
        "[\"x\",\"/data/imagenet/train/n01440764\",\"gpt2-124M\",\"a\\\"b\\\\c\\u000a\"]");
    check_command((char *[]){"x", "\xff\xc3\xa9", NULL}, "[\"x\",\"\xef\xbf\xbd\xc3\xa9\"]");
    check_command(
        (char *[]){"x", "--tokenizer=bpe", "--author=me", "--max-tokens=8", "--monkey=1", NULL},
        "[\"x\",\"--tokenizer=bpe\",\"--author=me\",\"--max-tokens=8\",\"--monkey=1\"]");
}

static void test_environment(void **state)
{
    (void)state;
    char *envp[] = {"PATH=/bin",
                    "RANK=3",
                    "OMP_NUM_THREADS=4",
                    "HF_TOKEN=x",
                    "NCCL_DEBUG=INFO",
                    "LC_ALL=C",
                    "AWS_SECRET_ACCESS_KEY=x",
                    "NCCL_SECRET=x",
                    "MKL_URL=http://u:p@h",
                    "HOME=/root",
                    "RANKS=1",
                    "LOCAL_RANK=hunter2",
                    "broken",
                    "=odd",
                    NULL};
    char *text = col_redact_environment(envp);
    assert_string_equal(
        text,
        "{\"LC_ALL\":\"C\",\"LOCAL_RANK\":\"<redacted>\",\"MKL_URL\":\"<redacted>\",\"NCCL_DEBUG\":"
        "\"INFO\",\"OMP_NUM_THREADS\":\"4\","
        "\"RANK\":\"3\"}");
    free(text);
}

#define STAT_TAIL \
    " S 10 11 12 0 -1 4194304 101 0 7 0 250 125 0 0 20 0 9 0 4242 1000000 321 " \
    "18446744073709551615 0 0 0 0"

static void test_stat(void **state)
{
    (void)state;
    struct col_proc_stat s;
    static const char *const names[] = {"sh", "a) b(", "x) S 1 2 3", "", "new\nline", ")))"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[512];
        snprintf(text, sizeof text, "99 (%s)" STAT_TAIL, names[i]);
        assert_int_equal(col_proc_parse_stat(text, &s), 0);
        assert_string_equal(s.comm, names[i]);
        assert_int_equal(s.pid, 99);
        assert_int_equal(s.state, 'S');
        assert_int_equal(s.parent, 10);
        assert_int_equal(s.session, 12);
        assert_int_equal(s.minor_faults, 101);
        assert_int_equal(s.major_faults, 7);
        assert_int_equal(s.user_ticks, 250);
        assert_int_equal(s.system_ticks, 125);
        assert_int_equal(s.threads, 9);
        assert_int_equal(s.start_ticks, 4242);
        assert_int_equal(s.rss_pages, 321);
    }
    assert_int_not_equal(col_proc_parse_stat("", &s), 0);
    assert_int_not_equal(col_proc_parse_stat("99 (sh", &s), 0);
    assert_int_not_equal(col_proc_parse_stat("99 (sh) S 1 2", &s), 0);
    assert_int_equal(col_proc_read_stat((int32_t)getpid(), &s), 0);
    assert_int_equal(s.parent, getppid());
    assert_true(col_proc_read_stat(INT32_MAX - 1, &s) < 0);
}

static void test_other_proc(void **state)
{
    (void)state;
    struct col_proc_cpu cpu;
    struct col_proc_disk disk;
    assert_int_equal(col_proc_parse_cpu("cpu  10 1 4 80 5 2 3 6 0 0\ncpu0 1 2 3\n", &cpu), 0);
    assert_int_equal(cpu.busy, 10 + 1 + 4 + 2 + 3 + 6);
    assert_int_equal(cpu.idle, 85);
    assert_int_not_equal(col_proc_parse_cpu("intr 1\n", &cpu), 0);
    assert_int_equal(
        col_proc_parse_disks(
            "   8 0 sda 5 0 100 1 6 0 200 1 0 0 0\n   8 1 sda1 5 0 100 1 6 0 200 1 0 0 0\n"
            " 259 0 nvme0n1 5 0 10 1 6 0 20 1 0 0 0\n 259 1 nvme0n1p1 5 0 10 1 6 0 20 1 0 0 0\n"
            " 253 0 dm-0 5 0 100 1 6 0 200 1 0 0 0\n   7 0 loop0 5 0 100 1 6 0 200 1 0 0 0\n",
            &disk),
        0);
    assert_int_equal(disk.read_bytes, 110 * 512);
    assert_int_equal(disk.written_bytes, 220 * 512);
    assert_int_not_equal(col_proc_parse_disks("   7 0 loop0 5 0 100 1 6 0 200 1 0 0 0\n", &disk),
                         0);
    assert_int_equal(col_proc_value("MemFree: 1 kB\nMemAvailable:   77 kB\n", "MemAvailable"), 77);
    assert_int_equal(col_proc_value("read_bytes: 12\ncancelled_write_bytes: 0\n", "write_bytes"),
                     -1);
}

static struct col_schema schema(const char *text)
{
    struct col_schema s;
    assert_int_equal(col_schema_parse(text, strlen(text), &s), 0);
    return s;
}

static void test_work(void **state)
{
    (void)state;
    /* another layout and fewer fields than include/tacho_nvtx.h has: names decide */
    struct col_schema s =
        schema("tacho.work\t16\npass\t12\t0\ndtype\t12\t1\nflops\t18\t8\nsomething\t18\t8\n");
    uint8_t data[16] = {TACHO_PASS_BACKWARD, TACHO_DTYPE_BF16};
    uint64_t flops = 1000;
    struct col_payload p;
    memcpy(data + 8, &flops, 8);
    col_payload_decode(&s, data, sizeof data, &p);
    assert_string_equal(p.detail.schema, "tacho.work");
    assert_string_equal(p.detail.dtype, "bf16");
    assert_string_equal(p.detail.pass, "backward");
    assert_int_equal(p.detail.flops, 1000);
    assert_int_equal(p.detail.model_flops,
                     1000); /* not given: what it does is what the model needs */
    assert_int_equal(p.detail.palm_flops, 1000);
    assert_true(p.detail.bytes_read == STORE_ABSENT);
    assert_null(p.detail.kind);
    assert_string_equal(p.detail.payload, "{\"something\":1000}"); /* no column is for it */
    data[0] = TACHO_PASS_RECOMPUTE;
    col_payload_decode(&s, data, sizeof data, &p);
    assert_int_equal(p.detail.model_flops, 0);
    data[0] = TACHO_PASS_OPTIMIZER; /* neither forward nor backward */
    col_payload_decode(&s, data, sizeof data, &p);
    assert_int_equal(p.detail.model_flops, 0);
    assert_int_equal(p.detail.flops, 1000);
    /* cut short: what is not there is absent */
    col_payload_decode(&s, data, 10, &p);
    assert_true(p.detail.flops == STORE_ABSENT);
    assert_true(p.detail.model_flops == STORE_ABSENT);
    assert_null(p.detail.payload);
    data[1] = 200; /* a type of a newer header */
    col_payload_decode(&s, data, sizeof data, &p);
    assert_null(p.detail.dtype);
    assert_int_equal(p.operands, 0);
}

/* The text that names the operands is an entry of the arena; it is no part of the detail. */
static void test_operands(void **state)
{
    (void)state;
    struct col_schema s = schema("tacho.work\t56\nflops\t18\t0\noperands\t80\t48\n");
    struct tacho_operation operation = {.work = {.flops = 5},
                                        .operands = (nvtxStringHandle_t)(uintptr_t)77};
    struct col_payload p;
    col_payload_decode(&s, &operation, sizeof operation, &p);
    assert_int_equal(p.operands, 77);
    assert_int_equal(p.detail.flops, 5);
    assert_null(p.detail.payload);
    assert_true(p.correlation == STORE_ABSENT);
    col_payload_decode(&s, &operation, sizeof operation.work, &p); /* cut short */
    assert_int_equal(p.operands, 0);
    operation.operands = (nvtxStringHandle_t)(uintptr_t)UINT64_MAX; /* no entry has this number */
    col_payload_decode(&s, &operation, sizeof operation, &p);
    assert_int_equal(p.operands, 0);
    s = schema("tacho.work\t56\noperands\t18\t48\n"); /* a number, not a text */
    col_payload_decode(&s, &operation, sizeof operation, &p);
    assert_int_equal(p.operands, 0);
}

static void test_step_and_comm(void **state)
{
    (void)state;
    struct col_payload p;
    struct col_schema s = schema("tacho.step\t24\nindex\t18\t0\ntokens\t18\t8\nsamples\t18\t16");
    struct tacho_step step = {.index = 7, .tokens = 0, .samples = 4};
    col_payload_decode(&s, &step, sizeof step, &p);
    assert_int_equal(p.index, 7);
    assert_int_equal(p.tokens, 0); /* measured */
    assert_int_equal(p.samples, 4);
    assert_true(p.detail.samples == STORE_ABSENT); /* differs by step: not in the detail */
    s = schema("tacho."
               "comm\t32\nbytes\t18\t0\ncommunicator\t18\t8\nsequence\t18\t16\nop\t16\t24\nranks\t1"
               "6\t28\n");
    struct tacho_comm comm = {.bytes = 1024,
                              .communicator = UINT64_MAX,
                              .sequence = 99,
                              .op = TACHO_COMM_ALL_REDUCE,
                              .ranks = 8};
    col_payload_decode(&s, &comm, sizeof comm, &p);
    assert_int_equal(p.correlation, 99);
    assert_int_equal(p.detail.communicator, -1);
    assert_string_equal(p.detail.collective, "all_reduce");
    struct tacho_comm other = comm;
    other.sequence = 100;
    col_payload_normalize(&s, &comm, sizeof comm);
    col_payload_normalize(&s, &other, sizeof other);
    assert_memory_equal(&comm, &other, sizeof comm);
    assert_int_equal(comm.bytes, 1024);
    s = schema("tacho.range\t24\nbytes\t18\t0\nsamples\t18\t8\nkind\t16\t16\n");
    struct tacho_range range = {.kind = TACHO_RANGE_INPUT_WAIT};
    col_payload_decode(&s, &range, sizeof range, &p);
    assert_string_equal(p.detail.kind, "input_wait");
    assert_true(p.detail.bytes == STORE_ABSENT); /* 0 stands for "makes no sense" there */
}

static void test_foreign(void **state)
{
    (void)state;
    struct col_payload p;
    struct col_schema s = schema(
        "NCCL\t24\nMessage size [bytes]\t22\t0\n\"q\\\t15\t8\nratio\t20\t16\nop\t16777300\t12\n");
    uint8_t data[24] = {0};
    int64_t minus = -5;
    double ratio = 0.5;
    data[1] = 1;
    memcpy(data + 8, &minus, 4);
    memcpy(data + 16, &ratio, 8);
    col_payload_decode(&s, data, sizeof data, &p);
    assert_string_equal(p.detail.schema, "NCCL");
    assert_string_equal(p.detail.payload,
                        "{\"Message size [bytes]\":256,\"\\\"q\\\\\":-5,\"ratio\":0.5}");
    col_payload_decode(NULL, data, 3, &p);
    assert_string_equal(p.detail.payload, "\"000100\"");
    col_payload_value(12, &p);
    assert_string_equal(p.detail.payload, "{\"value\":12}");
    struct col_schema bad;
    assert_int_equal(col_schema_parse("x\t1\nfield\tno\t0", 15, &bad), TACHO_EFORMAT);
    assert_int_equal(col_schema_parse("x\t1\nfield", 9, &bad), TACHO_EFORMAT);
    assert_int_equal(col_schema_parse("", 0, &bad), 0);
}

/* The CPUs of threads are united; what is no list of them adds none. */
static void test_affinity(void **state)
{
    (void)state;
    char text[64];
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    assert_true(col_proc_add_cpus("Name:\ttrain\nCpus_allowed_list:\t0-2,8\nMems:\t0\n", &cpus));
    assert_true(col_proc_add_cpus("Name:\ttrain\nCpus_allowed_list:\t3\n", &cpus));
    assert_true(col_proc_add_cpus("Name:\ttrain\nCpus_allowed_list:\t9000-9001\n", &cpus));
    assert_false(col_proc_add_cpus("Name:\tCpus_allowed_list: 5\n", &cpus));
    col_cpu_ranges(&cpus, text, sizeof text);
    assert_string_equal(text, "0-3,8");
}

#define TEXT(strings) strings, sizeof strings

static const char *hookless(const char *command, size_t command_length, const char *environment,
                            size_t environment_length)
{
    const char *reason = col_hookless_reason(command, command_length, environment,
                                             environment_length, "/lib/tacho-python");
    return reason ? reason : "";
}

/* Why Python does not import the hook: its options end at the program, -W and -X have values. */
static void test_hookless(void **state)
{
    (void)state;
#define KEPT "HOME=/\0PYTHONPATH=/lib/tacho-python:/mine"
    static const struct {
        const char *command;
        size_t length;
        const char *part;
    } commands[] = {{TEXT("python3\0train.py\0-I"), ""},
                    {TEXT("python3\0-I\0train.py"), "-I"},
                    {TEXT("python3\0-bIm\0train"), "-I"},
                    {TEXT("python3\0-u\0-E\0train.py"), "-E"},
                    {TEXT("python3\0-S\0train.py"), "-S"},
                    {TEXT("python3\0-W\0-E\0train.py"), ""},
                    {TEXT("python3\0-WE\0-X\0-S\0-c\0-I"), ""},
                    {TEXT("python3\0-cI"), ""},
                    {TEXT("python3\0-\0-I"), ""},
                    {TEXT("python3\0-W"), ""},
                    {TEXT("python3"), ""}};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const char *reason = hookless(commands[i].command, commands[i].length, TEXT(KEPT));
        if (commands[i].part[0] ? !strstr(reason, commands[i].part) : reason[0])
            fail_msg("command %zu: \"%s\"", i, reason);
    }
    assert_non_null(strstr(hookless(TEXT("python3"), TEXT("HOME=/")), "removed"));
    assert_non_null(strstr(hookless(TEXT("python3"), "", 0), "removed"));
    assert_non_null(strstr(hookless(TEXT("python3"), TEXT("PYTHONPATH=/mine")), "replaced"));
    assert_string_equal(hookless("", 0, TEXT(KEPT)), "");
#undef KEPT
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_command),  cmocka_unit_test(test_environment),
        cmocka_unit_test(test_stat),     cmocka_unit_test(test_other_proc),
        cmocka_unit_test(test_work),     cmocka_unit_test(test_step_and_comm),
        cmocka_unit_test(test_foreign),  cmocka_unit_test(test_affinity),
        cmocka_unit_test(test_hookless), cmocka_unit_test(test_operands),
    };
    return cmocka_run_group_tests_name("col_text", tests, NULL, NULL);
}
