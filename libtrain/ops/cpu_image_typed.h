/* SPDX-License-Identifier: Apache-2.0
 *
 * Template (typed.h): operations on images in the backend cpu. A convolution is a GEMM with the
 * columns of a few images at a time: row i of the columns has what output pixel i sees. Sums have
 * an order that does not depend on timing.
 */

void TYPED(lt_cpu_image_forward)(const union lt_args *args)
{
    const struct lt_image *a = &args->image_forward;
    ELEMENT *out = a->out;
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < a->count; i++)
        out[i] = PUT(a->in[i]);
}

/* ---- convolution ------------------------------------------------------------------------------- */

/* What one output pixel sees; zeros outside of the image. */
static void TYPED(column)(const struct lt_conv *a, const ELEMENT *image, int64_t y, int64_t x,
                          ELEMENT *to)
{
    size_t bytes = (size_t)a->c * sizeof *to;
    for (int64_t ky = 0, iy = y * a->stride - a->pad; ky < a->k; ky++, iy++)
        for (int64_t kx = 0, ix = x * a->stride - a->pad; kx < a->k; kx++, ix++, to += a->c)
            if (iy >= 0 && iy < a->h && ix >= 0 && ix < a->w)
                memcpy(to, image + (iy * a->w + ix) * a->c, bytes);
            else
                memset(to, 0, bytes);
}

/* The columns of `images` images from `first` on; the input itself where it is the same. */
static const ELEMENT *TYPED(columns)(const struct lt_conv *a, const struct columns *s,
                                     int64_t first, int64_t images)
{
    const ELEMENT *in = (const ELEMENT *)a->in + first * a->h * a->w * a->c;
    ELEMENT *to = (ELEMENT *)(void *)a->scratch;
    if (reads_input(a))
        return in;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < images * s->oh * s->ow; i++)
        TYPED(column)
    (a, in + i / (s->oh * s->ow) * a->h * a->w * a->c, i / s->ow % s->oh, i % s->ow,
     to + i * s->taps);
    return to;
}

void TYPED(lt_cpu_conv_forward)(const union lt_args *args)
{
    const struct lt_conv *a = &args->conv_forward;
    struct columns s = columns_of(a, sizeof(ELEMENT));
    for (int64_t first = 0; first < a->b; first += s.images) {
        int64_t images = lt_min64(s.images, a->b - first), rows = images * s.oh * s.ow;
        lt_gemm(&(struct lt_product){.m = rows,
                                     .n = a->n,
                                     .k = s.taps,
                                     .a = {TYPED(columns)(a, &s, first, images), s.taps, 1},
                                     .b = {a->weight, 1, s.taps},
                                     .c = (ELEMENT *)a->out + first * s.oh * s.ow * a->n,
                                     .c_row = a->n,
                                     .in = DTYPE,
                                     .out = DTYPE});
    }
}

/* The gradient of one input pixel: the gradients of the columns it is in, added up by tap. */
static void TYPED(pixel_slope)(const struct lt_conv *a, const struct columns *s,
                               const ELEMENT *slopes, ELEMENT *din, int64_t y, int64_t x)
{
    for (int64_t c0 = 0; c0 < a->c; c0 += COLUMNS) {
        float sum[COLUMNS] = {0};
        int64_t count = lt_min64(COLUMNS, a->c - c0);
        for (int64_t tap = 0; tap < a->k * a->k; tap++) {
            int64_t oy = y + a->pad - tap / a->k, ox = x + a->pad - tap % a->k;
            if (oy < 0 || ox < 0 || oy % a->stride || ox % a->stride || oy / a->stride >= s->oh ||
                ox / a->stride >= s->ow)
                continue;
            TYPED(add_row)
            (sum, slopes + (oy / a->stride * s->ow + ox / a->stride) * s->taps + tap * a->c + c0,
             count);
        }
        for (int64_t c = 0; c < count; c++)
            din[c0 + c] = PUT(sum[c] + (a->add ? GET(din[c0 + c]) : 0.0f));
    }
}

/* The gradient of the input of `images` images: that of the columns, in the type of the elements,
 * and its sums. */
