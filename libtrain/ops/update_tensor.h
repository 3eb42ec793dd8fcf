/* SPDX-License-Identifier: Apache-2.0
 *
 * Template: the updates of one tensor at a time, behind update_rules.h and with its macros, and
 *
 *     PARALLEL   1: OpenMP's threads share the loops, 0: the calling thread alone,
 *     PRODUCT(c, a, b, m, n, k) c[m,n] = a[m,k] b[k,n]; a and b are
 *                struct RULE(view), c is dense.
 *
 * Sums are made of PARTS partial sums of fixed extents, in order, so that a result does not depend
 * on the number of threads. Every function works through the `repeat` matrices of the tensor.
 */
#define PARTS 128

/* Matrix number `index` of a tensor as arrays. */
struct RULE(piece) {
    STORED *param, *state[LT_UPDATE_STATES];
    const STORED *grad;
    int64_t count, rows, columns;
};

/* A matrix seen through strides. */
struct RULE(view) {
    const STORED *at;
    int64_t row, column;
};

static struct RULE(piece) RULE(piece_of)(const struct lt_update *update, int64_t index)
{
    int64_t count = update->rows * update->columns;
    struct RULE(piece) piece = {.param = (STORED *)(void *)update->param + index * count,
                                .grad = (const STORED *)(const void *)update->grad + index * count,
                                .count = count,
                                .rows = update->rows,
                                .columns = update->columns};
    for (int i = 0; i < LT_UPDATE_STATES; i++)
        piece.state[i] = (STORED *)(void *)update->state[i];
    return piece;
}

static double RULE(sum_of)(const double *parts)
{
    double sum = 0;
    for (int i = 0; i < PARTS; i++)
        sum += parts[i];
    return sum;
}

/* Where part `index` of `count` elements begins. */
static int64_t RULE(part)(int64_t count, int64_t index)
{
    int64_t size = (count + PARTS - 1) / PARTS;
    return index * size < count ? index * size : count;
}

/* The factor by which a layer-wise method scales a step: the norm of the parameters over the norm
 * of the step; 1 where one of them is 0. */
static REAL RULE(trust)(const double *param_squares, const double *step_squares, REAL factor)
{
    double param = sqrt(RULE(sum_of)(param_squares)), step = sqrt(RULE(sum_of)(step_squares));
    return param > 0 && step > 0 ? (REAL)(factor * param / step) : 1;
}

/* ---- LAMB ------------------------------------------------------------------------------------ */

/* The step of Adam with decay, u = m' / (sqrt(v') + eps) + d p. */
static inline REAL RULE(lamb_step)(const struct RULE(terms) * k, REAL d, REAL p, const REAL *s)
{
    return s[0] / k->correction1 / (ROOT(s[1] * (1 / k->correction2)) + k->eps) + d * p;
}

/* p -= rate |p| / |u| u, the norms of the whole tensor (You et al. 2020, with corrected moments).
 * The first pass brings the moments up to date and sums the squares, the second applies. */
static void RULE(lamb_piece)(const struct RULE(piece) * piece, const struct RULE(terms) * k, REAL d)
{
    double param_squares[PARTS] = {0}, step_squares[PARTS] = {0};
    STORED *param = piece->param, *first = piece->state[0], *second = piece->state[1];
#pragma omp parallel for schedule(static) if (PARALLEL)
    for (int64_t part = 0; part < PARTS; part++)
        for (int64_t i = RULE(part)(piece->count, part); i < RULE(part)(piece->count, part + 1);
             i++) {
            REAL s[2] = {(REAL)first[i], (REAL)second[i]};
            RULE(moments)(k, (REAL)piece->grad[i] * k->scale, s);
            REAL step = RULE(lamb_step)(k, d, (REAL)param[i], s);
            first[i] = (STORED)s[0];
            second[i] = (STORED)s[1];
            param_squares[part] += (double)param[i] * (double)param[i];
            step_squares[part] += (double)step * (double)step;
        }
    REAL rate = k->rate * RULE(trust)(param_squares, step_squares, 1);
#pragma omp parallel for schedule(static) if (PARALLEL)
    for (int64_t i = 0; i < piece->count; i++) {
        REAL s[2] = {(REAL)first[i], (REAL)second[i]};
        param[i] -= (STORED)(rate * RULE(lamb_step)(k, d, (REAL)param[i], s));
    }
}

