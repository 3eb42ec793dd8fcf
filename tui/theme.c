/* SPDX-License-Identifier: Apache-2.0
 *
 * The colour and the attributes of each meaning, for dark, light and monochrome themes.
 */
#include "tui/theme.h"

#include "analyzers/result/result.h"

enum { OWN = -1, BLACK, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, WHITE };

/* A hue of the set: on dark, on light ground (of 256), of 8. */
struct hue {
    short dark, light, of8;
};
static const struct hue orange = {214, 172, YELLOW}, sky = {74, 32, CYAN}, green = {36, 29, GREEN},
                        yellow = {227, 142, YELLOW}, blue = {32, 25, BLUE},
                        vermilion = {166, 166, RED}, purple = {175, 132, MAGENTA},
                        own = {OWN, OWN, OWN};

/* From little to much, lightness growing steadily away from the ground. */
static const struct hue heat[8] = {{24, 252, BLUE},   {25, 187, BLUE},  {60, 144, CYAN},
                                   {66, 108, CYAN},   {102, 66, GREEN}, {143, 60, GREEN},
                                   {179, 24, YELLOW}, {227, 17, RED}};

/* The hue of each class of a step, the same as in the HTML report. */
static struct hue class_hue(int class)
{
    switch (class) {
    case AN_CLASS_COMPUTE:
        return green;
    case AN_CLASS_COMM:
        return blue;
    case AN_CLASS_BUBBLE:
        return purple;
    case AN_CLASS_COPY:
        return yellow;
    case AN_CLASS_INPUT:
        return orange;
    case AN_CLASS_IO:
        return vermilion;
    case AN_CLASS_HOST:
        return sky;
    default:
        return own;
    }
}

static struct tui_look look(enum tui_theme theme, struct hue hue, unsigned attributes,
                            unsigned mono)
{
    return (struct tui_look){theme == TUI_THEME_LIGHT ? hue.light : hue.dark, hue.of8, attributes,
                             mono};
}

struct tui_look tui_theme_look(enum tui_theme theme, enum tui_style style)
{
    static const struct hue series[4] = {
        {74, 32, CYAN}, {214, 172, YELLOW}, {36, 29, GREEN}, {175, 132, MAGENTA}};
    if (style >= TUI_SERIES && style < TUI_STYLES)
        return look(theme, series[style - TUI_SERIES], 0, 0);
    if (style >= TUI_HEAT && style < TUI_HEAT + 8)
        return look(theme, heat[style - TUI_HEAT], 0, style >= TUI_HEAT + 6 ? TUI_ATTR_BOLD : 0);
    if (style >= TUI_CLASS && style < TUI_CLASS + 8)
        return look(theme, class_hue((int)style - TUI_CLASS), 0, 0);
    switch (style) {
    case TUI_DIM:
        return (struct tui_look){theme == TUI_THEME_LIGHT ? 240 : 246, OWN, 0, TUI_ATTR_DIM};
    case TUI_BOLD:
        return look(theme, own, TUI_ATTR_BOLD, TUI_ATTR_BOLD);
    case TUI_TITLE:
        return look(theme, sky, TUI_ATTR_BOLD, TUI_ATTR_BOLD);
    case TUI_KEY:
        return look(theme, orange, TUI_ATTR_BOLD, TUI_ATTR_BOLD);
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
