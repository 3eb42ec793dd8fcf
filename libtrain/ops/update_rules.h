/* SPDX-License-Identifier: Apache-2.0
 *
 * Template: the updates that treat each element alike. Included once for each arithmetic, with
 *
 *     REAL       the type of arithmetic: float or double,
 *     STORED     the type of the arrays,
 *     RULE(name) a name of this instance,
 *     ROOT(x)    the square root,
 *     FUSED(a, b, c) a * b + c, as one operation where the machine has it.
 *
 * A rule takes the terms k, the element's weight decay d (0 where none applies), its gradient g,
 * its value p and its state s, changes the state, and returns the new value. Unless a rule says
 * otherwise, decay is decoupled: p (1 - rate d) less the gradient's part.
 */
struct RULE(terms) {
#define TERM(name) REAL name;
    LT_UPDATE_TERMS(TERM)
#undef TERM
    REAL rest1,
        rest2; /* 1 - beta, subtracted in double: of 0.999 a float keeps half of the digits */
};

static inline struct RULE(terms) RULE(terms_of)(const struct lt_update_terms *terms)
{
    return (struct RULE(terms)){
#define TERM(name) .name = (REAL)terms->name,
        LT_UPDATE_TERMS(TERM)
#undef TERM
            .rest1 = (REAL)(1 - terms->beta1),
        .rest2 = (REAL)(1 - terms->beta2)};
}

#define ARGUMENTS const struct RULE(terms) * k, REAL d, REAL g, REAL p, REAL *s

/* The moments of Adam: m = beta1 m + (1 - beta1) g and v = beta2 v + (1 - beta2) g^2. */
static inline void RULE(moments)(const struct RULE(terms) * k, REAL g, REAL *s)
{
    s[0] = FUSED(k->beta1, s[0], k->rest1 * g);
    s[1] = FUSED(k->beta2, s[1], k->rest2 * g * g);
}

static inline REAL RULE(sgd)(ARGUMENTS)
{
    (void)s;
    return p * (1 - k->rate * d) - k->rate * g;
}

/* u = momentum u + g; the step is u. PyTorch's convention without dampening: the rate is outside of
 * the velocity. */
static inline REAL RULE(momentum)(ARGUMENTS)
{
    s[0] = FUSED(k->momentum, s[0], g);
    return p * (1 - k->rate * d) - k->rate * s[0];
}

/* u = momentum u + g; the step is g + momentum u (Sutskever et al. 2013, as PyTorch writes it). */
static inline REAL RULE(nesterov)(ARGUMENTS)
{
    s[0] = FUSED(k->momentum, s[0], g);
    return p * (1 - k->rate * d) - k->rate * FUSED(k->momentum, s[0], g);
}

/* v += g^2; the step is g / (sqrt(v + root) + eps) (Duchi et al. 2011). */
static inline REAL RULE(adagrad)(ARGUMENTS)
{
    s[0] = FUSED(g, g, s[0]);
    return p * (1 - k->rate * d) - k->rate * g / (ROOT(s[0] + k->root) + k->eps);
}

/* v = beta2 v + (1 - beta2) g^2; the step is g / (sqrt(v + root) + eps) (Hinton 2012). */
static inline REAL RULE(rmsprop)(ARGUMENTS)
{
    s[0] = FUSED(k->beta2, s[0], k->rest2 * g * g);
    return p * (1 - k->rate * d) - k->rate * g / (ROOT(s[0] + k->root) + k->eps);
}

/* The corrected moments m / correction1 and v / correction2; the step is m' / (sqrt(v') + eps)
 * (Loshchilov and Hutter 2019). */
static inline REAL RULE(adamw)(ARGUMENTS)
{
    RULE(moments)(k, g, s);
    return p * (1 - k->rate * d) -
           k->rate / k->correction1 * s[0] / (ROOT(s[1] * (1 / k->correction2)) + k->eps);
}

/* Adam of Kingma and Ba 2015: decay is part of the gradient. */
static inline REAL RULE(adam)(ARGUMENTS)
{
    return RULE(adamw)(k, 0, FUSED(d, p, g), p, s);
}

