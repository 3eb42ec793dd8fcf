/* SPDX-License-Identifier: Apache-2.0
 *
 * Template (typed.h): the reference backend of the operations that work on a part of the
 * vocabulary, each as its formula.
 */

/* Row of this rank's words that a token has, or -1. */
static int64_t TYPED(row_of)(int64_t token, int64_t first, int64_t count)
{
    return token >= first && token < first + count ? token - first : -1;
}

void TYPED(lt_reference_embedding_part_forward)(const union lt_args *args)
{
    const struct lt_embedding_part *a = &args->embedding_part_forward;
    const ELEMENT *word = a->word, *position = a->position;
    ELEMENT *out = a->out;
    for (int64_t i = 0; i < a->b * a->t; i++) {
        int64_t row = TYPED(row_of)(a->tokens[i], a->first, a->v),
                at = lt_embedding_position(a->t, a->jump, i);
        for (int64_t c = 0; c < a->c; c++) {
            REAL sum = row >= 0 ? GET(word[row * a->c + c]) : 0;
            sum += position ? GET(position[at * a->c + c]) : 0;
            out[i * a->c + c] = PUT(sum);
        }
    }
}

void TYPED(lt_reference_embedding_part_backward)(const union lt_args *args)
{
    const struct lt_embedding_part *a = &args->embedding_part_backward;
    const ELEMENT *dout = a->dout;
    for (int64_t i = 0; i < a->b * a->t; i++) {
        int64_t row = TYPED(row_of)(a->tokens[i], a->first, a->v),
                at = lt_embedding_position(a->t, a->jump, i);
        for (int64_t c = 0; c < a->c; c++) {
            if (row >= 0)
                a->dword[row * a->c + c] += GET(dout[i * a->c + c]);
            if (a->dposition)
                a->dposition[at * a->c + c] += GET(dout[i * a->c + c]);
        }
    }
}

void TYPED(lt_reference_classifier_part)(const union lt_args *args)
{
    const struct lt_classifier_part *a = &args->classifier_part;
    for (int64_t r = 0; r < a->rows; r++) {
        const ELEMENT *x = (const ELEMENT *)a->logits + r * a->v;
        int64_t target = TYPED(row_of)(a->targets[r], a->first, a->v);
        double max = -INFINITY, sum = 0;
        for (int64_t i = 0; i < a->v; i++)
            max = (double)GET(x[i]) > max ? (double)GET(x[i]) : max;
        for (int64_t i = 0; i < a->v; i++)
            sum += exp((double)GET(x[i]) - max);
        a->stats[3 * r] = (float)max;
        a->stats[3 * r + 1] = (float)sum;
        a->stats[3 * r + 2] = target >= 0 ? GET(x[target]) : 0;
    }
}

void TYPED(lt_reference_classifier_join)(const union lt_args *args)
{
    const struct lt_classifier_part *a = &args->classifier_join;
    for (int64_t r = 0; r < a->rows; r++) {
        ELEMENT *x = (ELEMENT *)a->logits + r * a->v;
        int64_t target = TYPED(row_of)(a->targets[r], a->first, a->v);
        double max = -INFINITY, sum = 0, hit = 0;
        for (int rank = 0; rank < a->ranks; rank++)
            if ((double)a->stats[3 * (rank * a->rows + r)] > max)
                max = (double)a->stats[3 * (rank * a->rows + r)];
        for (int rank = 0; rank < a->ranks; rank++) {
            const float *stats = a->stats + 3 * (rank * a->rows + r);
            sum += (double)stats[1] * exp((double)stats[0] - max);
            hit += (double)stats[2];
        }
        a->losses[r] = (float)(max + log(sum) - hit);
        for (int64_t i = 0; a->backward && i < a->v; i++)
            x[i] = PUT(
                (REAL)((double)a->scale * (exp((double)GET(x[i]) - max) / sum - (i == target))));
    }
}