static void TYPED(conv_input)(const struct lt_conv *a, const struct columns *s, int64_t first,
                              int64_t images)
{
    int64_t rows = images * s->oh * s->ow, pixels = a->h * a->w;
    ELEMENT *din = (ELEMENT *)a->din + first * pixels * a->c,
            *slopes = reads_input(a) ? din : (ELEMENT *)(void *)a->scratch;
    lt_gemm(&(struct lt_product){
        .m = rows,
        .n = s->taps,
        .k = a->n,
        .a = {(const ELEMENT *)a->dout + first * s->oh * s->ow * a->n, a->n, 1},
        .b = {a->weight, s->taps, 1},
        .c = slopes,
        .c_row = s->taps,
        .add = reads_input(a) && a->add,
        .in = DTYPE,
        .out = DTYPE});
    if (reads_input(a))
        return;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < images * pixels; i++)
        TYPED(pixel_slope)
    (a, s, slopes + i / pixels * s->oh * s->ow * s->taps, din + i * a->c, i / a->w % a->h,
     i % a->w);
}

void TYPED(lt_cpu_conv_backward)(const union lt_args *args)
{
    const struct lt_conv *a = &args->conv_backward;
    struct columns s = columns_of(a, sizeof(ELEMENT));
    for (int64_t first = 0; first < a->b; first += s.images) {
        int64_t images = lt_min64(s.images, a->b - first), rows = images * s.oh * s.ow;
        lt_gemm(&(struct lt_product){
            .m = a->n,
            .n = s.taps,
            .k = rows,
            .a = {(const ELEMENT *)a->dout + first * s.oh * s.ow * a->n, 1, a->n},
            .b = {TYPED(columns)(a, &s, first, images), s.taps, 1},
            .c = a->dweight,
            .c_row = s.taps,
            .add = a->accumulate || first > 0,
            .in = DTYPE,
            .out = LT_DTYPE_FP32});
        if (a->din)
            TYPED(conv_input)(a, &s, first, images);
    }
}

/* ---- batch normalisation ----------------------------------------------------------------------- */

/* Sums of a part of the rows, of each column: in `which` 0 of x - shift (0 where shift is NULL), in
 * 1 of its square. */
static void TYPED(sum_part)(const struct lt_batchnorm *a, int64_t part, const float *shift)
{
    float *sum = a->scratch + 2 * part * a->c, *squares = sum + a->c;
    int64_t from, end;
    part_rows(a, part, &from, &end);
    memset(sum, 0, 2 * (size_t)a->c * sizeof *sum);
    for (int64_t r = from; r < end; r++) {
        const ELEMENT *x = (const ELEMENT *)a->in + r * a->c;
#pragma omp simd
        for (int64_t c = 0; c < a->c; c++) {
            float value = GET(x[c]) - (shift ? shift[c] : 0.0f);
            sum[c] += value;
            squares[c] += value * value;
        }
    }
}

/* Mean and 1 / deviation of each column: the mean first, so that the squares are small. */
static void TYPED(batch_statistics)(const struct lt_batchnorm *a)
{
    float rows = (float)a->rows;
#pragma omp parallel for schedule(static)
    for (int64_t part = 0; part < LT_BATCHNORM_PARTS; part++)
        TYPED(sum_part)(a, part, NULL);
    for (int64_t c = 0; c < a->c; c++)
        a->mean[c] = sum_parts(a, 0, c) / rows;
#pragma omp parallel for schedule(static)
    for (int64_t part = 0; part < LT_BATCHNORM_PARTS; part++)
        TYPED(sum_part)(a, part, a->mean);
    for (int64_t c = 0; c < a->c; c++) {
        float squares = sum_parts(a, 1, c);
        a->rstd[c] = 1.0f / sqrtf(squares / rows + LT_BATCHNORM_EPS);
        lt_batchnorm_run(a, c, a->mean[c], squares / (a->rows > 1 ? rows - 1 : 1.0f));
    }
}

