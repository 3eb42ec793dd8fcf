/* SPDX-License-Identifier: Apache-2.0
 *
 * Dots, bars, and curves over time. A curve merges the values that share a column into their
 * mean; an outlier among them is drawn as a spike, so that a single slow step stays visible.
 */
#include "tui/screen/chart.h"

#include <math.h>
#include <stdlib.h>

#include "reports/words/compare.h"

/* ---- dots ------------------------------------------------------------------------------------ */

static void dots_of_cell(const struct tui_cells *cells, int *across, int *down)
{
    *across = cells->glyphs == TUI_BRAILLE ? 2 : 1;
    *down = cells->glyphs == TUI_BRAILLE ? 4 : 2;
}

void tui_dots(const struct tui_cells *cells, struct tui_rect area, int *width, int *height)
{
    int across, down;
    dots_of_cell(cells, &across, &down);
    *width = area.columns > 0 ? area.columns * across : 0;
    *height = area.rows > 0 ? area.rows * down : 0;
}

/* Glyphs of a cell with two dots: none, upper, lower, both. */
static const uint32_t pairs[2][4] = {{' ', '\'', '.', ':'}, {' ', 0x2580, 0x2584, 0x2588}};

/* Bits of the dots that the cell shows; -1: it shows something else. */
static int bits_of(const struct tui_cells *cells, uint32_t glyph)
{
    if (glyph == ' ')
        return 0;
    if (cells->glyphs == TUI_BRAILLE)
        return glyph >= 0x2800 && glyph <= 0x28ff ? (int)(glyph - 0x2800) : -1;
    for (int i = 1; i < 4; i++)
        if (pairs[cells->glyphs == TUI_BLOCK][i] == glyph)
            return i;
    return -1;
}