static void RULE(lamb)(const struct lt_update *update, const struct RULE(terms) * k, REAL d)
{
    for (int64_t i = 0; i < update->repeat; i++) {
        struct RULE(piece) piece = RULE(piece_of)(update, i);
        piece.state[0] += i * piece.count;
        piece.state[1] += i * piece.count;
        RULE(lamb_piece)(&piece, k, d);
    }
}

/* ---- LARS ------------------------------------------------------------------------------------ */

/* u = g + d p; v = momentum v + rate trust |p| / |u| u; p -= v (You et al. 2017, with the decay
 * inside of the norm, as optax has it). */
static void RULE(lars)(const struct lt_update *update, const struct RULE(terms) * k, REAL d)
{
    for (int64_t index = 0; index < update->repeat; index++) {
        struct RULE(piece) piece = RULE(piece_of)(update, index);
        STORED *param = piece.param, *velocity = piece.state[0] + index * piece.count;
        double param_squares[PARTS] = {0}, step_squares[PARTS] = {0};
#pragma omp parallel for schedule(static) if (PARALLEL)
        for (int64_t part = 0; part < PARTS; part++)
            for (int64_t i = RULE(part)(piece.count, part); i < RULE(part)(piece.count, part + 1);
                 i++) {
                REAL step = FUSED(d, (REAL)param[i], (REAL)piece.grad[i] * k->scale);
                param_squares[part] += (double)param[i] * (double)param[i];
                step_squares[part] += (double)step * (double)step;
            }
        REAL rate = k->rate * RULE(trust)(param_squares, step_squares, k->trust);
#pragma omp parallel for schedule(static) if (PARALLEL)
        for (int64_t i = 0; i < piece.count; i++) {
            REAL step = FUSED(d, (REAL)param[i], (REAL)piece.grad[i] * k->scale);
            REAL moved = FUSED(k->momentum, (REAL)velocity[i], rate * step);
            velocity[i] = (STORED)moved;
            param[i] = (STORED)((REAL)param[i] - moved);
        }
    }
}

/* ---- Adafactor ------------------------------------------------------------------------------- */

#define ADAFACTOR_FLOOR ((REAL)1e-30) /* added to squares of gradients */
#define ADAFACTOR_SCALE ((REAL)1e-3)  /* the smallest scale of a tensor */

/* Means of g^2 of each row and of each column, faded into the state, and the mean of those of the
 * rows. */
static REAL RULE(factor)(const struct RULE(piece) * piece, const struct RULE(terms) * k)
{
    STORED *rows = piece->state[0], *columns = piece->state[1];
    const STORED *grad = piece->grad;
    REAL fade = k->fade, scale = k->scale, mean = 0;
#pragma omp parallel for schedule(static) if (PARALLEL)
    for (int64_t i = 0; i < piece->rows; i++) {
        REAL sum = 0;
        for (int64_t j = 0; j < piece->columns; j++) {
            REAL g = (REAL)grad[i * piece->columns + j] * scale;
            sum += g * g + ADAFACTOR_FLOOR;
        }
        rows[i] = (STORED)FUSED(fade, (REAL)rows[i] - sum / (REAL)piece->columns,
                                sum / (REAL)piece->columns);
    }
#pragma omp parallel for schedule(static) if (PARALLEL)
    for (int64_t part = 0; part < PARTS; part++)
        for (int64_t j = RULE(part)(piece->columns, part); j < RULE(part)(piece->columns, part + 1);
             j++) {
            REAL sum = 0;
            for (int64_t i = 0; i < piece->rows; i++) {
                REAL g = (REAL)grad[i * piece->columns + j] * scale;
                sum += g * g + ADAFACTOR_FLOOR;
            }
            columns[j] = (STORED)FUSED(fade, (REAL)columns[j] - sum / (REAL)piece->rows,
                                       sum / (REAL)piece->rows);
        }
    for (int64_t i = 0; i < piece->rows; i++)
        mean += (REAL)rows[i] / (REAL)piece->rows;
    return mean;
}