/* Adam with Nesterov's look-ahead: beta1 m / (1 - beta1^(t+1)) + (1 - beta1) g / (1 - beta1^t) in
 * the place of m' (Dozat 2016 without its schedule of beta1). */
static inline REAL RULE(nadam)(ARGUMENTS)
{
    RULE(moments)(k, g, s);
    REAL ahead = k->beta1 / k->following1 * s[0] + k->rest1 / k->correction1 * g;
    return p * (1 - k->rate * d) - k->rate * ahead / (ROOT(s[1] * (1 / k->correction2)) + k->eps);
}

/* Adam whose step is rectified by the variance of v', and is m' alone while that has no bound (Liu
 * et al. 2020). */
static inline REAL RULE(radam)(ARGUMENTS)
{
    RULE(moments)(k, g, s);
    REAL step = s[0] / k->correction1;
    if (k->rectify > 0)
        step = k->rectify * step / (ROOT(s[1] * (1 / k->correction2)) + k->eps);
    return p * (1 - k->rate * d) - k->rate * step;
}

/* The step is the sign of beta1 m + (1 - beta1) g; then m = beta2 m + (1 - beta2) g (Chen et al.
 * 2023). */
static inline REAL RULE(lion)(ARGUMENTS)
{
    REAL mixed = FUSED(k->beta1, s[0], k->rest1 * g), step = 0;
    s[0] = FUSED(k->beta2, s[0], k->rest2 * g);
    if (mixed > 0)
        step = 1;
    if (mixed < 0)
        step = -1;
    return p * (1 - k->rate * d) - k->rate * step;
}

/* AdamW without a schedule (Defazio et al. 2024): z takes the steps, x is their average, and the
 * gradient is taken at p = (1 - beta1) z + beta1 x. s: z, v, x. Decay is that of p. */
static inline REAL RULE(schedule_free)(ARGUMENTS)
{
    s[1] = FUSED(k->beta2, s[1], k->rest2 * g * g);
    REAL step = g / (ROOT(s[1] * (1 / k->correction2)) + k->eps) + d * p;
    s[0] -= k->rate * step;
    s[2] = FUSED(k->share, s[0] - s[2], s[2]);
    return FUSED(k->beta1, s[2] - s[0], s[0]);
}

/* One function for each rule: elements [from, to) with one weight decay. Compilers turn the loop
 * into vectors by themselves; `omp simd` would keep the array s in memory. */
#define RANGE(X, id, name, text, states, flops, decay_flops) \
    static void RULE(name##_range)(const struct lt_update *update, \
                                   const struct RULE(terms) * terms, int64_t from, int64_t to, \
                                   REAL decay) \
    { \
        const struct RULE(terms) own = *terms, *k = &own; \
        STORED *restrict param = (STORED *)(void *)update->param; \
        STORED *restrict state0 = (STORED *)(void *)update->state[0]; \
        STORED *restrict state1 = (STORED *)(void *)update->state[1]; \
        STORED *restrict state2 = (STORED *)(void *)update->state[2]; \
        const STORED *restrict grad = (const STORED *)(const void *)update->grad; \
        (void)state0, (void)state1, (void)state2; \
        for (int64_t i = from; i < to; i++) { \
            REAL s[LT_UPDATE_STATES] = {(states) > 0 ? (REAL)state0[i] : 0, \
                                        (states) > 1 ? (REAL)state1[i] : 0, \
                                        (states) > 2 ? (REAL)state2[i] : 0}; \
            param[i] = (STORED)RULE(name)(k, decay, (REAL)grad[i] * k->scale, (REAL)param[i], s); \
            if ((states) > 0) \
                state0[i] = (STORED)s[0]; \
            if ((states) > 1) \
                state1[i] = (STORED)s[1]; \
            if ((states) > 2) \
                state2[i] = (STORED)s[2]; \
        } \
    }
LT_UPDATE_MAP(RANGE, )
#undef RANGE
#undef ARGUMENTS
