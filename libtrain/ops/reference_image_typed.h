/* SPDX-License-Identifier: Apache-2.0
 *
 * Template (typed.h): operations on images in the reference backend: formulas, one thread, sums in
 * double, one rounding where a result is stored.
 */

void TYPED(lt_reference_image_forward)(const union lt_args *args)
{
    const struct lt_image *a = &args->image_forward;
    for (int64_t i = 0; i < a->count; i++)
        ((ELEMENT *)a->out)[i] = PUT(a->in[i]);
}

/* Calls: pixel (y, x) of the output sees pixel (iy, ix) of the input through tap (ky, kx). */
#define EACH_TAP(a, y, x, ky, kx, iy, ix) \
    for (int64_t ky = 0, iy = (y) * (a)->stride - (a)->pad; ky < (a)->k; ky++, iy++) \
        for (int64_t kx = 0, ix = (x) * (a)->stride - (a)->pad; kx < (a)->k; kx++, ix++) \
            if (iy >= 0 && iy < (a)->h && ix >= 0 && ix < (a)->w)

void TYPED(lt_reference_conv_forward)(const union lt_args *args)
{
    const struct lt_conv *a = &args->conv_forward;
    const ELEMENT *in = a->in, *weight = a->weight;
    int64_t oh = lt_conv_out(a->h, a->k, a->stride, a->pad),
            ow = lt_conv_out(a->w, a->k, a->stride, a->pad);
    for (int64_t i = 0; i < a->b * oh * ow; i++)
        for (int64_t n = 0; n < a->n; n++) {
            double sum = 0;
            EACH_TAP(a, i / ow % oh, i % ow, ky, kx, iy, ix)
            for (int64_t c = 0; c < a->c; c++)
                sum += (double)GET(in[((i / (oh * ow) * a->h + iy) * a->w + ix) * a->c + c]) *
                       (double)GET(weight[((n * a->k + ky) * a->k + kx) * a->c + c]);
            ((ELEMENT *)a->out)[i * a->n + n] = PUT((REAL)sum);
        }
}

/* The gradient of one pixel and channel of the input: the outputs that saw it. */
static double TYPED(conv_input_slope)(const struct lt_conv *a, int64_t image, int64_t y, int64_t x,
                                      int64_t c)
{
    const ELEMENT *weight = a->weight, *dout = a->dout;
    int64_t oh = lt_conv_out(a->h, a->k, a->stride, a->pad),
            ow = lt_conv_out(a->w, a->k, a->stride, a->pad);
    double sum = 0;
    for (int64_t ky = 0; ky < a->k; ky++)
        for (int64_t kx = 0; kx < a->k; kx++) {
            int64_t oy = y + a->pad - ky, ox = x + a->pad - kx;
            if (oy < 0 || ox < 0 || oy % a->stride || ox % a->stride || oy / a->stride >= oh ||
                ox / a->stride >= ow)
                continue;
            int64_t at = ((image * oh + oy / a->stride) * ow + ox / a->stride) * a->n;
            for (int64_t n = 0; n < a->n; n++)
                sum += (double)GET(dout[at + n]) *
                       (double)GET(weight[((n * a->k + ky) * a->k + kx) * a->c + c]);
        }
    return sum;
}

static void TYPED(conv_weight_slopes)(const struct lt_conv *a)
{
    const ELEMENT *in = a->in, *dout = a->dout;
    int64_t oh = lt_conv_out(a->h, a->k, a->stride, a->pad),
            ow = lt_conv_out(a->w, a->k, a->stride, a->pad), taps = a->k * a->k * a->c;
    for (int64_t n = 0; n < a->n; n++)
        for (int64_t tap = 0; tap < taps; tap++) {
            int64_t ky = tap / a->c / a->k, kx = tap / a->c % a->k, c = tap % a->c;
            double sum = a->accumulate ? (double)a->dweight[n * taps + tap] : 0;
            for (int64_t i = 0; i < a->b * oh * ow; i++) {
                int64_t iy = i / ow % oh * a->stride - a->pad + ky,
                        ix = i % ow * a->stride - a->pad + kx;
                if (iy >= 0 && iy < a->h && ix >= 0 && ix < a->w)
                    sum += (double)GET(dout[i * a->n + n]) *
                           (double)GET(in[((i / (oh * ow) * a->h + iy) * a->w + ix) * a->c + c]);
            }
            a->dweight[n * taps + tap] = (float)sum;
        }
}