/* The second moment of each element of a vector, which is not factored. */
static void RULE(fade_vector)(const struct RULE(piece) * piece, const struct RULE(terms) * k)
{
    STORED *second = piece->state[0];
#pragma omp parallel for schedule(static) if (PARALLEL)
    for (int64_t i = 0; i < piece->count; i++) {
        REAL g = (REAL)piece->grad[i] * k->scale, square = g * g + ADAFACTOR_FLOOR;
        second[i] = (STORED)FUSED(k->fade, (REAL)second[i] - square, square);
    }
}

/* g / sqrt(v) of element i; v = rows x columns / mean where the tensor is factored (mean > 0). */
static inline REAL RULE(adafactor_step)(const struct RULE(piece) * piece,
                                        const struct RULE(terms) * k, REAL mean, int64_t i)
{
    REAL v = mean > 0 ? (REAL)piece->state[0][i / piece->columns] *
                            (REAL)piece->state[1][i % piece->columns] / mean
                      : (REAL)piece->state[0][i];
    return (REAL)piece->grad[i] * k->scale / ROOT(v);
}

/* The step u = g / sqrt(v), its root mean square bounded by 1, times the root mean square of the
 * parameters (at least 10^-3); p -= rate (scale u + d p). v is the product of row and column means
 * (Shazeer and Stern 2018, with fade 1 - t^-0.8 and without a first moment). */
static void RULE(adafactor_piece)(const struct RULE(piece) * piece, const struct RULE(terms) * k,
                                  REAL d, int factored)
{
    double param_squares[PARTS] = {0}, step_squares[PARTS] = {0};
    REAL mean = 0;
    if (factored)
        mean = RULE(factor)(piece, k);
    else
        RULE(fade_vector)(piece, k);
#pragma omp parallel for schedule(static) if (PARALLEL)
    for (int64_t part = 0; part < PARTS; part++)
        for (int64_t i = RULE(part)(piece->count, part); i < RULE(part)(piece->count, part + 1);
             i++) {
            double step = (double)RULE(adafactor_step)(piece, k, mean, i),
                   p = (double)piece->param[i];
            param_squares[part] += p * p;
            step_squares[part] += step * step;
        }
    REAL rms = (REAL)sqrt(RULE(sum_of)(step_squares) / (double)piece->count),
         size = (REAL)sqrt(RULE(sum_of)(param_squares) / (double)piece->count);
    REAL rate = k->rate * (size > ADAFACTOR_SCALE ? size : ADAFACTOR_SCALE) / (rms > 1 ? rms : 1);
#pragma omp parallel for schedule(static) if (PARALLEL)
    for (int64_t i = 0; i < piece->count; i++) {
        REAL p = (REAL)piece->param[i];
        piece->param[i] =
            (STORED)(p * (1 - k->rate * d) - rate * RULE(adafactor_step)(piece, k, mean, i));
    }
}

static void RULE(adafactor)(const struct lt_update *update, const struct RULE(terms) * k, REAL d)
{
    int factored = update->rows > 1 && update->columns > 1;
    for (int64_t i = 0; i < update->repeat; i++) {
        struct RULE(piece) piece = RULE(piece_of)(update, i);
        piece.state[0] += i * (factored ? piece.rows : piece.count);
        if (factored)
            piece.state[1] += i * piece.columns;
        RULE(adafactor_piece)(&piece, k, d, factored);
    }
}

/* ---- Muon ------------------------------------------------------------------------------------ */

/* x = 3.4445 x - 4.775 (x x^T) x + 2.0315 (x x^T)^2 x, five times, which brings the singular values
 * of x[rows, columns], rows <= columns and |x| <= 1, near to 1 (Jordan et al. 2024). other: as
 * large as x; square: 2 rows^2. Returns where the result is: x or other. */
static STORED *RULE(orthogonalize)(STORED *x, STORED *other, STORED *square, int64_t rows,
                                   int64_t columns)
{
    STORED *mixed = square + rows * rows;
    for (int round = 0; round < 5; round++) {
        PRODUCT(square, ((struct RULE(view)){x, columns, 1}), ((struct RULE(view)){x, 1, columns}),
                rows, rows, columns);
        PRODUCT(mixed, ((struct RULE(view)){square, rows, 1}),
                ((struct RULE(view)){square, rows, 1}), rows, rows, rows);
        for (int64_t i = 0; i < rows * rows; i++)
            mixed[i] = (STORED)(-(REAL)4.775 * (REAL)square[i] + (REAL)2.0315 * (REAL)mixed[i]);
        for (int64_t i = 0; i < rows; i++)
            mixed[i * rows + i] += (STORED)3.4445;
        PRODUCT(other, ((struct RULE(view)){mixed, rows, 1}), ((struct RULE(view)){x, columns, 1}),
                rows, columns, rows);
        STORED *swap = x;
        x = other;
        other = swap;
    }
    return x;
}

