/* SPDX-License-Identifier: Apache-2.0
 *
 * Images of --data: folders with a folder a class, or IDX files, as a pair (images, labels) or as a
 * folder with MNIST's names.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "libtrain/data/digits.h"
#include "workloads/input.h"

#define CLASS_CAP 10000

static int is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Names of the folders in `path`, sorted; freed by the caller one by one. How many, or -1 with
 * words. */
static int list_classes(const char *path, char ***out, struct tacho_error *err)
{
    struct dirent **names = NULL;
    int entries = scandir(path, &names, visible, alphasort), count = 0;
    if (entries < 0) {
        tacho_fail(err, errno == ENOENT ? TACHO_ENOTFOUND : TACHO_EIO,
                   "give --data a folder you may read", "%s: %s", path, strerror(errno));
        return -1;
    }
    char **folders = calloc(entries ? (size_t)entries : 1, sizeof *folders);
    for (int i = 0; i < entries; i++) {
        char name[PATH_MAX];
        int length = snprintf(name, sizeof name, "%s/%s", path, names[i]->d_name);
        if (folders && length > 0 && (size_t)length < sizeof name && is_folder(name) &&
            (folders[count] = strdup(name)))
            count++;
        free(names[i]);
    }
    free(names);
    if (!folders)
        tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    *out = folders;
    return folders ? count : -1;
}

/* A folder that has a folder of images for each class. */
static int open_folders(struct lt_source **out, const char *path, int64_t side,
                        struct tacho_error *err)
{
    char **folders = NULL;
    struct lt_dataset *data = NULL;
    int classes = list_classes(path, &folders, err), rc = classes < 0 ? err->code : 0;
    if (classes >= 0 && (classes < 2 || classes > CLASS_CAP))
        rc = tacho_fail(err, TACHO_EFORMAT,
                        "give --data a folder that has a folder of images for each class",
                        "%s: %d folders in it, from 2 to %d are needed", path, classes, CLASS_CAP);
    if (rc == 0)
        rc = lt_dataset_open(&data, (const char *const *)folders, (size_t)classes, err);
    if (rc == 0)
        rc = lt_source_open_images(out, data, (const char *const *)folders, (size_t)classes, side,
                                   err);
    for (int i = 0; i < classes; i++)
        free(folders[i]);
    free(folders);
    return rc;
}

/* Whether the held-out images are like the others. */
static int check_held(const struct input *input, const char *path, const char *held_path,
                      struct tacho_error *err)
{
    const struct lt_source *source = input->source, *held = input->held_source;
    if (!held || (held->width == source->width && held->channels == source->channels &&
                  held->classes <= source->classes))
        return 0;
    return tacho_fail(err, TACHO_EFORMAT, "give files that belong together",
                      "%s: images or labels of another kind than in %s", held_path, path);
}

/* A folder of class folders, or one that has such folders `train` and val, valid or test, of which
 * the second is held out. */
static int open_all_folders(struct input *input, const struct options *options,
                            struct tacho_error *err)
{
    static const char *const held_names[] = {"val", "valid", "test"};
    const char *path = options->data.text[0];
    char learn[PATH_MAX], held[PATH_MAX];
    int64_t side = options->image_size;
    if (snprintf(learn, sizeof learn, "%s/train", path) >= (int)sizeof learn || !is_folder(learn))
        return open_folders(&input->source, path, side, err);
    int rc = open_folders(&input->source, learn, side, err);
    for (size_t i = 0; i < 3 && rc == 0 && !input->held_source && options->eval_every > 0; i++)
        if (snprintf(held, sizeof held, "%s/%s", path, held_names[i]) < (int)sizeof held &&
            is_folder(held))
            rc = open_folders(&input->held_source, held, side, err);
    return rc ? rc : check_held(input, learn, held, err);
}

static int open_pair(struct lt_source **out, const char *const *pair, int mapped,
                     struct tacho_error *err)
{
    struct lt_dataset *data = NULL;
    int rc = lt_dataset_open(&data, pair, 2, err);
    if (rc)
        return rc;
    if (mapped)
        lt_dataset_map(data);
    return lt_source_open_idx(out, data, err);
}

static int is_test(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return strncmp(name, "t10k", 4) == 0 || strncmp(name, "test", 4) == 0;
}

/* The IDX files there are, by name: those of the test set are held out. */
static int open_idx(struct input *input, const struct options *options, int mapped,
                    struct tacho_error *err)
{
    struct lt_dataset *all = NULL;
    const char *pair[2][2] = {{NULL}};
    size_t count[2] = {0};
    if (options->image_size)
        return tacho_fail(err, TACHO_EUSAGE, "leave it out, or give a folder of class folders",
                          "--image-size: images of IDX files are not scaled");
    int rc = lt_dataset_open(&all, options->data.text, options->data.count, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < lt_dataset_files(all) && rc == 0; i++) {
        const char *path = lt_dataset_file(all, i).path;
        int test = options->data.count == 1 && is_test(path);
        if (count[test] < 2)
            pair[test][count[test]] = path;
        count[test]++;
    }
    if (count[0] != 2 || (count[1] != 0 && count[1] != 2))
        rc = tacho_fail(err, TACHO_EFORMAT,
                        "give --data IMAGES --data LABELS, or a folder with MNIST's four files, or "
                        "a folder of class folders",
                        "%s: %zu training files and %zu test files, two of each are needed",
                        options->data.text[0], count[0], count[1]);
    if (rc == 0)
        rc = open_pair(&input->source, pair[0], mapped, err);
    if (rc == 0 && count[1] && options->eval_every > 0)
        rc = open_pair(&input->held_source, pair[1], mapped, err);
    rc = rc ? rc : check_held(input, pair[0][0], pair[1][0], err);
    lt_dataset_close(all);
    return rc;
}

/* Without --data: digits that are drawn once and kept. */
static int open_digits(struct input *input, const struct options *options, struct tacho_error *err)
{
    char path[PATH_MAX];
    struct options drawn = *options;
    int rc = lt_digits_cached(path, sizeof path, (uint64_t)options->seed, err);
    if (rc)
        return rc;
    drawn.data = (struct options_list){.text = {path}, .count = 1};
    return open_idx(input, &drawn, strcmp(options->io, "mapped") == 0, err);
}

int input_open_images(struct input *input, const struct options *options, struct tacho_error *err)
{
    int folders = strcmp(options->format, "images") == 0;
    char **names = NULL;
    if (options->data.count == 0 && folders)
        return tacho_fail(err, TACHO_EUSAGE,
                          "give --data a folder that has a folder for each class",
                          "--format images: no --data");
    if (options->data.count == 0)
        return open_digits(input, options, err);
    if (strcmp(options->format, "auto") == 0 && options->data.count == 1 &&
        is_folder(options->data.text[0])) {
        int classes = list_classes(options->data.text[0], &names, err);
        for (int i = 0; i < classes; i++)
            free(names[i]);
        free(names);
        folders = classes > 0;
    }
    if (folders && options->data.count != 1)
        return tacho_fail(err, TACHO_EUSAGE, "give one folder that has a folder for each class",
                          "--format images: --data is given %zu times", options->data.count);
    return folders ? open_all_folders(input, options, err)
                   : open_idx(input, options, strcmp(options->io, "mapped") == 0, err);
}