void TYPED(lt_reference_conv_backward)(const union lt_args *args)
{
    const struct lt_conv *a = &args->conv_backward;
    ELEMENT *din = a->din;
    TYPED(conv_weight_slopes)(a);
    for (int64_t i = 0; din && i < a->b * a->h * a->w; i++)
        for (int64_t c = 0; c < a->c; c++) {
            double sum =
                TYPED(conv_input_slope)(a, i / (a->h * a->w), i / a->w % a->h, i % a->w, c);
            sum += a->add ? (double)GET(din[i * a->c + c]) : 0;
            din[i * a->c + c] = PUT((REAL)sum);
        }
}

/* Mean and 1 / deviation of column c, of this batch or, in an evaluation, the running ones, which
 * move a tenth of the way to this batch's otherwise. */
static void TYPED(column_statistics)(const struct lt_batchnorm *a, int64_t c, double *mean,
                                     double *rstd)
{
    const ELEMENT *x = a->in;
    double variance = 0, rows = (double)a->rows;
    *mean = 0;
    for (int64_t r = 0; r < a->rows; r++)
        *mean += (double)GET(x[r * a->c + c]) / rows;
    for (int64_t r = 0; r < a->rows; r++)
        variance += ((double)GET(x[r * a->c + c]) - *mean) * ((double)GET(x[r * a->c + c]) - *mean);
    if (a->evaluation)
        *mean = (double)a->running_mean[c];
    else
        lt_batchnorm_run(a, c, (float)*mean, (float)(variance / (a->rows > 1 ? rows - 1 : 1)));
    variance = a->evaluation ? (double)a->running_variance[c] : variance / rows;
    *rstd = 1 / sqrt(variance + (double)LT_BATCHNORM_EPS);
}

void TYPED(lt_reference_batchnorm_forward)(const union lt_args *args)
{
    const struct lt_batchnorm *a = &args->batchnorm_forward;
    const ELEMENT *x = a->in;
    for (int64_t c = 0; c < a->c; c++) {
        double mean, rstd;
        TYPED(column_statistics)(a, c, &mean, &rstd);
        for (int64_t r = 0; r < a->rows; r++)
            ((ELEMENT *)a->out)[r * a->c + c] =
                PUT((REAL)(((double)GET(x[r * a->c + c]) - mean) * rstd * (double)a->weight[c] +
                           (double)a->bias[c]));
        a->mean[c] = (float)mean;
        a->rstd[c] = (float)rstd;
    }
}

/* With hat = (x - mean) rstd: dx = w rstd (dy - mean(dy) - hat mean(dy hat)), means over the rows.
 */
void TYPED(lt_reference_batchnorm_backward)(const union lt_args *args)
{
    const struct lt_batchnorm *a = &args->batchnorm_backward;
    const ELEMENT *x = a->in, *dy = a->dout;
    for (int64_t c = 0; c < a->c; c++) {
        double mean = (double)a->mean[c], rstd = (double)a->rstd[c], sum = 0, sum_hat = 0;
        for (int64_t i = c; i < a->rows * a->c; i += a->c) {
            sum += (double)GET(dy[i]);
            sum_hat += (double)GET(dy[i]) * ((double)GET(x[i]) - mean) * rstd;
        }
        for (int64_t i = c; i < a->rows * a->c; i += a->c) {
            double hat = ((double)GET(x[i]) - mean) * rstd;
            ((ELEMENT *)a->din)[i] = PUT((REAL)((double)a->weight[c] * rstd *
                                                ((double)GET(dy[i]) - sum / (double)a->rows -
                                                 hat * sum_hat / (double)a->rows)));
        }
        a->dweight[c] += (float)sum_hat;
        a->dbias[c] += (float)sum;
    }
}