/* m = momentum m + (1 - momentum) g, Nesterov's look-ahead with corrections, its direction as an
 * orthogonal matrix; p -= rate (sqrt(max(1, rows / columns)) o + d p). A matrix with more rows than
 * columns is worked on as its transpose. */
static void RULE(muon_piece)(const struct RULE(piece) * piece, const struct RULE(terms) * k, REAL d,
                             STORED *scratch)
{
    int64_t rows = piece->rows, columns = piece->columns, turned = rows > columns;
    int64_t least = turned ? columns : rows, most = turned ? rows : columns;
    STORED *x = scratch, *other = x + piece->count, *square = other + piece->count;
    double squares[PARTS] = {0};
    REAL beta = k->momentum;
#pragma omp parallel for schedule(static) if (PARALLEL)
    for (int64_t part = 0; part < PARTS; part++)
        for (int64_t i = RULE(part)(piece->count, part); i < RULE(part)(piece->count, part + 1);
             i++) {
            REAL g = (REAL)piece->grad[i] * k->scale,
                 m = FUSED(beta, (REAL)piece->state[0][i] - g, g);
            REAL ahead = beta / k->momentum_next * m + (1 - beta) / k->momentum_now * g;
            piece->state[0][i] = (STORED)m;
            squares[part] += (double)ahead * (double)ahead;
            x[turned ? i % columns * rows + i / columns : i] = (STORED)ahead;
        }
    REAL norm = (REAL)sqrt(RULE(sum_of)(squares)) + k->eps,
         scale = k->rate * (rows > columns ? ROOT((REAL)rows / (REAL)columns) : 1);
    for (int64_t i = 0; i < piece->count; i++)
        x[i] = (STORED)((REAL)x[i] / norm);
    const STORED *o = RULE(orthogonalize)(x, other, square, least, most);
#pragma omp parallel for schedule(static) if (PARALLEL)
    for (int64_t i = 0; i < piece->count; i++) {
        REAL step = (REAL)o[turned ? i % columns * rows + i / columns : i];
        piece->param[i] = (STORED)((REAL)piece->param[i] * (1 - k->rate * d) - scale * step);
    }
}

/* Hidden matrices by Muon; what is at the ends of the model, and vectors, by AdamW. */
static void RULE(muon)(const struct lt_update *update, const struct RULE(terms) * k, REAL d)
{
    if (update->role != LT_WEIGHT_HIDDEN) {
        RULE(adamw_range)(update, k, 0, update->count, d);
        return;
    }
    for (int64_t i = 0; i < update->repeat; i++) {
        struct RULE(piece) piece = RULE(piece_of)(update, i);
        piece.state[0] += i * piece.count;
        RULE(muon_piece)(&piece, k, d, (STORED *)(void *)update->scratch);
    }
}

/* ---- L-BFGS ------------------------------------------------------------------------------------ */

/* All parameters as one vector, and what is kept of earlier updates: the last LT_LBFGS_PAIRS
 * differences of parameters and of gradients, the newest parameters and gradient, and room for the
 * direction. */
struct RULE(history) {
    STORED *moved, *turned; /* pair j from j * count on */
    STORED *param, *grad, *direction;
    int64_t count;
};

static double RULE(dot)(const STORED *a, const STORED *b, int64_t count)
{
    double parts[PARTS] = {0};
#pragma omp parallel for schedule(static) if (PARALLEL)
    for (int64_t part = 0; part < PARTS; part++)
        for (int64_t i = RULE(part)(count, part); i < RULE(part)(count, part + 1); i++)
            parts[part] += (double)a[i] * (double)b[i];
    return RULE(sum_of)(parts);
}

/* y += factor x */
static void RULE(add_scaled)(STORED *y, double factor, const STORED *x, int64_t count)
{
#pragma omp parallel for schedule(static) if (PARALLEL)
    for (int64_t i = 0; i < count; i++)
        y[i] = (STORED)FUSED((REAL)factor, (REAL)x[i], (REAL)y[i]);
}

