/* SPDX-License-Identifier: Apache-2.0
 *
 * Template (typed.h): the cpu backend of the operations that work on a part of the vocabulary, as
 * cpu_typed.h has those of the whole.
 */

/* Row of this rank's words that a token has, or -1. */
static int64_t TYPED(row_of)(int64_t token, int64_t first, int64_t count)
{
    return token >= first && token < first + count ? token - first : -1;
}

void TYPED(lt_cpu_embedding_part_forward)(const union lt_args *args)
{
    const struct lt_embedding_part *a = &args->embedding_part_forward;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < a->b * a->t; i++) {
        int64_t row = TYPED(row_of)(a->tokens[i], a->first, a->v),
                at = lt_embedding_position(a->t, a->jump, i);
        const ELEMENT *word = (const ELEMENT *)a->word + row * a->c,
                      *position = (const ELEMENT *)a->position;
        ELEMENT *out = (ELEMENT *)a->out + i * a->c;
        for (int64_t c = 0; c < a->c; c++) {
            float sum = row >= 0 ? GET(word[c]) : 0;
            if (position)
                sum += GET(position[at * a->c + c]);
            out[c] = PUT(sum);
        }
    }
}

/* Threads take columns, as tokens repeat. */
void TYPED(lt_cpu_embedding_part_backward)(const union lt_args *args)
{
    const struct lt_embedding_part *a = &args->embedding_part_backward;
#pragma omp parallel for schedule(static)
    for (int64_t c0 = 0; c0 < a->c; c0 += COLUMNS) {
        int64_t count = lt_min64(COLUMNS, a->c - c0);
        for (int64_t i = 0; i < a->b * a->t; i++) {
            const ELEMENT *dout = (const ELEMENT *)a->dout + i * a->c + c0;
            int64_t row = TYPED(row_of)(a->tokens[i], a->first, a->v);
            if (row >= 0)
                TYPED(add_row)(a->dword + row * a->c + c0, dout, count);
            int64_t at = lt_embedding_position(a->t, a->jump, i);
            if (a->dposition)
                TYPED(add_row)(a->dposition + at * a->c + c0, dout, count);
        }
    }
}

void TYPED(lt_cpu_classifier_part)(const union lt_args *args)
{
    const struct lt_classifier_part *a = &args->classifier_part;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->rows; r++) {
        const ELEMENT *x = (const ELEMENT *)a->logits + r * a->v;
        int64_t target = TYPED(row_of)(a->targets[r], a->first, a->v);
        float max = GET(x[0]), sum = 0;
        for (int64_t i = 1; i < a->v; i++)
            max = GET(x[i]) > max ? GET(x[i]) : max;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < a->v; i++)
            sum += lt_exp(GET(x[i]) - max);
        a->stats[3 * r] = max;
        a->stats[3 * r + 1] = sum;
        a->stats[3 * r + 2] = target >= 0 ? GET(x[target]) : 0;
    }
}

void TYPED(lt_cpu_classifier_join)(const union lt_args *args)
{
    const struct lt_classifier_part *a = &args->classifier_join;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->rows; r++) {
        ELEMENT *x = (ELEMENT *)a->logits + r * a->v;
        int64_t target = TYPED(row_of)(a->targets[r], a->first, a->v);
        float max = a->stats[3 * r], sum = 0, hit = 0;
        for (int rank = 1; rank < a->ranks; rank++)
            max = fmaxf(max, a->stats[3 * (rank * a->rows + r)]);
        for (int rank = 0; rank < a->ranks; rank++) {
            const float *stats = a->stats + 3 * (rank * a->rows + r);
            sum += stats[1] * lt_exp(stats[0] - max);
            hit += stats[2];
        }
        a->losses[r] = logf(sum) - (hit - max);
        if (!a->backward)
            continue;
        float share = a->scale / sum;
#pragma omp simd
        for (int64_t i = 0; i < a->v; i++)
            x[i] = PUT(lt_exp(GET(x[i]) - max) * share - (i == target ? a->scale : 0.0f));
    }
}
