/* SPDX-License-Identifier: Apache-2.0
 *
 * Text and files that come from outside while tacho runs: the map of names that a just-in-time
 * compiler writes
 * (/tmp/perf-PID.map), an ELF file of the target, its unwind tables, edits for --what-if, a user's
 * table of kernel classes, the settings of `tacho top`, the ceilings that calibrate keeps. The
 * first byte says which.
 */
#include <string.h>
#include <sys/stat.h>

#include "analyzers/device/classes.h"
#include "analyzers/replay/what_if.h"
#include "fuzz.h"
#include "profiler/collector/samplers/calibration.h"
#include "profiler/collector/stacks/mappings.h"
#include "profiler/collector/stacks/symbols.h"
#include "profiler/collector/stacks/unwind.h"
#include "tui/config.h"

/* libelf loses a few bytes of its own with files that are damaged in some ways. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libelf.so";
}

static void check(int ok)
{
    if (!ok)
        abort();
}

static void keep(const char *path, const uint8_t *data, size_t size)
{
    FILE *f = fopen(path, "we");
    check(f && fwrite(data, 1, size, f) == size);
    check(fclose(f) == 0);
}

/* In two parts: it is read again when it has grown. */
static void map(const uint8_t *data, size_t size)
{
    char path[64];
    struct col_symbols *s = col_symbols_new();
    check(s != NULL);
    snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
    for (int part = 2; part > 0; part--) {
        keep(path, data, size / (size_t)part);
        for (uint64_t address = 0; address < 0x5000; address += 0x333) {
            struct col_symbol x = col_symbols_in_map(s, (int32_t)getpid(), 0, address);
            check(!x.name || (strlen(x.name) > 0 && x.slot));
        }
        col_symbols_look_again(s);
    }
    unlink(path);
    col_symbols_free(s);
}

static void elf(const uint8_t *data, size_t size, bool tables)
{
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/tacho-fuzz-%ld.elf", (long)getpid());
    keep(path, data, size);
    if (!tables) {
        struct col_symbols *s = col_symbols_new();
        check(s != NULL);
        uint32_t file = col_symbols_file(s, (int32_t)getpid(), path, 0);
        for (uint64_t offset = 0; offset < 0x5000; offset += 0x111) {
            struct col_symbol x = col_symbols_at(s, file, offset);
            check(!x.name || x.slot);
        }
        col_symbols_free(s);
    } else {
        struct { /* PERF_RECORD_MMAP2 (mappings.h) */
            uint32_t pid, tid;
            uint64_t address, bytes, offset, inode[3];
            uint32_t protection, flags;
            char path[64];
        } body = {.pid = (uint32_t)getpid(),
                  .tid = 1,
                  .address = 0x10000,
                  .bytes = 0x10000,
                  .protection = 5};
        uint64_t reg[COL_UNWIND_REGISTERS] = {0}, ip[64], stack[64];
        struct col_mappings maps = {0};
        enum col_unwind_end end;
        memcpy(body.path, path, strlen(path) + 1);
        col_mappings_add(&maps, (const uint8_t *)&body, sizeof body);
        struct col_unwind *u = col_unwind_new(&maps);
        for (uint64_t k = 0; u && k < 16; k++) {
            for (size_t i = 0; i < COL_UNWIND_REGISTERS; i++)
                reg[i] = 0x10000 + k * 0x400;
            for (size_t i = 0; i < 64; i++)
                stack[i] = i % 3 ? 0x10000 + k * 0x400 + i * 8 : 0x10000 + i * 16;
            size_t n = col_unwind(u, (int32_t)getpid(), reg, (const uint8_t *)stack, sizeof stack,
                                  k & 1, ip, 64, &end);
            check(n >= 1 && n <= 64);
        }
        col_unwind_free(u);
        col_mappings_free(&maps);
    }
    unlink(path);
}

static void edits(const char *text)
{
    struct an_edit edit[AN_EDITS_MOST];
    char wrong[AN_EDIT_KEY];
    struct tacho_error err = {0};
    size_t count = 0;
    if (an_edits_parse(text, edit, &count, wrong, &err)) {
        check(err.what[0] && memchr(wrong, 0, sizeof wrong) != NULL);
        return;
    }
    check(count > 0 && count <= AN_EDITS_MOST);
    for (size_t i = 0; i < count; i++)
        check(memchr(edit[i].key, 0, sizeof edit[i].key) != NULL &&
              memchr(edit[i].text, 0, sizeof edit[i].text) != NULL);
}

static void classes(const char *text)
{
    static const char *const names[] = {"gemm",
                                        "void at::native::vectorized_elementwise_kernel<4>(int)",
                                        "ncclDevKernel_AllReduce", ""};
    an_classes *c = NULL;
    struct tacho_error err = {0};
    if (an_classes_new(text, &c, &err)) {
        check(err.what[0] && !c);
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check(an_class_of(c, names[i]).class < AN_DEVICE_CLASS_COUNT);
    an_classes_free(c);
}

/* The file that `tacho calibrate` leaves; it is found by the name that tacho gives it. */
static void ceilings(const uint8_t *data, size_t size)
{
    char folder[64], path[COL_PATH_MAX];
    struct col_calibration calibration;
    struct tacho_error err = {0};
    snprintf(folder, sizeof folder, "/dev/shm/tacho-fuzz-%ld", (long)getpid());
    mkdir(folder, 0700);
    check(setenv("XDG_CACHE_HOME", folder, 1) == 0);
    check(col_calibration_find(&calibration, "fuzz", path, &err) == TACHO_ENOTFOUND);
    col_calibration_clear(&calibration);
    char *slash = strrchr(path, '/');
    *slash = 0;
    mkdir(path, 0700);
    *slash = '/';
    keep(path, data, size);
    if (!col_calibration_find(&calibration, "fuzz", path, &err))
        for (size_t i = 0; i < calibration.rows; i++)
            check(memchr(calibration.row[i].how, 0, sizeof calibration.row[i].how) != NULL);
    else
        check(err.what[0]);
    col_calibration_clear(&calibration);
    unlink(path);
}

/* What is read is written again as it was understood. */
static void settings(const uint8_t *data, size_t size)
{
    char folder[64], path[128], written[4096];
    struct tui_ui ui, began, again;
    snprintf(folder, sizeof folder, "/dev/shm/tacho-fuzz-%ld", (long)getpid());
    mkdir(folder, 0700);
    check(setenv("XDG_CONFIG_HOME", folder, 1) == 0);
    snprintf(path, sizeof path, "%s/tacho", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/tacho/top.conf", folder);
    keep(path, data, size);
    tui_ui_init(&ui);
    began = ui;
    tui_config_read(&ui);
    check(tui_config_write(&ui, &began, written, sizeof written) == 0);
    tui_ui_init(&again);
    tui_config_read(&again);
    check(again.theme == ui.theme && again.glyphs == ui.glyphs && again.view == ui.view &&
          again.mouse == ui.mouse);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    char *text = malloc(size);
    check(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    switch (data[0] % 7) {
    case 0:
        map(data + 1, size - 1);
        break;
    case 1:
        elf(data + 1, size - 1, false);
        break;
    case 2:
        elf(data + 1, size - 1, true);
        break;
    case 3:
        edits(text);
        break;
    case 4:
        classes(text);
        break;
    case 5:
        settings(data + 1, size - 1);
        break;
    default:
        ceilings(data + 1, size - 1);
    }
    free(text);
    return 0;
}