/* Notes what parameters and gradient have changed by since the last update in pair `pair` (below 0:
 * nowhere), and keeps both; the direction begins as the gradient. */
static void RULE(remember)(const struct RULE(history) * past, const struct lt_update *update,
                           REAL scale, int64_t pair)
{
    const STORED *param = (const STORED *)(void *)update->param,
                 *grad = (const STORED *)(const void *)update->grad;
    int64_t first = pair * past->count;
#pragma omp parallel for schedule(static) if (PARALLEL)
    for (int64_t i = 0; i < past->count; i++) {
        STORED g = (STORED)((REAL)grad[i] * scale);
        if (pair >= 0) {
            past->moved[first + i] = (STORED)((REAL)param[i] - (REAL)past->param[i]);
            past->turned[first + i] = (STORED)((REAL)g - (REAL)past->grad[i]);
        }
        past->param[i] = param[i];
        past->grad[i] = past->direction[i] = g;
    }
}

/* The scale of the first approximation: s y / y y of the newest pair that counts, and where none
 * does what makes the step at most 1 long. */
static double RULE(first_scale)(const struct RULE(history) * past, int64_t pair)
{
    int64_t n = past->count;
    if (pair < 0) {
        double norm = sqrt(RULE(dot)(past->grad, past->grad, n));
        return norm > 1 ? 1 / norm : 1;
    }
    const STORED *turned = past->turned + pair * n;
    return RULE(dot)(past->moved + pair * n, turned, n) / RULE(dot)(turned, turned, n);
}

/* The inverse Hessian that the pairs describe, times the gradient (Nocedal and Wright, algorithm
 * 7.4; Liu and Nocedal 1989): p -= rate (direction + d p), without a line search, as optax's lbfgs
 * with linesearch=None. Pairs along which the gradient did not grow do not count: they come from
 * noise, and would lead uphill. Decay is that of the first `decayed` elements. */
static void RULE(lbfgs)(const struct lt_update *update, const struct RULE(terms) * k, REAL d)
{
    STORED *pairs = (STORED *)(void *)update->state[0],
           *newest = (STORED *)(void *)update->state[1], *param = (STORED *)(void *)update->param;
    int64_t n = update->count, made = (int64_t)k->made,
            kept = made < LT_LBFGS_PAIRS ? made : LT_LBFGS_PAIRS;
    struct RULE(history) past = {pairs,      pairs + LT_LBFGS_PAIRS * n,         newest,
                                 newest + n, (STORED *)(void *)update->state[2], n};
    double along[LT_LBFGS_PAIRS], weight[LT_LBFGS_PAIRS];
    int64_t newest_good = -1;
    RULE(remember)(&past, update, k->scale, made > 0 ? (made - 1) % LT_LBFGS_PAIRS : -1);
    for (int64_t j = 0; j < kept; j++) {
        int64_t pair = (made - 1 - j) % LT_LBFGS_PAIRS;
        const STORED *moved = past.moved + pair * n, *turned = past.turned + pair * n;
        double product = RULE(dot)(moved, turned, n);
        weight[j] = product > 0 ? 1 / product : 0;
        newest_good = newest_good < 0 && product > 0 ? pair : newest_good;
        along[j] = weight[j] * RULE(dot)(moved, past.direction, n);
        RULE(add_scaled)(past.direction, -along[j], turned, n);
    }
    double scale = RULE(first_scale)(&past, newest_good);
#pragma omp parallel for schedule(static) if (PARALLEL)
    for (int64_t i = 0; i < n; i++)
        past.direction[i] = (STORED)((REAL)scale * (REAL)past.direction[i]);
    for (int64_t j = kept - 1; j >= 0; j--) {
        int64_t pair = (made - 1 - j) % LT_LBFGS_PAIRS;
        double back = weight[j] * RULE(dot)(past.turned + pair * n, past.direction, n);
        RULE(add_scaled)(past.direction, along[j] - back, past.moved + pair * n, n);
    }
#pragma omp parallel for schedule(static) if (PARALLEL)
    for (int64_t i = 0; i < n; i++)
        param[i] = (STORED)((REAL)param[i] * (1 - k->rate * (i < update->decayed ? d : 0)) -
                            k->rate * (REAL)past.direction[i]);
}

#undef PARTS
#undef ADAFACTOR_FLOOR
#undef ADAFACTOR_SCALE
