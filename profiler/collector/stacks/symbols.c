/* SPDX-License-Identifier: Apache-2.0
 *
 * Function names from ELF files and perf maps. Symbols of a file are read at its first question and
 * sorted by address; their names stay in the file and are read one at a time, because those of a
 * large library would take tens of megabytes. Perf maps grow while the program runs, so they are
 * read from where the last reading ended.
 */
#include "profiler/collector/stacks/symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/collector/collector.h"
#include "profiler/collector/os/demangle.h"
#include "profiler/collector/os/list.h"
#include "profiler/collector/stacks/mappings.h"

#define NAME_MAX_BYTES 4096
#define TABLE_MAX      (256u << 20) /* bytes of a symbol table that are believed */
#define MAP_MAX        (64u << 20)  /* bytes of a map that are read; later code has no names */
#define MAP_LINE_MAX   (64u << 10)  /* bytes without a line break that end the reading of a map */
#define MAP_NAMES_MAX  (1u << 20)
#define MAP_OVERLAP    32 /* rows searched for an address: newer code may overlap older code */
#define SEGMENTS_MAX   64u
#define FILES_MAX      512u /* that are held open for their names */

struct symbol {
    uint64_t start;      /* first: col_rows_until reads it */
    uint32_t size, name; /* name: offset in the table of names */
    uint8_t source;      /* index in names of struct file */
    bool open;           /* has no size of its own: a sized symbol at the same place is preferred */
    uint8_t rank;        /* of several at one place the highest: 2 global, 1 weak, 0 local */
    int64_t slot;
};

/* The open file and the part of it that holds the names. */
struct names {
    int fd;
    uint64_t offset, bytes;
};

struct segment {
    uint64_t offset, address, bytes;
};

struct file {
    char *path;
    uint64_t inode;
    int32_t pid;
    bool read;
    struct symbol *symbol; /* by start */
    size_t symbols, room;
    struct names names[2]; /* the file's own, its debug file's */
    struct segment segment[SEGMENTS_MAX];
    unsigned segments;
    int64_t slot;
};

/* /tmp/perf-PID.map as far as it was read. */
struct map_symbol {
    uint64_t start, size; /* start first */
    size_t name;          /* in text */
    int64_t slot;
};
struct map {
    int32_t pid;
    off_t bytes;   /* read so far, whole lines */
    uint64_t turn; /* in which it was read */
    char *text;
    size_t used, cap;
    struct map_symbol *symbol; /* by start */
    size_t symbols, room;
};

struct col_symbols {
    struct file **file;
    size_t files, file_room;
    struct map *map;
    size_t maps;
    unsigned held;
    uint64_t turn; /* col_symbols_look_again */
    char name[NAME_MAX_BYTES];
    char *demangled;
};

struct col_symbols *col_symbols_new(void)
{
    return calloc(1, sizeof(struct col_symbols));
}

void col_symbols_free(struct col_symbols *symbols)
{
    for (size_t i = 0; symbols && i < symbols->files; i++) {
        for (int source = 0; source < 2; source++)
            if (symbols->file[i]->names[source].fd >= 0)
                close(symbols->file[i]->names[source].fd);
        free(symbols->file[i]->symbol);
        free(symbols->file[i]->path);
        free(symbols->file[i]);
    }
    for (size_t i = 0; symbols && i < symbols->maps; i++) {
        free(symbols->map[i].text);
        free(symbols->map[i].symbol);
    }
    if (symbols) {
        free(symbols->file);
        free(symbols->map);
        free(symbols->demangled);
    }
    free(symbols);
}

uint32_t col_symbols_file(struct col_symbols *symbols, int32_t pid, const char *path,
                          uint64_t inode)
{
    for (size_t i = 0; i < symbols->files; i++)
        if (symbols->file[i]->inode == inode && strcmp(symbols->file[i]->path, path) == 0)
            return (uint32_t)i;
    struct file **list =
        col_list_room(symbols->file, &symbols->file_room, symbols->files + 1, sizeof *list);
    symbols->file = list ? list : symbols->file;
    struct file *file = list ? calloc(1, sizeof *file) : NULL;
    if (!file || !(file->path = strdup(path))) {
        free(file);
        return UINT32_MAX;
    }
    file->pid = pid;
    file->inode = inode;
    file->names[0].fd = file->names[1].fd = -1;
    symbols->file[symbols->files] = file;
    return (uint32_t)symbols->files++;
}