void TYPED(lt_cpu_batchnorm_forward)(const union lt_args *args)
{
    const struct lt_batchnorm *a = &args->batchnorm_forward;
    if (!a->evaluation)
        TYPED(batch_statistics)(a);
    for (int64_t c = 0; a->evaluation && c < a->c; c++) {
        a->mean[c] = a->running_mean[c];
        a->rstd[c] = 1.0f / sqrtf(a->running_variance[c] + LT_BATCHNORM_EPS);
    }
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->rows; r++) {
        const ELEMENT *x = (const ELEMENT *)a->in + r * a->c;
        ELEMENT *out = (ELEMENT *)a->out + r * a->c;
#pragma omp simd
        for (int64_t c = 0; c < a->c; c++)
            out[c] = PUT(lt_fma((GET(x[c]) - a->mean[c]) * a->rstd[c], a->weight[c], a->bias[c]));
    }
}

/* Sums of a part of the rows: of dy, and of dy (x - mean) rstd. */
static void TYPED(sum_slopes)(const struct lt_batchnorm *a, int64_t part)
{
    float *sum = a->scratch + 2 * part * a->c, *hats = sum + a->c;
    int64_t from, end;
    part_rows(a, part, &from, &end);
    memset(sum, 0, 2 * (size_t)a->c * sizeof *sum);
    for (int64_t r = from; r < end; r++) {
        const ELEMENT *x = (const ELEMENT *)a->in + r * a->c,
                      *dy = (const ELEMENT *)a->dout + r * a->c;
#pragma omp simd
        for (int64_t c = 0; c < a->c; c++) {
            sum[c] += GET(dy[c]);
            hats[c] += GET(dy[c]) * ((GET(x[c]) - a->mean[c]) * a->rstd[c]);
        }
    }
}

/* With hat = (x - mean) rstd: dx = w rstd (dy - mean(dy) - hat mean(dy hat)), means over the rows.
 */
void TYPED(lt_cpu_batchnorm_backward)(const union lt_args *args)
{
    const struct lt_batchnorm *a = &args->batchnorm_backward;
    float *mean = a->scratch, *mean_hat = mean + a->c;
#pragma omp parallel for schedule(static)
    for (int64_t part = 0; part < LT_BATCHNORM_PARTS; part++)
        TYPED(sum_slopes)(a, part);
    for (int64_t c = 0; c < a->c; c++) {
        float sum = sum_parts(a, 0, c), hats = sum_parts(a, 1, c);
        a->dbias[c] += sum;
        a->dweight[c] += hats;
        mean[c] = sum / (float)a->rows;
        mean_hat[c] = hats / (float)a->rows;
    }
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->rows; r++) {
        const ELEMENT *x = (const ELEMENT *)a->in + r * a->c,
                      *dy = (const ELEMENT *)a->dout + r * a->c;
        ELEMENT *din = (ELEMENT *)a->din + r * a->c;
#pragma omp simd
        for (int64_t c = 0; c < a->c; c++) {
            float hat = (GET(x[c]) - a->mean[c]) * a->rstd[c];
            din[c] = PUT(a->weight[c] * a->rstd[c] * (GET(dy[c]) - mean[c] - hat * mean_hat[c]));
        }
    }
}

/* ---- the rest ---------------------------------------------------------------------------------- */

void TYPED(lt_cpu_relu_forward)(const union lt_args *args)
{
    const struct lt_relu *a = &args->relu_forward;
    const ELEMENT *in = a->in;
    ELEMENT *out = a->out;
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < a->count; i++) /* NaN stays NaN */
        out[i] = GET(in[i]) < 0 ? PUT(0.0f) : in[i];
}

void TYPED(lt_cpu_relu_backward)(const union lt_args *args)
{
    const struct lt_relu *a = &args->relu_backward;
    const ELEMENT *out = a->out, *dout = a->dout;
    ELEMENT *din = a->din;
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < a->count; i++)
        din[i] = GET(out[i]) > 0 ? dout[i] : PUT(0.0f);
}