void TYPED(lt_reference_relu_forward)(const union lt_args *args)
{
    const struct lt_relu *a = &args->relu_forward;
    const ELEMENT *in = a->in;
    for (int64_t i = 0; i < a->count; i++) /* NaN stays NaN */
        ((ELEMENT *)a->out)[i] = GET(in[i]) < 0 ? PUT(0.0f) : in[i];
}

void TYPED(lt_reference_relu_backward)(const union lt_args *args)
{
    const struct lt_relu *a = &args->relu_backward;
    const ELEMENT *out = a->out, *dout = a->dout;
    for (int64_t i = 0; i < a->count; i++)
        ((ELEMENT *)a->din)[i] = GET(out[i]) > 0 ? dout[i] : PUT(0.0f);
}

/* The pixel of the image that is the largest of the window of output pixel (y, x) in channel c; the
 * first one where none is larger. */
static int32_t TYPED(window_largest)(const struct lt_maxpool *a, int64_t image, int64_t y,
                                     int64_t x, int64_t c)
{
    const ELEMENT *in = (const ELEMENT *)a->in + image * a->h * a->w * a->c + c;
    int32_t best = -1;
    EACH_TAP(a, y, x, ky, kx, iy, ix)
    {
        int32_t pixel = (int32_t)(iy * a->w + ix);
        if (best < 0 || GET(in[pixel * a->c]) > GET(in[best * a->c]))
            best = pixel;
    }
    return best;
}

void TYPED(lt_reference_maxpool_forward)(const union lt_args *args)
{
    const struct lt_maxpool *a = &args->maxpool_forward;
    int64_t oh = lt_conv_out(a->h, a->k, a->stride, a->pad),
            ow = lt_conv_out(a->w, a->k, a->stride, a->pad);
    for (int64_t i = 0; i < a->b * oh * ow; i++)
        for (int64_t c = 0; c < a->c; c++) {
            int64_t image = i / (oh * ow);
            int32_t pixel = TYPED(window_largest)(a, image, i / ow % oh, i % ow, c);
            a->where[i * a->c + c] = pixel;
            ((ELEMENT *)a->out)[i * a->c + c] =
                ((const ELEMENT *)a->in)[(image * a->h * a->w + pixel) * a->c + c];
        }
}

void TYPED(lt_reference_maxpool_backward)(const union lt_args *args)
{
    const struct lt_maxpool *a = &args->maxpool_backward;
    const ELEMENT *dout = a->dout;
    int64_t outputs = lt_conv_out(a->h, a->k, a->stride, a->pad) *
                      lt_conv_out(a->w, a->k, a->stride, a->pad),
            pixels = a->h * a->w;
    for (int64_t i = 0; i < a->b * pixels * a->c; i++) {
        int64_t image = i / (pixels * a->c), pixel = i / a->c % pixels, c = i % a->c;
        double sum = 0;
        for (int64_t o = image * outputs; o < (image + 1) * outputs; o++)
            sum += a->where[o * a->c + c] == pixel ? (double)GET(dout[o * a->c + c]) : 0;
        ((ELEMENT *)a->din)[i] = PUT((REAL)sum);
    }
}

void TYPED(lt_reference_avgpool_forward)(const union lt_args *args)
{
    const struct lt_avgpool *a = &args->avgpool_forward;
    for (int64_t i = 0; i < a->b * a->c; i++) {
        const ELEMENT *in = (const ELEMENT *)a->in + i / a->c * a->pixels * a->c + i % a->c;
        double sum = 0;
        for (int64_t p = 0; p < a->pixels; p++)
            sum += (double)GET(in[p * a->c]);
        ((ELEMENT *)a->out)[i] = PUT((REAL)(sum / (double)a->pixels));
    }
}

void TYPED(lt_reference_avgpool_backward)(const union lt_args *args)
{
    const struct lt_avgpool *a = &args->avgpool_backward;
    const ELEMENT *dout = a->dout;
    for (int64_t i = 0; i < a->b * a->pixels * a->c; i++)
        ((ELEMENT *)a->din)[i] =
            PUT(GET(dout[i / (a->pixels * a->c) * a->c + i % a->c]) / (float)a->pixels);
}

#undef EACH_TAP
