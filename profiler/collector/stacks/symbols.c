/* SPDX-License-Identifier: Apache-2.0 */
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
#include "profiler/collector/drain/gpu.h"
#include "profiler/collector/stacks/mappings.h"

#define NAME_MAX_BYTES 4096
#define TABLE_MAX      (256u << 20) /* bytes of a symbol table that are believed */
#define MAP_MAX \
    (64u << 20) /* bytes of a map that are read: what goes on behind them has no names */
#define MAP_LINE_MAX  (64u << 10) /* a map without a line's end for so long is none */
#define MAP_NAMES_MAX (1u << 20)
#define MAP_OVERLAP \
    32 /* rows that are looked at where code was made anew at the places of older one */
#define SEGMENTS_MAX 64u
#define FILES_MAX    512u /* that are held open for their names */

struct symbol {
    uint64_t start;      /* first: behind() looks at it */
    uint32_t size, name; /* name: offset in the table of names */
    uint8_t source;      /* which file of struct names */
    bool open;           /* it has no size of its own: another at the same place has the name */
    uint8_t rank; /* of several at one place the highest gives the name: 2 global, 1 weak, 0 of the
                     file alone */
    int64_t slot;
};

/* Where names are read from, one at a time: those of a large library would be tens of megabytes. */
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
        for (int k = 0; k < 2; k++)
            if (symbols->file[i]->names[k].fd >= 0)
                close(symbols->file[i]->names[k].fd);
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

static bool grow(void **list, size_t *room, size_t need, size_t size)
{
    if (need <= *room)
        return true;
    size_t n = *room ? 2 * *room : 64;
    void *p = n >= need ? realloc(*list, n * size) : NULL;
    if (!p)
        return false;
    *list = p;
    *room = n;
    return true;
}