/* All channels of output pixel i. */
static void TYPED(pool_pixel)(const struct lt_maxpool *a, int64_t i, int64_t oh, int64_t ow)
{
    const ELEMENT *image = (const ELEMENT *)a->in + i / (oh * ow) * a->h * a->w * a->c;
    ELEMENT *out = (ELEMENT *)a->out + i * a->c;
    int32_t *where = a->where + i * a->c;
    int64_t y = i / ow % oh * a->stride - a->pad, x = i % ow * a->stride - a->pad;
    memset(where, -1, (size_t)a->c * sizeof *where);
    for (int64_t tap = 0; tap < a->k * a->k; tap++) {
        int64_t iy = y + tap / a->k, ix = x + tap % a->k;
        if (iy < 0 || iy >= a->h || ix < 0 || ix >= a->w)
            continue;
        const ELEMENT *in = image + (iy * a->w + ix) * a->c;
        for (int64_t c = 0; c < a->c; c++)
            if (where[c] < 0 || GET(in[c]) > GET(out[c])) {
                where[c] = (int32_t)(iy * a->w + ix);
                out[c] = in[c];
            }
    }
}

void TYPED(lt_cpu_maxpool_forward)(const union lt_args *args)
{
    const struct lt_maxpool *a = &args->maxpool_forward;
    int64_t oh = lt_conv_out(a->h, a->k, a->stride, a->pad),
            ow = lt_conv_out(a->w, a->k, a->stride, a->pad);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < a->b * oh * ow; i++)
        TYPED(pool_pixel)(a, i, oh, ow);
}

/* The windows that an input pixel is in: those whose largest it is hand it their gradient. */
static void TYPED(pool_slope)(const struct lt_maxpool *a, int64_t i, int64_t oh, int64_t ow)
{
    int64_t pixels = a->h * a->w, pixel = i % pixels, y = pixel / a->w + a->pad,
            x = pixel % a->w + a->pad, first = i / pixels * oh * ow;
    for (int64_t c = 0; c < a->c; c++) {
        float sum = 0;
        for (int64_t oy = y < a->k ? 0 : (y - a->k) / a->stride + 1; oy < oh && oy * a->stride <= y;
             oy++)
            for (int64_t ox = x < a->k ? 0 : (x - a->k) / a->stride + 1;
                 ox < ow && ox * a->stride <= x; ox++) {
                int64_t at = (first + oy * ow + ox) * a->c + c;
                if (a->where[at] == pixel)
                    sum += GET(((const ELEMENT *)a->dout)[at]);
            }
        ((ELEMENT *)a->din)[i * a->c + c] = PUT(sum);
    }
}

void TYPED(lt_cpu_maxpool_backward)(const union lt_args *args)
{
    const struct lt_maxpool *a = &args->maxpool_backward;
    int64_t oh = lt_conv_out(a->h, a->k, a->stride, a->pad),
            ow = lt_conv_out(a->w, a->k, a->stride, a->pad);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < a->b * a->h * a->w; i++)
        TYPED(pool_slope)(a, i, oh, ow);
}

void TYPED(lt_cpu_avgpool_forward)(const union lt_args *args)
{
    const struct lt_avgpool *a = &args->avgpool_forward;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < a->b; i++)
        for (int64_t c0 = 0; c0 < a->c; c0 += COLUMNS) {
            float sum[COLUMNS] = {0};
            int64_t count = lt_min64(COLUMNS, a->c - c0);
            for (int64_t p = 0; p < a->pixels; p++)
                TYPED(add_row)
            (sum, (const ELEMENT *)a->in + (i * a->pixels + p) * a->c + c0, count);
            for (int64_t c = 0; c < count; c++)
                ((ELEMENT *)a->out)[i * a->c + c0 + c] = PUT(sum[c] / (float)a->pixels);
        }
}

void TYPED(lt_cpu_avgpool_backward)(const union lt_args *args)
{
    const struct lt_avgpool *a = &args->avgpool_backward;
    float share = 1.0f / (float)a->pixels;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < a->b * a->pixels; i++) {
        const ELEMENT *dout = (const ELEMENT *)a->dout + i / a->pixels * a->c;
        ELEMENT *din = (ELEMENT *)a->din + i * a->c;
#pragma omp simd
        for (int64_t c = 0; c < a->c; c++)
            din[c] = PUT(GET(dout[c]) * share);
    }
}
