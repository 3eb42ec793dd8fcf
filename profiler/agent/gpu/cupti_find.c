/* SPDX-License-Identifier: Apache-2.0
 *
 * Which libcupti. First a copy that the program has mapped already: two copies in one process fight
 * for the driver's single tools slot. Then the folders of the CUDA libraries that are mapped (a
 * wheel of PyTorch or JAX, a toolkit), the environments of Python, the loader's own search, and the
 * usual places of a toolkit. The version of the mapped CUDA runtime, or of the driver, goes first.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/agent/gpu/cuda.h"

#define MAJORS     3u /* 13, 12, 11 */
#define FOLDERS    64u
#define FOLDER_MAX 1024u

struct search {
    char folder[FOLDERS][FOLDER_MAX];
    unsigned count;
    int major[MAJORS]; /* in the order to try */
};

/* Adds a folder to the list, once. */
static void add_folder(struct search *search, const char *format, const char *path_start,
                       size_t bytes)
{
    char path[FOLDER_MAX];
    int length = snprintf(path, sizeof path, format, (int)bytes, path_start);
    if (length <= 0 || (size_t)length >= sizeof path || search->count == FOLDERS)
        return;
    for (unsigned i = 0; i < search->count; i++)
        if (!strcmp(search->folder[i], path))
            return;
    memcpy(search->folder[search->count++], path, (size_t)length + 1);
}

/* A folder of Python packages: the wheels of CUDA 13 and before. */
static void add_site(struct search *search, const char *site, size_t bytes)
{
    add_folder(search, "%.*s/nvidia/cu13/lib", site, bytes);
    add_folder(search, "%.*s/nvidia/cuda_cupti/lib", site, bytes);
    add_folder(search, "%.*s/nvidia/cuda_cupti_cu12/lib", site, bytes);
}

/* The package folders of a Python environment, of whatever version. */
static void add_sites_of(struct search *search, const char *prefix)
{
    char pattern[FOLDER_MAX];
    glob_t sites;
    if (!prefix || !*prefix ||
        snprintf(pattern, sizeof pattern, "%s/lib/python3*/site-packages", prefix) >=
            (int)sizeof pattern)
        return;
    if (glob(pattern, 0, NULL, &sites) == 0)
        for (size_t i = 0; i < sites.gl_pathc; i++)
            add_site(search, sites.gl_pathv[i], strlen(sites.gl_pathv[i]));
    globfree(&sites);
}

/* The folders of $LD_LIBRARY_PATH. The loader finds a library there by its name alone, but not a
 * second one of the same name. */
static void add_loader_path(struct search *search)
{
    const char *at = getenv("LD_LIBRARY_PATH");
    while (at && *at) {
        size_t length = strcspn(at, ":;");
        if (length)
            add_folder(search, "%.*s", at, length);
        at += length + (at[length] != 0);
    }
}

static void add_toolkit(struct search *search, const char *root)
{
    if (!root || !*root)
        return;
    add_folder(search, "%.*s/extras/CUPTI/lib64", root, strlen(root));
    add_folder(search, "%.*s/lib64", root, strlen(root));
}

/* One mapped file: package folders, and folders of CUDA's own libraries. */
static void look_at_path(struct search *search, const char *path)
{
    static const char *const packages[] = {"/site-packages/", "/dist-packages/"};
    static const char *const cuda[] = {"libcudart.so", "libcublas.so", "libnvrtc.so",
                                       "libcublasLt.so"};
    const char *base = strrchr(path, '/');
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++) {
        const char *found = strstr(path, packages[i]);
        if (found)
            add_site(search, path, (size_t)(found - path) + strlen(packages[i]) - 1);
    }
    for (size_t i = 0; base && i < sizeof cuda / sizeof *cuda; i++) {
        size_t length = strlen(cuda[i]);
        if (strncmp(base + 1, cuda[i], length) != 0)
            continue;
        add_folder(search, "%.*s", path, (size_t)(base - path));
        add_folder(search, "%.*s/../extras/CUPTI/lib64", path, (size_t)(base - path));
        if (!strcmp(cuda[i], "libcudart.so") && base[1 + length] == '.' && !search->major[0])
            search->major[0] = atoi(base + 2 + length);
    }
}

/* Paths of the mapped files, each line's part from its first '/'. Read in pieces: the file may be
 * long. */
static void look_at_maps(struct search *search)
{
    char text[8192];
    size_t used = 0;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    for (ssize_t got; (got = read(fd, text + used, sizeof text - 1 - used)) > 0;) {
        used += (size_t)got;
        text[used] = 0;
        char *line = text, *end;
        while ((end = strchr(line, '\n'))) {
            *end = 0;
            char *path = strchr(line, '/');
            if (path)
                look_at_path(search, path);
            line = end + 1;
        }
        used = (size_t)(text + used - line);
        if (used == sizeof text - 1)
            used = 0; /* no path is that long */
        memmove(text, line, used);
    }
    close(fd);
}