uint32_t col_symbols_file(struct col_symbols *symbols, int32_t pid, const char *path,
                          uint64_t inode)
{
    for (size_t i = 0; i < symbols->files; i++)
        if (symbols->file[i]->inode == inode && strcmp(symbols->file[i]->path, path) == 0)
            return (uint32_t)i;
    struct file *file = grow((void **)&symbols->file, &symbols->file_room, symbols->files + 1,
                             sizeof *symbols->file)
                            ? calloc(1, sizeof *file)
                            : NULL;
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

/* How many of the rows, which begin with their start and are in its order, start at or before
 * `address`. */
static size_t behind(const void *rows, size_t count, size_t size, uint64_t address)
{
    size_t lo = 0, hi = count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        uint64_t start;
        memcpy(&start, (const char *)rows + mid * size, sizeof start);
        if (start <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* ---- ELF ------------------------------------------------------------------------------------------------------------------- */

static bool read_at(int fd, uint64_t offset, void *to, size_t bytes)
{
    return offset <= INT64_MAX && pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

static void *read_block(int fd, uint64_t offset, uint64_t bytes)
{
    void *p = bytes && bytes <= TABLE_MAX ? malloc(bytes) : NULL;
    if (p && !read_at(fd, offset, p, bytes)) {
        free(p);
        p = NULL;
    }
    return p;
}

static bool is_function(const Elf64_Sym *x)
{
    unsigned type = ELF64_ST_TYPE(x->st_info);
    return (type == STT_FUNC || type == STT_GNU_IFUNC) && x->st_shndx != SHN_UNDEF && x->st_value &&
           x->st_name;
}

static uint8_t rank_of(const Elf64_Sym *x)
{
    unsigned binding = ELF64_ST_BIND(x->st_info);
    return binding == STB_GLOBAL ? 2 : binding == STB_WEAK ? 1 : 0;
}

/* Written in assembler it may have none: it ends with its section at the latest (behind _init comes
 * .plt, which is not it). */
static uint32_t size_of(const Elf64_Sym *x, const Elf64_Ehdr *header, const Elf64_Shdr *section)
{
    uint64_t size = x->st_size;
    if (!size && x->st_shndx < header->e_shnum) {
        const Elf64_Shdr *in = &section[x->st_shndx];
        if (x->st_value >= in->sh_addr && x->st_value - in->sh_addr < in->sh_size)
            size = in->sh_size - (x->st_value - in->sh_addr);
    }
    return size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
}

/* Functions of one table; its names stay in the file. */
static void add_table(struct file *file, int source, int fd, const Elf64_Ehdr *header,
                      const Elf64_Shdr *section, const Elf64_Shdr *table)
{
    const Elf64_Shdr *names = &section[table->sh_link];
    Elf64_Sym *x = read_block(fd, table->sh_offset, table->sh_size);
    size_t n = x ? table->sh_size / sizeof *x : 0;
    for (size_t i = 0; i < n; i++)
        if (is_function(&x[i]) && x[i].st_name < names->sh_size &&
            grow((void **)&file->symbol, &file->room, file->symbols + 1, sizeof *file->symbol))
            file->symbol[file->symbols++] = (struct symbol){.start = x[i].st_value,
                                                            .size = size_of(&x[i], header, section),
                                                            .open = !x[i].st_size,
                                                            .name = x[i].st_name,
                                                            .source = (uint8_t)source,
                                                            .rank = rank_of(&x[i])};
    free(x);
    file->names[source] = (struct names){fd, names->sh_offset, names->sh_size};
}

/* Symbols of .symtab, else of .dynsym. 0 without any; the descriptor is kept where there are some.
 */
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

/* /usr/lib/debug/.build-id/ab/cdef...debug; false without a build id. */
static bool debug_path(int fd, const Elf64_Ehdr *header, const Elf64_Shdr *section, char *to,
                       size_t size)
{
    for (unsigned i = 0; i < header->e_shnum; i++) {
        unsigned char note[sizeof(Elf64_Nhdr) + 4 + 20];
        const Elf64_Nhdr *n = (const Elf64_Nhdr *)note;
        if (section[i].sh_type != SHT_NOTE || section[i].sh_size != sizeof note ||
            !read_at(fd, section[i].sh_offset, note, sizeof note) || n->n_type != NT_GNU_BUILD_ID ||
            n->n_descsz != 20)
            continue;
        int at = snprintf(to, size, "/usr/lib/debug/.build-id/%02x/", note[sizeof *n + 4]);
        for (unsigned k = 1; k < 20; k++)
            at += snprintf(to + at, size - (size_t)at, "%02x", note[sizeof *n + 4 + k]);
        snprintf(to + at, size - (size_t)at, ".debug");
        return true;
    }
    return false;
}

static int order_symbols(const void *a, const void *b)
{
    const struct symbol *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->open != y->open)
        return x->open ? -1 : 1;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Reads the symbols of one ELF file into f. */
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

/* As a user writes it: without the version that the dynamic linker looks for
 * ("memcpy@@GLIBC_2.14"), C++ demangled. */
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
    struct file *f = symbols->file[file];
    uint64_t address = offset;
    if (!f->read)
        read_file(symbols, f);
    bool inside = f->segments == 0;
    for (unsigned i = 0; i < f->segments; i++)
        if (offset >= f->segment[i].offset && offset - f->segment[i].offset < f->segment[i].bytes) {
            address = offset - f->segment[i].offset + f->segment[i].address;
            inside = true;
        }
    size_t lo = behind(f->symbol, f->symbols, sizeof *f->symbol, address);
    struct symbol *symbol = lo && inside ? &f->symbol[lo - 1] : NULL;
    if (!symbol ||
        (symbol->size && address - symbol->start >=
                             symbol->size)) /* written in assembler: no size, up to the next one */
        return (struct col_symbol){NULL, NULL};
    if (symbol->slot)
        return (struct col_symbol){"", &symbol->slot};
    const struct names *names = &f->names[symbol->source];
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
    if (grow((void **)&map->symbol, &map->room, map->symbols + 1, sizeof *map->symbol))
        map->symbol[map->symbols++] = (struct map_symbol){
            .start = start, .size = size, .name = (size_t)(name + 1 - map->text)};
}

/* Later lines say what an address is called now: they stand behind earlier ones. */
static int order_map(const void *a, const void *b)
{
    const struct map_symbol *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->name < y->name ? -1 : x->name > y->name;
}

/* The rows from `old` on are new: they get their places among the others. */
static void sort_map(struct map *map, size_t old)
{
    size_t new = map->symbols - old, at = map->symbols, left = old;
    struct map_symbol *tail = new &&old ? malloc(new * sizeof *tail) : NULL;
    if (!tail) { /* all are new, or there is no room to be quick */
        if (new)
            qsort(map->symbol, map->symbols, sizeof *map->symbol, order_map);
        return;
    }
    memcpy(tail, map->symbol + old, new * sizeof *tail);
    qsort(tail, new, sizeof *tail, order_map);
    while (new)
        map->symbol[--at] = left && order_map(&map->symbol[left - 1], &tail[new - 1]) > 0
                                ? map->symbol[--left]
                                : tail[--new];
    free(tail);
}

/* As perf does: a map that somebody else wrote names nothing. */
static int open_map(int32_t pid)
{
    char process[32], path[64];
    struct stat st, own;
    snprintf(process, sizeof process, "/proc/%d", pid);
    uid_t owner = stat(process, &own) == 0 ? own.st_uid : geteuid();
    for (int inside = 1; inside >= 0; inside--) {
        snprintf(path, sizeof path, "%s%s/tmp/perf-%d.map", inside ? process : "",
                 inside ? "/root" : "", pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
            (st.st_uid == owner || st.st_uid == geteuid() || st.st_uid == 0))
            return fd;
        if (fd >= 0)
            close(fd);
    }
    return -1;
}

/* Reads what was added since. */
static void read_more(struct map *map)
{
    struct stat st;
    size_t old = map->symbols;
    int fd = map->bytes < (off_t)MAP_MAX ? open_map(map->pid) : -1;
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && st.st_size > map->bytes) {
        off_t until = st.st_size < (off_t)MAP_MAX ? st.st_size : (off_t)MAP_MAX;
        size_t more = (size_t)(until - map->bytes);
        char *text = realloc(map->text, map->used + more + 1);
        ssize_t got = text ? pread(fd, text + map->used, more, map->bytes) : -1;
        map->text = text ? text : map->text;
        size_t whole = got > 0 ? (size_t)got : 0;
        while (whole && map->text[map->used + whole - 1] != '\n')
            whole--;
        for (size_t at = map->used, end = map->used + whole; at < end;) {
            char *nl = memchr(map->text + at, '\n', end - at);
            *nl = 0;
            add_line(map, map->text + at);
            at = (size_t)(nl + 1 - map->text);
        }
        map->used += whole;
        map->bytes += (off_t)whole;
        if (until == (off_t)MAP_MAX || (got > 0 && (size_t)got - whole > MAP_LINE_MAX))
            map->bytes = (off_t)MAP_MAX; /* enough of it */
        sort_map(map, old);
    }
    close(fd);
}

/* Of several rows the last line that was written: earlier ones are of code that is gone. */
static struct map_symbol *find_in(struct map *map, uint64_t address)
{
    size_t lo = behind(map->symbol, map->symbols, sizeof *map->symbol, address);
    struct map_symbol *best = NULL;
    for (size_t i = lo; i-- > 0 && lo - i <= MAP_OVERLAP;) {
        struct map_symbol *map_symbol = &map->symbol[i];
        if (address - map_symbol->start < map_symbol->size &&
            (!best || map_symbol->name > best->name))
            best = map_symbol;
    }
    return best;
}

struct col_symbol col_symbols_in_map(struct col_symbols *symbols, int32_t pid, int32_t parent,
                                     uint64_t address)
{
    const int32_t pids[] = {pid, parent};
    for (int i = 0; i < 2 && pids[i]; i++) {
        struct map *map = map_of(symbols, pids[i]);
        struct map_symbol *map_symbol = map ? find_in(map, address) : NULL;
        if (map && !map_symbol && map->turn != symbols->turn) {
            map->turn = symbols->turn;
            read_more(map);
            map_symbol = find_in(map, address);
        }
        if (map_symbol)
            return (struct col_symbol){map->text + map_symbol->name, &map_symbol->slot};
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
