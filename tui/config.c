/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes the options that the user changed with keys ($XDG_CONFIG_HOME/tacho/top.conf).
 */
#include "tui/config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tacho_folder.h"
#include "tui/theme.h"
#include "tui/views.h"

static const char *const glyph_names[] = {"ascii", "block", "braille"};

int tui_theme_of(const char *name)
{
    for (int i = 0; i < TUI_THEMES; i++)
        if (!strcmp(name, tui_theme_name((enum tui_theme)i)))
            return i;
    return -1;
}

int tui_glyphs_of(const char *name)
{
    for (int i = 0; i <= TUI_BRAILLE; i++)
        if (!strcmp(name, glyph_names[i]))
            return i;
    return -1;
}

int tui_view_of(const char *name)
{
    for (int i = 0; i < TUI_VIEWS_MOST && tui_views[i]; i++)
        if (!strcmp(name, tui_views[i]->name))
            return i;
    return -1;
}

/* Sets one option; words that are not understood change nothing. */
static void set_option(struct tui_ui *ui, const char *name, const char *word)
{
    int index;
    if (!strcmp(name, "theme") && (index = tui_theme_of(word)) >= 0)
        ui->theme = index;
    else if (!strcmp(name, "glyphs") && (index = tui_glyphs_of(word)) >= 0)
        ui->glyphs = (enum tui_glyphs)index;
    else if (!strcmp(name, "view") && (index = tui_view_of(word)) >= 0)
        ui->view = index;
    else if (!strcmp(name, "mouse"))
        ui->mouse = !strcmp(word, "on");
}

void tui_config_read(struct tui_ui *ui)
{
    char path[PATH_MAX], line[256], name[64], word[64];
    FILE *file = tacho_config_name("tacho/top.conf", path, sizeof path) ? NULL : fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, " %63[a-z] = %63[a-z]", name, word) == 2)
            set_option(ui, name, word);
    if (file)
        fclose(file);
}

/* Reads the file again before writing it, so that another dashboard's options survive, and
 * renames a new file over it, so that no reader sees half of one. */
int tui_config_write(const struct tui_ui *ui, const struct tui_ui *began, char *path, size_t size)
{
    char folder[PATH_MAX], fresh[PATH_MAX + 16];
    struct tui_ui kept;
    tui_ui_init(&kept);
    tui_config_read(&kept);
    kept.theme = ui->theme != began->theme ? ui->theme : kept.theme;
    kept.glyphs = ui->glyphs != began->glyphs ? ui->glyphs : kept.glyphs;
    kept.mouse = ui->mouse != began->mouse ? ui->mouse : kept.mouse;
    /* the view is not among them: the next start shows the first screen, unless the file says
     * otherwise */
    int error = tacho_config_name("tacho/top.conf", path, size);
    error = error ? error : tacho_config_name("tacho", folder, sizeof folder);
    error = error ? error : tacho_folder_make(folder);
    if (error)
        return error;
    snprintf(fresh, sizeof fresh, "%s.%d", path, (int)getpid());
    FILE *file = fopen(fresh, "we");
    if (!file)
        return errno;
    fprintf(file, "# settings changed by keys in tacho top\n");
    if (kept.theme != TUI_THEME_DARK) /* what is as it was at first is left to the terminal */
        fprintf(file, "theme = %s\n", tui_theme_name((enum tui_theme)kept.theme));
    if (kept.glyphs != TUI_BRAILLE)
        fprintf(file, "glyphs = %s\n", glyph_names[kept.glyphs]);
    if (kept.mouse)
        fprintf(file, "mouse = on\n");
    if (kept.view)
        fprintf(file, "view = %s\n", tui_views[kept.view]->name);
    error = fflush(file) ? errno : 0;
    if (fclose(file) && !error)
        error = errno;
    if (!error && rename(fresh, path))
        error = errno;
    if (error)
        unlink(fresh);
    return error;
}
