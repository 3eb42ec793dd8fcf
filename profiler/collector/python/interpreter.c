/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter exports its runtime to extension modules, so the dynamic symbols are enough, and
 * a stripped one works as well.
 */
#include "profiler/collector/python/interpreter.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/collector.h"
#include "profiler/collector/stacks/mappings.h"

#define TABLE_MAX  (64u << 20) /* bytes of a table of symbols or names that are believed */
#define HEADERS    256u
#define PATH_BYTES 4096u

static const char *const symbol_name[COL_PYTHON_SYMBOLS] = {
    "_PyRuntime", "PyCode_Type", "Py_Version", "PyModule_AddObjectRef", "PyFrame_GetBack"};

/* ---- the file ----------------------------------------------------------------------------- */

static bool read_at(int fd, uint64_t offset, void *to, size_t bytes)
{
    return offset <= INT64_MAX && pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

static void *read_block(int fd, const Elf64_Shdr *section)
{
    void *block =
        section->sh_size && section->sh_size <= TABLE_MAX ? malloc(section->sh_size) : NULL;
    if (block && !read_at(fd, section->sh_offset, block, section->sh_size)) {
        free(block);
        block = NULL;
    }
    return block;
}

/* Looks the names up in a table of symbols. */
static void take_symbols(struct col_python_file *file, const Elf64_Sym *symbol, size_t count,
                         const char *names, size_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        if (symbol[i].st_shndx == SHN_UNDEF || symbol[i].st_name >= bytes)
            continue;
        const char *name = names + symbol[i].st_name;
        size_t room = bytes - symbol[i].st_name;
        for (int wanted = 0; wanted < COL_PYTHON_SYMBOLS; wanted++) {
            size_t length = strlen(symbol_name[wanted]) + 1;
            if (length <= room && memcmp(name, symbol_name[wanted], length) == 0)
                file->symbol[wanted] = symbol[i].st_value;
        }
    }
}

/* Finds the first address of the file: that of the segment which begins at its first byte. */
static bool find_base(int fd, const Elf64_Ehdr *header, uint64_t *base)
{
    Elf64_Phdr part;
    for (unsigned i = 0; i < header->e_phnum && i < HEADERS; i++)
        if (read_at(fd, header->e_phoff + (uint64_t)i * sizeof part, &part, sizeof part) &&
            part.p_type == PT_LOAD && part.p_offset < 4096) {
            *base = part.p_vaddr - part.p_offset;
            return true;
        }
    return false;
}

