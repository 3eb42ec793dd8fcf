/* SPDX-License-Identifier: Apache-2.0
 *
 * The colour and the attributes of each meaning, for dark, light and monochrome themes.
 */
#include "tui/theme.h"

enum { OWN = -1, BLACK, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, WHITE };

/* A hue of the set: on dark, on light ground (of 256), of 8. Colour says how bad something is and
 * nothing else; what a thing is, letters, glyphs and attributes say. */
struct hue {
    short dark, light, of8;
};
static const struct hue orange = {214, 172, YELLOW}, green = {36, 29, GREEN},
                        vermilion = {166, 166, RED}, own = {OWN, OWN, OWN};

static struct tui_look look(enum tui_theme theme, struct hue hue, unsigned attributes,
                            unsigned mono)
{
    return (struct tui_look){theme == TUI_THEME_LIGHT ? hue.light : hue.dark, hue.of8, attributes,
                             mono};
}

struct tui_look tui_theme_look(enum tui_theme theme, enum tui_style style)
{
    if (style >= TUI_HEAT + 6 && style < TUI_HEAT + 8) /* the largest values of a map */
        return look(theme, orange, 0, TUI_ATTR_BOLD);
    switch (style) {
    case TUI_DIM:
        return (struct tui_look){theme == TUI_THEME_LIGHT ? 240 : 246, OWN, 0, TUI_ATTR_DIM};
    case TUI_BOLD:
        return look(theme, own, TUI_ATTR_BOLD, TUI_ATTR_BOLD);
    case TUI_TITLE:
        return look(theme, own, TUI_ATTR_BOLD, TUI_ATTR_BOLD);
    case TUI_KEY:
        return look(theme, own, TUI_ATTR_BOLD, TUI_ATTR_BOLD);
    case TUI_SELECTED:
        return look(theme, own, TUI_ATTR_REVERSE, TUI_ATTR_REVERSE);
    case TUI_GOOD:
        return look(theme, green, 0, 0);
    case TUI_WARN:
        return look(theme, orange, TUI_ATTR_BOLD, TUI_ATTR_BOLD);
    case TUI_BAD:
        return look(theme, vermilion, TUI_ATTR_BOLD, TUI_ATTR_BOLD | TUI_ATTR_UNDERLINE);
    case TUI_CRITICAL_PATH:
        return look(theme, vermilion, TUI_ATTR_BOLD, TUI_ATTR_REVERSE);
    default:
        return look(theme, own, 0, 0);
    }
}

const char *tui_theme_name(enum tui_theme theme)
{
    static const char *const names[TUI_THEMES] = {"dark", "light", "mono"};
    return theme < TUI_THEMES ? names[theme] : "";
}