/* Adds the dot to the dots that the cell has already; a cell with another glyph is left alone. */
void tui_dot(struct tui_cells *cells, struct tui_rect area, int x, int y, enum tui_style style)
{
    static const int braille[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    int across, down;
    dots_of_cell(cells, &across, &down);
    if (x < 0 || y < 0 || x / across >= area.columns || y / down >= area.rows)
        return;
    long row = (long)area.row + y / down, column = (long)area.column + x / across;
    if (row < 0 || column < 0 || row >= cells->rows || column >= cells->columns)
        return;
    int bits = bits_of(cells, cells->cell[row * cells->columns + column].glyph);
    if (bits < 0)
        return;
    bits |= cells->glyphs == TUI_BRAILLE ? braille[y % 4][x % 2] : 1 << y % 2;
    uint32_t glyph = cells->glyphs == TUI_BRAILLE ? 0x2800u + (uint32_t)bits
                                                  : pairs[cells->glyphs == TUI_BLOCK][bits];
    tui_glyph(cells, area, y / down, x / across, style, glyph);
}

void tui_dot_line(struct tui_cells *cells, struct tui_rect area, int x0, int y0, int x1, int y1,
                  enum tui_style style)
{
    int dx = abs(x1 - x0), dy = abs(y1 - y0), steps = dx > dy ? dx : dy;
    for (int i = 0; i <= steps; i++) {
        double way = steps ? (double)i / steps : 0;
        tui_dot(cells, area, (int)lround(x0 + way * (x1 - x0)), (int)lround(y0 + way * (y1 - y0)),
                style);
    }
}

/* ---- bars ------------------------------------------------------------------------------------ */

static double limited(double fraction)
{
    return rep_clamp_real(fraction, 0, 1);
}

int tui_bar(struct tui_cells *cells, struct tui_rect area, int row, int column, int columns,
            double fraction, enum tui_style style)
{
    bool ascii = cells->glyphs == TUI_ASCII;
    int steps = ascii ? 1 : 8, length = (int)lround(limited(fraction) * columns * steps),
        written = 0;
    if (columns <= 0)
        return 0;
    length = !length && fraction > 0 ? 1 : length;
    for (; written < length / steps; written++)
        tui_glyph(cells, area, row, column + written, style, ascii ? '#' : 0x2588);
    if (length % steps) /* U+2589 is seven eighths, U+258F one */
        tui_glyph(cells, area, row, column + written++, style,
                  0x2590u - (uint32_t)(length % steps));
    return written;
}

void tui_level(struct tui_cells *cells, struct tui_rect area, int row, int column, double fraction,
               enum tui_style style)
{
    static const char ramp[] = "_.-=*#";
    int steps = cells->glyphs == TUI_ASCII ? 6 : 8, level = (int)lround(limited(fraction) * steps);
    level = !level && fraction > 0 ? 1 : level;
    if (level)
        tui_glyph(cells, area, row, column, style,
                  cells->glyphs == TUI_ASCII ? (uint32_t)ramp[level - 1]
                                             : 0x2580u + (uint32_t)level);
}

static uint32_t heat_glyph(const struct tui_cells *cells, double shown)
{
    static const uint32_t shade[] = {0xb7, 0x2591, 0x2592, 0x2593, 0x2588};
    static const char ramp[] = ".:-=+*#%@";
    return cells->glyphs == TUI_ASCII ? (uint32_t)ramp[lround(shown * 8)]
                                      : shade[lround(shown * 4)];
}

void tui_heat(struct tui_cells *cells, struct tui_rect area, int row, int column, double fraction)
{
    if (!isfinite(fraction)) {
        tui_glyph(cells, area, row, column, TUI_DIM, '?');
        return;
    }
    double shown = limited(fraction);
    int style = TUI_HEAT + (int)lround(shown * 7);
    uint32_t glyph = heat_glyph(cells, shown);
    tui_glyph(cells, area, row, column, shown > 0 ? (enum tui_style)style : TUI_DIM, glyph);
}

/* Cells are dealt out by the largest remainder. A part of at least half a cell gets one before
 * others are rounded up. */
void tui_stack(struct tui_cells *surface, struct tui_rect area, int row, int column, int columns,
               const struct tui_part *part, size_t count)
{
    int cells[TUI_PARTS_MOST];
    double rest[TUI_PARTS_MOST], sum = 0;
    count = count < TUI_PARTS_MOST ? count : TUI_PARTS_MOST;
    for (size_t i = 0; i < count; i++)
        sum += part[i].share > 0 && isfinite(part[i].share) ? part[i].share : 0;
    if (sum <= 0 || columns <= 0)
        return;
    int dealt = 0;
    for (size_t i = 0; i < count; i++) {
        double exact =
            part[i].share > 0 && isfinite(part[i].share) ? part[i].share / sum * columns : 0;
        cells[i] = (int)exact;
        rest[i] = exact - cells[i];
        if (!cells[i] && rest[i] >= 0.5)
            rest[i] += 1; /* is seen before others are rounded up */
        dealt += cells[i];
    }
    while (dealt < columns) { /* the largest remainders */
        size_t most = 0;
        for (size_t i = 1; i < count; i++)
            most = rest[i] > rest[most] ? i : most;
        cells[most]++;
        rest[most] = -1;
        dealt++;
    }
    for (size_t i = 0; i < count; i++)
        for (int cell = 0; cell < cells[i]; cell++)
            tui_glyph(surface, area, row, column++, part[i].style, part[i].letter);
}

/* ---- one quantity over time ------------------------------------------------------------------ */

static int ascending(const void *left, const void *right)
{
    double first = *(const double *)left, second = *(const double *)right;
    return (first > second) - (first < second);
}

static double middle(const double *sorted, size_t count)
{
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* Above which value one is an outlier: 0.6745 (x - median) / MAD > 3.5. */
static double outlier_limit(double *sorted, double *scratch, size_t count, double *median)
{
    *median = middle(sorted, count);
    for (size_t i = 0; i < count; i++)
        scratch[i] = fabs(sorted[i] - *median);
    qsort(scratch, count, sizeof *scratch, ascending);
    double limit = *median + 3.5 / 0.6745 * middle(scratch, count),
           worth = *median + 0.1 * fabs(*median);
    return count < 8 ? INFINITY : fmax(limit, worth);
}

/* Outliers do not count for the ends of the picture: spikes show them in a margin at the top. */
bool tui_range_of(const double *value, size_t count, struct tui_range *out)
{
    double *sorted = malloc((2 * count + 1) * sizeof *sorted), median;
    size_t known = 0;
    *out = (struct tui_range){0, 1, INFINITY};
    for (size_t i = 0; sorted && i < count; i++)
        if (isfinite(value[i]))
            sorted[known++] = value[i];
    if (!known) {
        free(sorted);
        return false;
    }
    qsort(sorted, known, sizeof *sorted, ascending);
    out->limit = outlier_limit(sorted, sorted + known, known, &median);
    out->low = sorted[0];
    size_t last = known - 1;
    while (last && sorted[last] > out->limit)
        last--;
    out->high = sorted[last];
    double least = fabs(median) * 0.1;
    if (out->high - out->low < least) { /* what varies by a per cent is a flat line */
        out->low -= least;
        out->high += least;
    }
    if (!(out->high > out->low))
        out->high = out->low + 1;
    if (last < known - 1)
        out->high += (out->high - out->low) / 3; /* spikes stand out */
    free(sorted);
    return true;
}

struct tui_samples tui_samples_of(const double *value, size_t count, double slots)
{
    return (struct tui_samples){
        value, NULL, count, 0, slots > (double)count ? slots : (double)count, (double)count};
}

double tui_slots(double count, bool grows)
{
    double room = 2;
    while (grows && room < count)
        room *= 2;
    return grows ? room : count;
}

/* The first sample that does not begin before x. */
static size_t first_from(const struct tui_samples *samples, double x)
{
    size_t low = 0, high = samples->count;
    if (!samples->start)
        return (size_t)rep_clamp_real(x, 0, (double)samples->count);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (samples->start[mid] < x)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Computes the mean and the largest of the values that fall into place `i` of `places`. Where none
 * does, the value before the place still holds there. */
static void merged(const struct tui_samples *samples, int i, int places, double *mean, double *most)
{
    double width = (samples->high - samples->low) / places, begin = samples->low + i * width,
           sum = 0;
    size_t known = 0;
    *mean = NAN;
    *most = -INFINITY;
    bool moment =
        samples->start && samples->start[samples->count - 1] >=
                              samples->end; /* the last value has no width: its place is drawn */
    if (!(width > 0) || begin > samples->end || (begin >= samples->end && !moment))
        return;
    double eps = (samples->start ? -1e-9 : 1e-9) * width; /* on the edge of a place: in it */
    size_t first = first_from(samples, begin + eps),
           end = i + 1 == places ? samples->count : first_from(samples, begin + width + eps);
    if (end <= first) { /* held */
        if (samples->start && !first--)
            return;
        end = first + 1;
    }
    for (size_t sample = first; sample < end && sample < samples->count; sample++)
        if (isfinite(samples->value[sample])) {
            sum += samples->value[sample];
            known++;
            *most = samples->value[sample] > *most ? samples->value[sample] : *most;
        }
    if (known)
        *mean = sum / (double)known;
}

/* Draws a line of dots. Outliers are spikes; they are drawn last, since a cell has one style. */
static void trend_dots(struct tui_cells *cells, struct tui_rect area,
                       const struct tui_samples *samples, struct tui_range range,
                       enum tui_style style)
{
    int width, height;
    tui_dots(cells, area, &width, &height);
    for (int spikes = 0; spikes < 2; spikes++)
        for (int x = 0, before = -1; x < width; x++) {
            double mean, most;
            merged(samples, x, width, &mean, &most);
            if (!isfinite(mean)) {
                before = -1;
                continue;
            }
            int y =
                height - 1 -
                (int)lround(limited((mean - range.low) / (range.high - range.low)) * (height - 1));
            int from = before < 0 ? y : before + REP_COMPARE(y, before);
            bool spike = most > range.limit;
            if (spike && spikes)
                tui_dot_line(cells, area, x, 0, x, y, TUI_WARN);
            else if (!spike && !spikes)
                tui_dot_line(cells, area, x, from, x, y, style);
            before = y;
        }
}

/* Filled columns. */
static void trend_columns(struct tui_cells *cells, struct tui_rect area,
                          const struct tui_samples *samples, struct tui_range range,
                          enum tui_style style)
{
    double floor = range.low - (range.high - range.low) / 8; /* the lowest value can be seen */
    for (int x = 0; x < area.columns; x++) {
        double mean, most;
        merged(samples, x, area.columns, &mean, &most);
        if (!isfinite(mean))
            continue;
        bool spike = most > range.limit;
        double filled = spike ? area.rows : (mean - floor) / (range.high - floor) * area.rows;
        for (int row = 0; row < area.rows; row++)
            tui_level(cells, area, area.rows - 1 - row, x, filled - row, spike ? TUI_WARN : style);
        if (spike && cells->glyphs == TUI_ASCII)
            tui_glyph(cells, area, 0, x, TUI_WARN, '!');
    }
}

/* Dots need height to show anything; in a few rows filled columns show more. */
void tui_trend(struct tui_cells *cells, struct tui_rect area, const struct tui_samples *samples,
               struct tui_range range, enum tui_style style)
{
    if (!samples->count || area.rows <= 0 || area.columns <= 0)
        return;
    if (cells->glyphs == TUI_BRAILLE || (cells->glyphs == TUI_ASCII && area.rows > 2))
        trend_dots(cells, area, samples, range, style);
    else
        trend_columns(cells, area, samples, range, style);
}

void tui_spark(struct tui_cells *cells, struct tui_rect area, int row, int column, int columns,
               const struct tui_samples *samples, double low, double high, enum tui_style style)
{
    double mean, most;
    for (int x = 0; x < columns && samples->count; x++) {
        merged(samples, x, columns, &mean, &most);
        if (isfinite(mean)) /* the lowest value still has a mark: there was a value */
            tui_level(cells, area, row, column + x,
                      1.0 / 8 + 7.0 / 8 * (high > low ? (mean - low) / (high - low) : 0), style);
    }
}