/* The major versions in the order to try: that of the mapped runtime or of the driver first. */
static void order_majors(struct search *search, int driver_version)
{
    int first = search->major[0] ? search->major[0] : driver_version / 1000;
    if (first < 11 || first > 13)
        first = 13;
    unsigned count = 0;
    search->major[count++] = first;
    for (int major = 13; major >= 11; major--)
        if (major != first)
            search->major[count++] = major;
}

/* Libraries that are newer than the driver: they stay loaded, and are not tried again. */
static void *rejected[CUPTI_REJECTED_MOST];

static bool is_rejected(const void *handle)
{
    for (unsigned i = 0; i < CUPTI_REJECTED_MOST && handle; i++)
        if (rejected[i] == handle)
            return true;
    return false;
}

/* Loads a library that was not rejected. */
static void *load(const char *path, int flags)
{
    void *handle = dlopen(path, RTLD_NOW | flags);
    if (!is_rejected(handle))
        return handle;
    dlclose(handle);
    return NULL;
}

/* "libcupti.so.13"; CUDA 11 counted its minor versions in the name. */
static void *try_names(const struct search *search, const char *folder, int flags, char *found,
                       size_t size)
{
    for (unsigned i = 0; i < MAJORS; i++)
        for (int minor = search->major[i] == 11 ? 8 : -1;
             minor >= (search->major[i] == 11 ? 0 : -1); minor--) {
            char path[FOLDER_MAX + 32], name[32];
            if (minor < 0)
                snprintf(name, sizeof name, "libcupti.so.%d", search->major[i]);
            else
                snprintf(name, sizeof name, "libcupti.so.%d.%d", search->major[i], minor);
            if (folder)
                snprintf(path, sizeof path, "%s/%s", folder, name);
            else
                snprintf(path, sizeof path, "%s", name);
            if (folder && access(path, R_OK))
                continue;
            void *handle = load(path, flags);
            if (handle) {
                snprintf(found, size, "%s", path);
                return handle;
            }
        }
    return NULL;
}

/* Tries the places in the order of the file's first comment. The path that worked is left in
 * `found`. */
static void *find_library(int driver_version, char *found, size_t size)
{
    static struct search search; /* large; one process looks once */
    const char *given = getenv(WIRE_ENV_CUPTI);
    memset(&search, 0, sizeof search);
    if (given && *given) {
        snprintf(found, size, "%s", given);
        return load(given, 0);
    }
    look_at_maps(&search);
    order_majors(&search, driver_version);
    void *handle = try_names(&search, NULL, RTLD_NOLOAD, found, size);
    if (!handle)
        handle = load("libcupti.so", RTLD_NOLOAD);
    add_sites_of(&search, getenv("VIRTUAL_ENV"));
    add_sites_of(&search, getenv("CONDA_PREFIX"));
    add_loader_path(&search);
    for (unsigned i = 0; i < search.count && !handle; i++)
        handle = try_names(&search, search.folder[i], 0, found, size);
    if (!handle)
        handle = try_names(&search, NULL, 0, found, size);
    search.count = 0;
    add_toolkit(&search, getenv("CUDA_HOME"));
    add_toolkit(&search, getenv("CUDA_PATH"));
    add_toolkit(&search, "/usr/local/cuda");
    for (unsigned i = 0; i < search.count && !handle; i++)
        handle = try_names(&search, search.folder[i], 0, found, size);
    return handle;
}

bool agent_cupti_find(struct cupti *cupti, int driver_version, char *path, size_t size,
                      enum wire_gpu_stage *stage)
{
    *stage = WIRE_GPU_STAGE_LIBRARY;
    path[0] = 0;
    cupti->library = find_library(driver_version, path, size);
    if (!cupti->library)
        return false;
    bool complete = true;
#define LOOK_UP(name, required, arguments) \
    cupti->name = (int(*) arguments)(uintptr_t)dlsym(cupti->library, "cupti" #name); \
    complete &= !(required) || cupti->name;
    CUPTI_FUNCTION_MAP(LOOK_UP)
#undef LOOK_UP
    Dl_info where;
    if (complete && dladdr((void *)(uintptr_t)cupti->ActivityEnable, &where) && where.dli_fname)
        snprintf(path, size, "%s", where.dli_fname);
    *stage = complete ? WIRE_GPU_STAGE_NONE : WIRE_GPU_STAGE_SYMBOL;
    return complete;
}

void agent_cupti_reject(struct cupti *cupti)
{
    for (unsigned i = 0; i < CUPTI_REJECTED_MOST; i++)
        if (!rejected[i]) {
            rejected[i] = cupti->library;
            break;
        }
    *cupti = (struct cupti){0};
}