bool col_python_file_read(int fd, struct col_python_file *file)
{
    Elf64_Ehdr header;
    Elf64_Shdr table, names;
    *file = (struct col_python_file){0};
    if (!read_at(fd, 0, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof table ||
        header.e_phentsize != sizeof(Elf64_Phdr) || !find_base(fd, &header, &file->base))
        return false;
    for (unsigned i = 0; i < header.e_shnum && i < HEADERS; i++) {
        uint64_t at = header.e_shoff + (uint64_t)i * sizeof table;
        if (!read_at(fd, at, &table, sizeof table) || table.sh_type != SHT_DYNSYM)
            continue;
        at = header.e_shoff + (uint64_t)table.sh_link * sizeof names;
        if (table.sh_link >= header.e_shnum || !read_at(fd, at, &names, sizeof names))
            continue;
        Elf64_Sym *symbol = read_block(fd, &table);
        char *text = read_block(fd, &names);
        if (symbol && text)
            take_symbols(file, symbol, table.sh_size / sizeof *symbol, text, names.sh_size);
        free(symbol);
        free(text);
    }
    return file->symbol[COL_PYTHON_RUNTIME] && file->symbol[COL_PYTHON_CODE_TYPE];
}

/* ---- the process -------------------------------------------------------------------------- */

/* The file name of a path. */
static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* May the file be an interpreter by its name, "python3.11" or "libpython3.11.so.1.0"? The small
 * libpython3.so holds no code. */
static bool may_be_python(const char *path)
{
    const char *name = name_of(path);
    bool is_library = strncmp(name, "libpython", 9) == 0;
    return (is_library && strcmp(name, "libpython3.so") != 0) || strncmp(name, "python", 6) == 0 ||
           strncmp(name, "pypy", 4) == 0;
}

/* The version, from the file's symbols and the process' memory. 0: not known. */
static unsigned version_of(const struct col_python_file *file, int32_t pid, uint64_t bias)
{
    uint64_t word;
    if (file->symbol[COL_PYTHON_VERSION]) {
        int rc = col_python_read_process(&pid, file->symbol[COL_PYTHON_VERSION] + bias, &word,
                                         sizeof word);
        return rc ? 0 : (unsigned)(word >> 16 & 0xffff);
    }
    if (file->symbol[COL_PYTHON_IS_310])
        return 0x030a;
    return file->symbol[COL_PYTHON_IS_39] ? 0x0309 : 0x0308;
}

/* Fills in what is known of an interpreter whose file begins at `start` in the process. */
static enum col_python_found describe(int32_t pid, const struct col_python_file *file,
                                      uint64_t start, struct col_python *python,
                                      const char **reason)
{
    uint64_t bias = start - file->base, words[COL_PYTHON_WORDS];
    *python = (struct col_python){.version = version_of(file, pid, bias),
                                  .runtime = file->symbol[COL_PYTHON_RUNTIME] + bias,
                                  .code_type = file->symbol[COL_PYTHON_CODE_TYPE] + bias};
    int rc = col_python_read_process(&pid, python->runtime, words, sizeof words);
    if (rc) {
        *reason = rc == -EPERM || rc == -EACCES
                      ? "the kernel does not let tacho read the memory of the process "
                        "(kernel.yama.ptrace_scope, another user, a container without "
                        "CAP_SYS_PTRACE)"
                      : "the memory of the process cannot be read";
        return COL_PYTHON_REFUSED;
    }
    *reason = python->version ? col_python_version_refused(python->version)
                              : "the version of its Python is not known";
    if (!*reason && !col_python_layout_of(python->version, &python->layout))
        *reason = col_python_layout_read(python->version, words, COL_PYTHON_WORDS, &python->layout);
    return *reason ? COL_PYTHON_REFUSED : COL_PYTHON_FOUND;
}

/* Looks at one mapped file. */
static enum col_python_found consider(int32_t pid, const char *path, uint64_t start,
                                      struct col_python *python, const char **reason)
{
    struct col_python_file file;
    enum col_python_found found = COL_PYTHON_NOT;
    int fd = col_mapping_open(path, pid);
    if (fd < 0)
        return found;
    if (col_python_file_read(fd, &file))
        found = describe(pid, &file, start, python, reason);
    else if (strncmp(name_of(path), "pypy", 4) == 0 || strncmp(name_of(path), "libpypy", 7) == 0) {
        *reason = "PyPy: only the frames of CPython can be read";
        found = COL_PYTHON_REFUSED;
    }
    close(fd);
    return found;
}

enum col_python_found col_python_find(int32_t pid, struct col_python *python, const char **reason)
{
    char name[48], *line = NULL;
    size_t room = 0;
    enum col_python_found found = COL_PYTHON_NOT;
    snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(name, "re");
    *reason = NULL;
    /* BEGIN-END RIGHTS OFFSET DEVICE INODE PATH; an interpreter is mapped from its first byte on */
    while (maps && found == COL_PYTHON_NOT && getline(&line, &room, maps) > 0) {
        unsigned long long start, offset;
        const char *path = strchr(line, '/');
        if (!path || sscanf(line, "%llx-%*x %*s %llx", &start, &offset) != 2 || offset)
            continue;
        line[strcspn(line, "\n")] = 0;
        if (strlen(path) < PATH_BYTES && may_be_python(path))
            found = consider(pid, path, start, python, reason);
    }
    free(line);
    if (maps)
        fclose(maps);
    return found;
}