/* ---- ELF ------------------------------------------------------------------------------------------------------------------- */

static bool read_at(int fd, uint64_t offset, void *to, size_t bytes)
{
    return offset <= INT64_MAX && pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

static void *read_block(int fd, uint64_t offset, uint64_t bytes)
{
    void *block = bytes && bytes <= TABLE_MAX ? malloc(bytes) : NULL;
    if (block && !read_at(fd, offset, block, bytes)) {
        free(block);
        block = NULL;
    }
    return block;
}

static bool is_function(const Elf64_Sym *entry)
{
    unsigned type = ELF64_ST_TYPE(entry->st_info);
    return (type == STT_FUNC || type == STT_GNU_IFUNC) && entry->st_shndx != SHN_UNDEF &&
           entry->st_value && entry->st_name;
}

static uint8_t rank_of(const Elf64_Sym *entry)
{
    unsigned binding = ELF64_ST_BIND(entry->st_info);
    if (binding == STB_GLOBAL)
        return 2;
    return binding == STB_WEAK;
}

/* The size of a function. Functions written in assembler may have none: they end with their section
 * at the latest (.plt, which follows _init, is not part of it). */
static uint32_t size_of(const Elf64_Sym *entry, const Elf64_Ehdr *header, const Elf64_Shdr *section)
{
    uint64_t size = entry->st_size;
    if (!size && entry->st_shndx < header->e_shnum) {
        const Elf64_Shdr *own = &section[entry->st_shndx];
        if (entry->st_value >= own->sh_addr && entry->st_value - own->sh_addr < own->sh_size)
            size = own->sh_size - (entry->st_value - own->sh_addr);
    }
    return size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
}

/* Adds the functions of one symbol table. Their names stay in the file. */
static void add_table(struct file *file, int source, int fd, const Elf64_Ehdr *header,
                      const Elf64_Shdr *section, const Elf64_Shdr *table)
{
    const Elf64_Shdr *names = &section[table->sh_link];
    Elf64_Sym *table_symbols = read_block(fd, table->sh_offset, table->sh_size);
    size_t count = table_symbols ? table->sh_size / sizeof *table_symbols : 0;
    for (size_t i = 0; i < count; i++) {
        const Elf64_Sym *entry = &table_symbols[i];
        if (!is_function(entry) || entry->st_name >= names->sh_size)
            continue;
        struct symbol *list =
            col_list_room(file->symbol, &file->room, file->symbols + 1, sizeof *list);
        if (!list)
            break;
        file->symbol = list;
        list[file->symbols++] = (struct symbol){.start = entry->st_value,
                                                .size = size_of(entry, header, section),
                                                .open = !entry->st_size,
                                                .name = entry->st_name,
                                                .source = (uint8_t)source,
                                                .rank = rank_of(entry)};
    }
    free(table_symbols);
    file->names[source] = (struct names){fd, names->sh_offset, names->sh_size};
}

/* Reads the symbols of .symtab, else of .dynsym, and returns how many there are. */
static size_t read_symbols(struct file *file, int source, int fd, const Elf64_Ehdr *header,
                           const Elf64_Shdr *section)
{
    size_t before = file->symbols;
    for (unsigned pass = 0; pass < 2 && file->symbols == before; pass++)
        for (unsigned i = 0; i < header->e_shnum && file->symbols == before; i++)
            if (section[i].sh_type == (pass ? SHT_DYNSYM : SHT_SYMTAB) &&
                section[i].sh_link < header->e_shnum &&
                section[section[i].sh_link].sh_type == SHT_STRTAB)
                add_table(file, source, fd, header, section, &section[i]);
    return file->symbols - before;
}

/* Is it a 64-bit little-endian ELF file with section headers of the expected size? */
static bool is_elf(int fd, Elf64_Ehdr *header)
{
    return read_at(fd, 0, header, sizeof *header) &&
           memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
           header->e_shentsize == sizeof(Elf64_Shdr);
}

static void read_segments(struct file *file, int fd, const Elf64_Ehdr *header)
{
    for (unsigned i = 0; i < header->e_phnum && header->e_phentsize == sizeof(Elf64_Phdr) &&
                         file->segments < SEGMENTS_MAX;
         i++) {
        Elf64_Phdr segment;
        if (read_at(fd, header->e_phoff + i * sizeof segment, &segment, sizeof segment) &&
            segment.p_type == PT_LOAD)
            file->segment[file->segments++] =
                (struct segment){segment.p_offset, segment.p_vaddr, segment.p_filesz};
    }
}

/* The name of the separate debug file, /usr/lib/debug/.build-id/ab/cdef...debug; false where the
 * file has no build id. */
static bool debug_path(int fd, const Elf64_Ehdr *header, const Elf64_Shdr *section, char *path,
                       size_t size)
{
    for (unsigned i = 0; i < header->e_shnum; i++) {
        unsigned char note[sizeof(Elf64_Nhdr) + 4 + 20];
        const Elf64_Nhdr *head = (const Elf64_Nhdr *)note;
        if (section[i].sh_type != SHT_NOTE || section[i].sh_size != sizeof note ||
            !read_at(fd, section[i].sh_offset, note, sizeof note) ||
            head->n_type != NT_GNU_BUILD_ID || head->n_descsz != 20)
            continue;
        int length = snprintf(path, size, "/usr/lib/debug/.build-id/%02x/", note[sizeof *head + 4]);
        for (unsigned byte = 1; byte < 20; byte++)
            length += snprintf(path + length, size - (size_t)length, "%02x",
                               note[sizeof *head + 4 + byte]);
        snprintf(path + length, size - (size_t)length, ".debug");
        return true;
    }
    return false;
}

/* By address; of several at one place the best comes last: sized, then larger, then by rank. */
static int order_symbols(const void *left, const void *right)
{
    const struct symbol *first = left, *second = right;
    if (first->start != second->start)
        return first->start < second->start ? -1 : 1;
    if (first->open != second->open)
        return first->open ? -1 : 1;
    if (first->size != second->size)
        return first->size < second->size ? -1 : 1;
    return (first->rank > second->rank) - (first->rank < second->rank);
}

/* Reads the symbols of one ELF file, and those of its debug file (source 1). The descriptor stays
 * open if there are any, because their names are read from it later. */
static void read_elf(struct col_symbols *symbols, struct file *file, int source, int fd)
{
    Elf64_Ehdr header;
    char debug[COL_PATH_MAX];
    Elf64_Shdr *section = NULL;
    bool kept = false;
    if (fd >= 0 && is_elf(fd, &header) &&
        (section = read_block(fd, header.e_shoff, (uint64_t)header.e_shnum * sizeof *section))) {
        kept = read_symbols(file, source, fd, &header, section) > 0;
        if (source == 0) {
            read_segments(file, fd, &header);
            if (debug_path(fd, &header, section, debug, sizeof debug))
                read_elf(symbols, file, 1, open(debug, O_RDONLY | O_CLOEXEC));
        }
    }
    free(section);
    if (kept)
        symbols->held++;
    else if (fd >= 0)
        close(fd);
}

static void read_file(struct col_symbols *symbols, struct file *file)
{
    file->read = true;
    read_elf(symbols, file, 0,
             symbols->held < FILES_MAX ? col_mapping_open(file->path, file->pid) : -1);
    if (file->symbols)
        qsort(file->symbol, file->symbols, sizeof *file->symbol, order_symbols);
}

/* A name as people write it: without the version of the dynamic linker ("memcpy@@GLIBC_2.14"), and
 * demangled. */
static const char *shown(struct col_symbols *symbols, char *name)
{
    char *version = strchr(name, '@');
    if (version && version > name)
        *version = 0;
    free(symbols->demangled);
    symbols->demangled = col_demangle(name);
    return symbols->demangled ? symbols->demangled : name;
}

struct col_symbol col_symbols_at(struct col_symbols *symbols, uint32_t file, uint64_t offset)
{
    struct file *entry = symbols->file[file];
    uint64_t address = offset;
    if (!entry->read)
        read_file(symbols, entry);
    bool inside = entry->segments == 0;
    for (unsigned i = 0; i < entry->segments; i++)
        if (offset >= entry->segment[i].offset &&
            offset - entry->segment[i].offset < entry->segment[i].bytes) {
            address = offset - entry->segment[i].offset + entry->segment[i].address;
            inside = true;
        }
    size_t place = col_rows_until(entry->symbol, entry->symbols, sizeof *entry->symbol, address);
    struct symbol *symbol = place && inside ? &entry->symbol[place - 1] : NULL;
    /* a symbol without a size reaches up to the next one */
    if (!symbol || (symbol->size && address - symbol->start >= symbol->size))
        return (struct col_symbol){NULL, NULL};
    if (symbol->slot)
        return (struct col_symbol){"", &symbol->slot};
    const struct names *names = &entry->names[symbol->source];
    uint64_t left = names->bytes - symbol->name;
    ssize_t got = pread(names->fd, symbols->name,
                        left < sizeof symbols->name - 1 ? left : sizeof symbols->name - 1,
                        (off_t)(names->offset + symbol->name));
    if (got <= 0)
        return (struct col_symbol){NULL, NULL};
    symbols->name[got] = 0;
    return (struct col_symbol){shown(symbols, symbols->name), &symbol->slot};
}

int64_t *col_symbols_file_slot(struct col_symbols *symbols, uint32_t file)
{
    return &symbols->file[file]->slot;
}

const char *col_symbols_file_name(const struct col_symbols *symbols, uint32_t file)
{
    const char *slash = strrchr(symbols->file[file]->path, '/');
    if (strcmp(symbols->file[file]->path, COL_MAPPING_VDSO) == 0)
        return "vdso";
    return slash ? slash + 1 : symbols->file[file]->path;
}

/* ---- /tmp/perf-PID.map ------------------------------------------------------------------------------------------------------ */

/* The map of a process, made if it is new. NULL: out of memory. */
static struct map *map_of(struct col_symbols *symbols, int32_t pid)
{
    for (size_t i = 0; i < symbols->maps; i++)
        if (symbols->map[i].pid == pid)
            return &symbols->map[i];
    struct map *list = realloc(symbols->map, (symbols->maps + 1) * sizeof *list);
    if (!list)
        return NULL;
    symbols->map = list;
    list[symbols->maps] = (struct map){.pid = pid, .turn = symbols->turn - 1};
    return &list[symbols->maps++];
}

/* A line: START SIZE NAME, numbers in hex. */
static void add_line(struct map *map, char *line)
{
    char *end, *name;
    uint64_t start = strtoull(line, &end, 16);
    uint64_t size = *end == ' ' ? strtoull(end, &name, 16) : 0;
    if (!size || *name != ' ' || !name[1] || map->symbols == MAP_NAMES_MAX)
        return;
    struct map_symbol *list =
        col_list_room(map->symbol, &map->room, map->symbols + 1, sizeof *list);
    if (!list)
        return;
    map->symbol = list;
    list[map->symbols++] =
        (struct map_symbol){.start = start, .size = size, .name = (size_t)(name + 1 - map->text)};
}

/* By address; of equal ones the later line, which has the current name, comes last. */
static int order_map(const void *left, const void *right)
{
    const struct map_symbol *first = left, *second = right;
    if (first->start != second->start)
        return first->start < second->start ? -1 : 1;
    return first->name < second->name ? -1 : first->name > second->name;
}

/* Sorts the rows from `old` on and merges them with those before, from the end to the front. */
static void sort_map(struct map *map, size_t old)
{
    size_t new = map->symbols - old, place = map->symbols, left = old;
    struct map_symbol *tail = new &&old ? malloc(new * sizeof *tail) : NULL;
    if (!tail) { /* all rows are new, or memory is short: sort everything */
        if (new)
            qsort(map->symbol, map->symbols, sizeof *map->symbol, order_map);
        return;
    }
    memcpy(tail, map->symbol + old, new * sizeof *tail);
    qsort(tail, new, sizeof *tail, order_map);
    while (new)
        map->symbol[--place] = left && order_map(&map->symbol[left - 1], &tail[new - 1]) > 0
                                   ? map->symbol[--left]
                                   : tail[--new];
    free(tail);
}

/* Opens the perf map of a process, in its container or here. Like perf, it ignores a map that
 * another user wrote. */
static int open_map(int32_t pid)
{
    char process[32], path[64];
    struct stat file, own;
    snprintf(process, sizeof process, "/proc/%d", pid);
    uid_t owner = stat(process, &own) == 0 ? own.st_uid : geteuid();
    snprintf(path, sizeof path, "%s/root/tmp/perf-%d.map", process, pid);
    for (int attempt = 0; attempt < 2; attempt++) {
        if (attempt)
            snprintf(path, sizeof path, "/tmp/perf-%d.map", pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
            (file.st_uid == owner || file.st_uid == geteuid() || file.st_uid == 0))
            return fd;
        if (fd >= 0)
            close(fd);
    }
    return -1;
}

/* Reads the whole lines that were added to a map since the last time. */
static void read_more(struct map *map)
{
    struct stat stat;
    size_t old = map->symbols;
    int fd = map->bytes < (off_t)MAP_MAX ? open_map(map->pid) : -1;
    if (fd < 0)
        return;
    if (fstat(fd, &stat) == 0 && stat.st_size > map->bytes) {
        off_t until = stat.st_size < (off_t)MAP_MAX ? stat.st_size : (off_t)MAP_MAX;
        size_t more = (size_t)(until - map->bytes);
        char *text = realloc(map->text, map->used + more + 1);
        ssize_t got = text ? pread(fd, text + map->used, more, map->bytes) : -1;
        map->text = text ? text : map->text;
        size_t whole = got > 0 ? (size_t)got : 0;
        while (whole && map->text[map->used + whole - 1] != '\n')
            whole--;
        for (size_t line = map->used, end = map->used + whole; line < end;) {
            char *newline = memchr(map->text + line, '\n', end - line);
            *newline = 0;
            add_line(map, map->text + line);
            line = (size_t)(newline + 1 - map->text);
        }
        map->used += whole;
        map->bytes += (off_t)whole;
        if (until == (off_t)MAP_MAX || (got > 0 && (size_t)got - whole > MAP_LINE_MAX))
            map->bytes = (off_t)MAP_MAX; /* do not read it again */
        sort_map(map, old);
    }
    close(fd);
}

/* The function at an address. Of several the one that was written last: the code of earlier ones is
 * gone. */
static struct map_symbol *find_in(struct map *map, uint64_t address)
{
    size_t count = col_rows_until(map->symbol, map->symbols, sizeof *map->symbol, address);
    struct map_symbol *best = NULL;
    for (size_t i = count; i-- > 0 && count - i <= MAP_OVERLAP;) {
        struct map_symbol *candidate = &map->symbol[i];
        if (address - candidate->start < candidate->size && (!best || candidate->name > best->name))
            best = candidate;
    }
    return best;
}

struct col_symbol col_symbols_in_map(struct col_symbols *symbols, int32_t pid, int32_t parent,
                                     uint64_t address)
{
    const int32_t pids[] = {pid, parent};
    for (int i = 0; i < 2 && pids[i]; i++) {
        struct map *map = map_of(symbols, pids[i]);
        struct map_symbol *found = map ? find_in(map, address) : NULL;
        if (map && !found && map->turn != symbols->turn) {
            map->turn = symbols->turn;
            read_more(map);
            found = find_in(map, address);
        }
        if (found)
            return (struct col_symbol){map->text + found->name, &found->slot};
    }
    return (struct col_symbol){NULL, NULL};
}

void col_symbols_look_again(struct col_symbols *symbols)
{
    symbols->turn++;
}

void col_symbols_forget(struct col_symbols *symbols)
{
    for (size_t i = 0; i < symbols->files; i++) {
        symbols->file[i]->slot = 0;
        for (size_t k = 0; k < symbols->file[i]->symbols; k++)
            symbols->file[i]->symbol[k].slot = 0;
    }
    for (size_t i = 0; i < symbols->maps; i++)
        for (size_t k = 0; k < symbols->map[i].symbols; k++)
            symbols->map[i].symbol[k].slot = 0;
}
