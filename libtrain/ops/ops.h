/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: every operation of the engine, and the one point through which all of them
 * go.
 *
 * lt_op looks up the operation's row, computes its work from the shapes alone (FLOPs in three
 * conventions, bytes), opens a range, calls the implementation that the context selects, and closes
 * the range. No other place of the engine calls an implementation.
 *
 * Shapes. b sequences of t tokens, c channels, h heads of c / h channels, v words; all tensors
 * row-major and dense. Types. What is void * has elements of the context's dtype: activations,
 * their gradients, and the weights that GEMMs and look-ups read. What is float * is fp32 in
 * every dtype: statistics, losses, biases, parameters of layernorm, gradients of parameters, the
 * optimizer's arrays. Sums are fp32 or wider; an element is rounded once, to nearest even, when it
 * is stored. A backward overwrites the gradient of its input unless its comment says it adds;
 * gradients of parameters always add, except where `accumulate` is 0. Ownership: arguments are
 * borrowed for the call.
 *
 * To add an operation: a struct here (if no present one fits), a row in LT_OP_MAP, its cost in
 * ops_cost.c, an implementation in reference_typed.h and cpu_typed.h (those of the optimizer:
 * *_optimizer.c; an update of an optimizer: update.h says how), a row in
 * tests/unit/libtrain/test_lt_gradients.c. To add a backend or a dtype: an enum value, its column
 * in kernels.h and in the table of ops.c. What computes on a device is not in the table: device.h.
 */
#ifndef LT_OPS_H
#define LT_OPS_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/base/dtype.h"
#include "libtrain/ops/update.h"

struct lt_exact;
struct lt_tensor_group;
struct lt_device;
struct lt_fault;
struct lt_scan;
struct lt_trace;
struct tacho_work;

/* Who computes. REFERENCE is plain scalar C, the truth for tests; CPU is OpenMP and vectors, with
 * the GEMMs of a library (gemm.h). */
#define LT_BACKEND_MAP(X)         X(REFERENCE, "reference") X(CPU, "cpu")
#define LT_ENUM_BACKEND(id, name) LT_BACKEND_##id,
enum lt_backend { LT_BACKEND_MAP(LT_ENUM_BACKEND) LT_BACKEND_COUNT };
#undef LT_ENUM_BACKEND

#define LT_UPDATE_AS_OP(X, id, function, name, ...)         X(id, function, name, OPTIMIZER, OTHER)
#define LT_UPDATE_TENSOR_AS_OP(X, id, function, name, kind) X(id, function, name, OPTIMIZER, kind)

/* id, function suffix (and member of union lt_args), range name, pass, kind of work */
#define LT_OP_MAP(X) \
    X(EMBEDDING_FORWARD, embedding_forward, "embedding.forward", FORWARD, OTHER) \
    X(EMBEDDING_BACKWARD, embedding_backward, "embedding.backward", BACKWARD, OTHER) \
    X(LAYERNORM_FORWARD, layernorm_forward, "layernorm.forward", FORWARD, OTHER) \
    X(LAYERNORM_BACKWARD, layernorm_backward, "layernorm.backward", BACKWARD, OTHER) \
    X(MATMUL_FORWARD, matmul_forward, "matmul.forward", FORWARD, MATRIX) \
    X(MATMUL_BACKWARD, matmul_backward, "matmul.backward", BACKWARD, MATRIX) \
    X(ATTENTION_FORWARD, attention_forward, "attention.forward", FORWARD, ATTENTION) \
    X(ATTENTION_BACKWARD, attention_backward, "attention.backward", BACKWARD, ATTENTION) \
    X(GELU_FORWARD, gelu_forward, "gelu.forward", FORWARD, OTHER) \
    X(GELU_BACKWARD, gelu_backward, "gelu.backward", BACKWARD, OTHER) \
    X(RESIDUAL_FORWARD, residual_forward, "residual.forward", FORWARD, OTHER) \
    X(RMSNORM_FORWARD, rmsnorm_forward, "rmsnorm.forward", FORWARD, OTHER) \
    X(RMSNORM_BACKWARD, rmsnorm_backward, "rmsnorm.backward", BACKWARD, OTHER) \
    X(ROPE_FORWARD, rope_forward, "rope.forward", FORWARD, OTHER) \
    X(ROPE_BACKWARD, rope_backward, "rope.backward", BACKWARD, OTHER) \
    X(SWIGLU_FORWARD, swiglu_forward, "swiglu.forward", FORWARD, OTHER) \
    X(SWIGLU_BACKWARD, swiglu_backward, "swiglu.backward", BACKWARD, OTHER) \
    X(CLASSIFIER, classifier, "classifier.fused", FORWARD, OTHER) \
    X(IMAGE_FORWARD, image_forward, "image.forward", FORWARD, OTHER) \
    X(CONV_FORWARD, conv_forward, "conv.forward", FORWARD, MATRIX) \
    X(CONV_BACKWARD, conv_backward, "conv.backward", BACKWARD, MATRIX) \
    X(BATCHNORM_FORWARD, batchnorm_forward, "batchnorm.forward", FORWARD, OTHER) \
    X(BATCHNORM_BACKWARD, batchnorm_backward, "batchnorm.backward", BACKWARD, OTHER) \
    X(RELU_FORWARD, relu_forward, "relu.forward", FORWARD, OTHER) \
    X(RELU_BACKWARD, relu_backward, "relu.backward", BACKWARD, OTHER) \
    X(MAXPOOL_FORWARD, maxpool_forward, "maxpool.forward", FORWARD, OTHER) \
    X(MAXPOOL_BACKWARD, maxpool_backward, "maxpool.backward", BACKWARD, OTHER) \
    X(AVGPOOL_FORWARD, avgpool_forward, "avgpool.forward", FORWARD, OTHER) \
    X(AVGPOOL_BACKWARD, avgpool_backward, "avgpool.backward", BACKWARD, OTHER) \
    X(ROUTE_FORWARD, route_forward, "route.forward", FORWARD, OTHER) \
    X(ROUTE_BACKWARD, route_backward, "route.backward", BACKWARD, OTHER) \
    X(DISPATCH_FORWARD, dispatch_forward, "dispatch.forward", FORWARD, OTHER) \
    X(DISPATCH_BACKWARD, dispatch_backward, "dispatch.backward", BACKWARD, OTHER) \
    X(EXPERTS_FORWARD, experts_forward, "experts.forward", FORWARD, MATRIX) \
    X(EXPERTS_BACKWARD, experts_backward, "experts.backward", BACKWARD, MATRIX) \
    X(COMBINE_FORWARD, combine_forward, "combine.forward", FORWARD, OTHER) \
    X(COMBINE_BACKWARD, combine_backward, "combine.backward", BACKWARD, OTHER) \
    X(EMBEDDING_PART_FORWARD, embedding_part_forward, "embedding.part", FORWARD, OTHER) \
    X(EMBEDDING_PART_BACKWARD, embedding_part_backward, "embedding.part.backward", BACKWARD, \
      OTHER) \
    X(CLASSIFIER_PART, classifier_part, "classifier.part", FORWARD, OTHER) \
    X(CLASSIFIER_JOIN, classifier_join, "classifier.join", FORWARD, OTHER) \
    X(NORM, norm, "gradient.norm", OPTIMIZER, OTHER) \
    X(CLIP, clip, "gradient.clip", OPTIMIZER, OTHER) \
    X(CENTRE, centre, "gradient.centre", OPTIMIZER, OTHER) \
    X(ROUNDING, rounding, "weights.round", OPTIMIZER, OTHER) \
    X(ZERO, zero, "gradient.zero", OPTIMIZER, OTHER) \
    LT_UPDATE_MAP(LT_UPDATE_AS_OP, X) \
    LT_UPDATE_TENSOR_MAP(LT_UPDATE_TENSOR_AS_OP, X) \
    X(LOOKAHEAD, lookahead, "lookahead", OPTIMIZER, OTHER) \
    X(EXCHANGE, exchange, "average.exchange", OPTIMIZER, OTHER) \
    X(KFAC_FACTORS, kfac_factors, "kfac.factors", BACKWARD, MATRIX) \
    X(KFAC_AVERAGE, kfac_average, "kfac.average", OPTIMIZER, OTHER) \
    X(KFAC_INVERSE, kfac_inverse, "kfac.inverse", OPTIMIZER, MATRIX) \
    X(KFAC_DIRECTION, kfac_direction, "kfac.direction", OPTIMIZER, MATRIX)

#define LT_ENUM_OP(id, function, name, pass, kind) LT_OP_##id,
enum lt_op_id { LT_OP_MAP(LT_ENUM_OP) LT_OP_COUNT };
#undef LT_ENUM_OP

/* out[b,t,:] = word[tokens[b,t],:] + position[t,:]; without the latter where position is NULL. From
 * the middle of a sequence on, `jump` rows of it are left out (not on a device). Backward adds into
 * dword and dposition (NULL with position). tokens: 0 <= token < v. On a device backward also reads
 * the places 0 .. b t - 1 in the order of their words (order), and where in it each word that
 * occurs begins (starts, b t + 1 numbers: after the last word all are b t). */
struct lt_embedding {
    void *out;
    const void *word, *position;
    const int32_t *tokens, *order, *starts;
    const void *dout;
    float *dword, *dposition;
    int64_t b, t, c, v, jump;
};

/* Row of the positions for token number `token` of all, in sequences of t tokens. */
static inline int64_t lt_embedding_position(int64_t t, int64_t jump, int64_t token)
{
    int64_t at = token % t;
    return jump && at >= t / 2 ? at + jump : at;
}

/* out = (in - mean) * rstd * weight + bias over rows of c; mean and rstd (one a row) are written by
 * forward and read by backward. eps = 1e-5. Backward ADDS into din (the residual stream's
 * gradient), dweight and dbias. */
struct lt_layernorm {
    void *out;
    float *mean, *rstd;
    const void *in;
    const float *weight, *bias;
    const void *dout;
    void *din;
    float *dweight, *dbias;
    int64_t rows, c;
};

/* out[rows,n] = in[rows,k] * weight[n,k]^T + bias[n] (bias may be NULL). Backward: din = dout *
 * weight; dweight = dout^T * in and dbias = column sums of dout, added to what is there if
 * `accumulate`, else overwriting it. din == NULL: nothing below learns, so the input's gradient is
 * neither computed nor counted. dweight == NULL: that of the weight is not, and dbias is NULL too.
 * add: it is added to what din holds. rounded_bias: the bias as elements, or NULL; a device that
 * has its bias there may add that instead. copies: so many ranks make the same product, and this
 * one is number `copy` of them; 0: no other one does. */
struct lt_matmul {
    void *out;
    const void *in, *weight, *rounded_bias;
    const float *bias;
    const void *dout;
    void *din;
    float *dweight, *dbias;
    int64_t rows, n, k;
    int accumulate, add, copy, copies;
};

/* Causal softmax attention. qkv[b,t,3c] holds query, key, value; out[b,t,c]; lse[b,h,t] = log of
 * each row's sum of exp(q.k / sqrt(c/h)), written by forward. Backward recomputes the probabilities
 * from lse, so memory is linear in t. scratch: `slots` regions of lt_attention_scratch(dtype, t, c
 * / h) floats, one a thread, aligned as an arena's tensor.
 *
 * kv, unless NULL: keys and values of t tokens of each sequence, kv[b,t,2c], one call for each part
 * of a sequence (Liu et al. 2023). `own`: the part of the queries themselves, which comes first and
 * is masked as above; of another part the queries from number `skip` of each sequence on see all
 * tokens but the last `hidden` ones. sum[b,t,c] floats and lse are those of the parts so far; with
 * `last` forward rounds sum to out, and lse is whole. Backward adds to sum, there the gradient of
 * the queries (`own`: sets it; `last`: rounds it to dqkv's), and to dkv[b,t,2c] floats. */
struct lt_attention {
    void *out;
    float *lse;
    const void *qkv;
    const void *dout;
    void *dqkv;
    float *scratch;
    const void *kv;
    float *sum, *dkv;
    int64_t b, t, c, h, skip, hidden;
    int slots, own, last;
};

/* y = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). Backward may work in place (din == dout). */
struct lt_gelu {
    void *out;
    const void *in;
    const void *dout;
    void *din;
    int64_t count;
};

/* out = in * rstd * weight over rows of c, rstd = 1 / sqrt(mean of in^2 + 1e-5) (Zhang and Sennrich
 * 2019); rstd (one a row) is written by forward and read by backward. Backward overwrites din, or
 * adds into it if `add`, and ADDS into dweight. */
struct lt_rmsnorm {
    void *out;
    float *rstd;
    const void *in;
    const float *weight;
    const void *dout;
    void *din;
    float *dweight;
    int64_t rows, c;
    int add;
};

/* Rotary positions (Su et al. 2021) and grouped heads (Ainslie et al. 2023). in[b,t,c + 2 g d]
 * holds h query heads, then g key heads, then g value heads of d = c / h channels; out[b,t,3c] has
 * what attention reads: the queries and the keys turned, each key and value head h / g times.
 * Channels i and i + d / 2 of a head turn together, by the angle position * base^(-2 i / d).
 * turn[t,d]: d / 2 cosines, then d / 2 sines a row (lt_rope_turns). d is even. Backward overwrites
 * din. */
struct lt_rope {
    void *out;
    const void *in;
    const float *turn;
    const void *dout;
    void *din;
    int64_t b, t, c, h, groups;
};

/* out[rows,f] = gate / (1 + exp(-gate)) * up, where a row of in[rows,2f] is gate, then up (Shazeer
 * 2020). Backward overwrites din. */
struct lt_swiglu {
    void *out;
    const void *in;
    const void *dout;
    void *din;
    int64_t rows, f;
};

/* out = a + b. Its backward hands the same gradient to both sides, which the in-place gradient of
 * the residual stream does. */
struct lt_residual {
    void *out;
    const void *a, *b;
    int64_t count;
};

/* Softmax and cross-entropy in one pass over logits[rows,v]: losses[row] = -log p(target). If
 * `backward`, logits are replaced by their gradient scale * (p - onehot), else they are left as
 * they are. */
struct lt_classifier {
    void *logits;
    float *losses;
    const int32_t *targets;
    int64_t rows, v;
    float scale;
    int backward;
};

/* out = in, floats as elements: the images of a batch. */
struct lt_image {
    void *out;
    const float *in;
    int64_t count;
};

/* Images of b x h x w pixels of c channels, channels last. out[b,oh,ow,n], oh = (h + 2 pad - k) /
 * stride + 1, likewise ow (lt_conv_out): a k x k convolution without a bias; weight[n,k,k,c].
 * Backward: din overwritten, or added to if `add`; NULL: nothing below learns. dweight overwritten
 * unless `accumulate`. scratch: lt_conv_scratch floats, the columns of a few images at a time. */
struct lt_conv {
    void *out;
    const void *in, *weight;
    const void *dout;
    void *din;
    float *dweight, *scratch;
    int64_t b, h, w, c, n, k, stride, pad;
    int accumulate, add;
};

/* out = (in - mean) rstd weight + bias, with mean and variance of each of c columns over all rows
 * (Ioffe and Szegedy 2015); eps = 1e-5. mean and rstd (c each) are written by forward and read by
 * backward. If `update`, forward moves the running mean and variance (unbiased) by a tenth of the
 * way to this batch's; if `evaluation`, it uses them in place of the batch's. Backward overwrites
 * din and ADDS into dweight and dbias. scratch: lt_batchnorm_scratch floats. */
struct lt_batchnorm {
    void *out;
    float *mean, *rstd, *running_mean, *running_variance;
    const void *in;
    const float *weight, *bias;
    const void *dout;
    void *din;
    float *dweight, *dbias, *scratch;
    int64_t rows, c;
    int update, evaluation;
};

/* out = max(in, 0). Backward reads `out`, overwrites din, and may work in place (din == dout). */
struct lt_relu {
    void *out;
    const void *in;
    const void *dout;
    void *din;
    int64_t count;
};

/* Shapes as lt_conv's: the largest of each k x k window, the first one of equals; where[b,oh,ow,c]:
 * the pixel of the image that it was. Backward overwrites din. pad < k. */
struct lt_maxpool {
    void *out;
    int32_t *where;
    const void *in;
    const void *dout;
    void *din;
    int64_t b, h, w, c, k, stride, pad;
};

/* out[b,c] = the mean over the pixels of in[b,pixels,c]. Backward overwrites din. */
struct lt_avgpool {
    void *out;
    const void *in;
    const void *dout;
    void *din;
    int64_t b, pixels, c;
};

/* Which of `experts` a row goes to: the k largest of its logits in[rows,experts] (of equal ones the
 * first). gate[rows,k]: the softmax over these k. An expert has `capacity` places, which the first
 * choices of all rows take before the second ones, in the order of the rows (Lepikhin et al. 2020);
 * slot[rows,k]: expert * capacity + place, or -1 - expert where all were taken. load[experts]:
 * choices, those without a place included. share[rows,experts]: the softmax over all logits.
 * Backward overwrites din from dgate, and adds the gradient of `balance` experts sum_e f_e p_e,
 * with f_e the share of the choices and p_e the mean of share[:,e] (Fedus et al. 2021): it is least
 * where both are even. */
struct lt_route {
    float *gate, *share, *load;
    int32_t *slot;
    const void *in;
    const float *dgate;
    void *din;
    int64_t rows, experts, k, capacity;
    float balance;
};

/* out[slots,c]: each row of in[rows,c] in its k slots, zeros in slots without a row. Backward: din
 * = the sums over the slots of a row, added to what is there if `add`. */
struct lt_dispatch {
    void *out;
    const void *in;
    const int32_t *slot;
    const void *dout;
    void *din;
    int64_t rows, k, slots, c;
    int add;
};

/* No operation of a backend, but a message between ranks that divide the experts (model.h,
 * lt_tensor_group.spread): rows of slots in two forms. A rank's own rows for all experts,
 * slots[experts][capacity][c], of which load[e], at most `capacity`, are filled; and all ranks'
 * rows for its own experts, held[experts / ranks][ranks][capacity][c], of which
 * taken[experts / ranks][ranks] are filled and the others 0. to_owners: forward makes `held` of
 * `slots` and writes `taken`; else slots of held. Backward brings gradients the other way. */
struct lt_spread {
    void *out;
    const void *in;
    const void *dout;
    void *din;
    const float *load;
    float *taken;
    int64_t experts, capacity, c;
    int to_owners;
};

/* No operation of a backend either, but a message between ranks that divide layers (model.h,
 * lt_tensor_group): all[count] of the elements of all ranks, and own[], this rank's share of them
 * where they divide the rows of the residual stream; dall and down: their gradients. Or floats:
 * own[count] of each rank, and all of them. */
struct lt_message {
    void *all, *own;
    void *dall, *down;
    int64_t count;
};

/* A linear layer without bias for each expert: rows [e capacity, (e + 1) capacity) of out[slots,n]
 * = those of in[slots,k] * weight[e,n,k]^T. Backward as lt_matmul's. routed: the rows that a step's
 * model FLOPs count, one for each choice. */
struct lt_experts {
    void *out;
    const void *in, *weight;
    const void *dout;
    void *din;
    float *dweight;
    int64_t experts, capacity, n, k, routed;
    int accumulate;
};

/* out[rows,c] = sum over the k choices of gate[rows,k] * in[slot], without those that have none.
 * Backward overwrites din[slots,c] and dgate[rows,k]. */
struct lt_combine {
    void *out;
    const void *in;
    const int32_t *slot;
    const float *gate;
    const void *dout;
    void *din;
    float *dgate;
    int64_t rows, k, slots, c;
};

/* The embedding of a rank that has words [first, first + v) of the vocabulary: other tokens look up
 * zeros. Added up over the ranks, of which all but one have position NULL, `out` is that of the
 * whole. Backward is told dout of the whole, and adds into dword, and into dposition on every rank
 * (NULL: there are no positions). jump: as in lt_embedding. */
struct lt_embedding_part {
    void *out;
    const void *word, *position;
    const int32_t *tokens;
    const void *dout;
    float *dword, *dposition;
    int64_t b, t, c, v, first, jump;
};

/* The classifier of such ranks, in two halves. PART: stats[rows,3] = of each row of this rank's
 * logits[rows,v] the largest, the sum of exp(logit - largest), and the target's logit, or 0 where
 * another rank has it. JOIN: from stats[ranks,rows,3] of all ranks, losses and gradient as
 * lt_classifier has them. */
struct lt_classifier_part {
    void *logits;
    float *losses, *stats;
    const int32_t *targets;
    int64_t rows, v, first;
    int ranks;
    float scale;
    int backward;
};

/* *sum = sum of squares of x[count]; summed in fixed blocks, so the value does not depend on the
 * number of threads. partial: lt_norm_partials(count) doubles. Or, where `exact` is given, they are
 * added to it without rounding, and the others are not looked at. */
struct lt_norm {
    const float *x;
    double *sum, *partial;
    int64_t count;
    struct lt_exact *exact;
};

/* x = x scale, then bounded to -bound .. bound, in place. */
struct lt_clip {
    float *x;
    int64_t count;
    double scale, bound;
};

/* x[rows,columns]: each row less its mean, in place (Yong et al. 2020). */
struct lt_centre {
    float *x;
    int64_t rows, columns;
};

/* x[count] becomes values of bf16, and shadow (NULL: none) the same as bf16: the nearest, or by
 * chance one of the two around it, so that x is the mean. The chance of an element is a function of
 * (key, its number). */
struct lt_rounding {
    float *x;
    uint16_t *shadow;
    int64_t count;
    uint64_t key;
    int stochastic;
};

/* Two arrays of the parameters' layout. lookahead: other += share (param - other), param = other
 * (Zhang et al. 2019). exchange: they change places. shadow: the bf16 copy of param, or NULL. */
struct lt_average {
    float *param, *other;
    uint16_t *shadow;
    int64_t count;
    double share;
};

struct lt_zero {
    float *x;
    int64_t count;
};

/* The Kronecker factors of a linear layer (curvature/kfac.h): inputs[k+1,k+1] = the sum over the
 * rows of the outer product of (in[k], 1) with itself, outputs[n,n] = that of dout[n]; added to
 * what is there if `add`. */
struct lt_kfac_factors {
    const void *in, *dout;
    float *inputs, *outputs;
    int64_t rows, n, k;
    int add;
};

/* mean = keep mean + share sum. */
struct lt_kfac_average {
    float *mean;
    const float *sum;
    int64_t count;
    double keep, share;
};

/* Inverses of the damped factors of a layer: of inputs + pi root I and outputs + root / pi I, with
 * root = sqrt(damping) and pi^2 = (trace of inputs / (k + 1)) / (trace of outputs / n). The damping
 * of a factor that is not positive definite in floats is raised tenfold until it is; a factor that
 * is not finite has an inverse of NaN. scratch: lt_kfac_scratch floats. */
struct lt_kfac_inverse {
    const float *inputs, *outputs;
    float *inputs_inverse, *outputs_inverse, *scratch;
    int64_t n, k;
    double damping;
};

/* weight[n,k] and bias[n] = outputs_inverse [scale dweight, scale dbias] inputs_inverse; *product
 * += the sum over the elements of that times the scaled gradient. scratch: lt_kfac_scratch
 * floats. */
struct lt_kfac_direction {
    float *weight, *bias;
    const float *dweight, *dbias, *inputs_inverse, *outputs_inverse;
    float *scratch;
    double *product;
    int64_t n, k;
    double scale;
};

/* The arguments of any operation. Each member has the name of a function suffix, so that the table
 * can be generated. */
union lt_args {
    struct lt_embedding embedding_forward, embedding_backward;
    struct lt_layernorm layernorm_forward, layernorm_backward;
    struct lt_matmul matmul_forward, matmul_backward;
    struct lt_attention attention_forward, attention_backward;
    struct lt_gelu gelu_forward, gelu_backward;
    struct lt_rmsnorm rmsnorm_forward, rmsnorm_backward;
    struct lt_rope rope_forward, rope_backward;
    struct lt_swiglu swiglu_forward, swiglu_backward;
    struct lt_residual residual_forward;
    struct lt_classifier classifier;
    struct lt_image image_forward;
    struct lt_conv conv_forward, conv_backward;
    struct lt_batchnorm batchnorm_forward, batchnorm_backward;
    struct lt_relu relu_forward, relu_backward;
    struct lt_maxpool maxpool_forward, maxpool_backward;
    struct lt_avgpool avgpool_forward, avgpool_backward;
    struct lt_route route_forward, route_backward;
    struct lt_dispatch dispatch_forward, dispatch_backward;
    struct lt_experts experts_forward, experts_backward;
    struct lt_spread spread;
    struct lt_message message;
    struct lt_combine combine_forward, combine_backward;
    struct lt_embedding_part embedding_part_forward, embedding_part_backward;
    struct lt_classifier_part classifier_part, classifier_join;
    struct lt_norm norm;
    struct lt_clip clip;
    struct lt_centre centre;
    struct lt_rounding rounding;
    struct lt_zero zero;
    struct lt_average lookahead, exchange;
    struct lt_kfac_factors kfac_factors;
    struct lt_kfac_average kfac_average;
    struct lt_kfac_inverse kfac_inverse;
    struct lt_kfac_direction kfac_direction;
#define LT_UPDATE_MEMBER(X, id, function, ...) struct lt_update function;
    LT_UPDATE_MAP(LT_UPDATE_MEMBER, )
    LT_UPDATE_TENSOR_MAP(LT_UPDATE_MEMBER, )
#undef LT_UPDATE_MEMBER
};

/* What a call of lt_op needs besides its arguments. */
struct lt_context {
    enum lt_backend backend;
    struct lt_device *device; /* computes in the backend's place (device.h); NULL: the host */
    enum lt_dtype dtype;      /* of activations and GEMMs */
    int evaluation;           /* work is marked as pass EVALUATION */
    /* work is marked as pass RECOMPUTE and counts no model FLOPs, because it has been made before
     */
    int recompute;
    int layer;              /* of what runs now, from 1; 0: it belongs to none */
    double loss_scale;      /* factor on the gradient of the loss; 0: 1 */
    struct lt_trace *trace; /* NULL: no ranges */
    /* scan.h: what operations write is looked at, or spoiled; NULL: neither */
    struct lt_scan *scan;
    const struct lt_fault *fault;
    /* Backward reports, on the thread of the steps, that the gradients [first, first + count) of
     * the flat array are final; a model announces each element of its parameters once. NULL: not
     * wanted. */
    void (*ready)(void *arg, size_t first, size_t count);
    void *ready_arg;
    /* Before backward of a linear layer: what an optimizer sees of it. NULL: not wanted. */
    void (*linear)(void *arg, const struct lt_context *context, const struct lt_matmul *matmul);
    void *linear_arg;
    /* Forward and backward report that they will read the parameters of that unit, and those of the
     * unit before no more, until they say so again (model.h, lt_model_use). NULL: not wanted. */
    void (*use)(void *arg, int unit);
    void *use_arg;
    /* Seconds that a forward, a backward and a weights pass sleep (speak/simulated.h); NULL: they
     * only compute. `late`: how much longer the first forward pass of this step does. */
    const double *simulated;
    double late;
    /* The ranks among which layers are divided (model.h), those among which experts are, and those
     * among which sequences are; NULL: this one has them whole. */
    const struct lt_tensor_group *tensor, *experts, *sequences;
    uint64_t *attention_flops; /* those of attention are added here; NULL, or a device: nowhere */
};

/* Scale of the gradient of a mean over `count` rows. */
static inline float lt_loss_share(const struct lt_context *context, int64_t count)
{
    float scale = context->loss_scale > 0 ? (float)context->loss_scale : 1.0f;
    return scale / (float)count;
}

/* Runs one operation. Shapes are the caller's promise; nothing can fail. */
void lt_op(const struct lt_context *context, enum lt_op_id op, const union lt_args *args);

/* Names of all operations, indexed by enum lt_op_id; static. */
const char *const *lt_op_names(void);

/* Operation called `name` ("gelu.forward"), or -1. */
int lt_op_find(const char *name);

/* The work of a call without making it (ops_cost.c has the formulas). */
void lt_op_work(enum lt_op_id op, const struct lt_context *context, const union lt_args *args,
                struct tacho_work *work);

/* Backend called `name`, or -1. */
int lt_backend_find(const char *name);
const char *lt_backend_name(enum lt_backend backend);

/* Query-key pairs per head that a backend multiplies out for a causal mask of t: t (t + 1) / 2, or
 * more where it works in blocks. */
uint64_t lt_attention_pairs(enum lt_backend backend, int64_t t);
size_t lt_attention_scratch(enum lt_dtype dtype, int64_t t, int64_t head_channels);
/* Fills turn[t,d] of struct lt_rope for heads of d channels. */
void lt_rope_turns(float *turn, int64_t t, int64_t d, double base);
/* Rows (or columns) of the result of a k x k window over `size` pixels. */
static inline int64_t lt_conv_out(int64_t size, int64_t k, int64_t stride, int64_t pad)
{
    return (size + 2 * pad - k) / stride + 1;
}

/* Floats of scratch; 0 where the input is read as it is (1 x 1, stride 1). */
size_t lt_conv_scratch(enum lt_dtype dtype, const struct lt_conv *conv);
size_t lt_batchnorm_scratch(int64_t c);
size_t lt_norm_partials(int64_t count);
/* Floats of scratch that an update needs for a tensor of repeat matrices of rows x columns. */
size_t lt_update_scratch(enum lt_op_id op, int64_t rows, int64_t columns);
/* Floats of array `state` that an update keeps for such a tensor; of the arrays that hold bytes a
 * quarter of these. */
size_t lt_update_state(enum lt_op_id op, int state, const struct lt_weight *tensor);
/* Floats of scratch of kfac.inverse and kfac.direction for a layer of k inputs and n outputs. */
size_t lt_kfac_scratch(int64_t n, int64_t k);
/* The 256 codes of adamw8, ascending; static. */
const float *lt_adamw8_codes(int is_signed);

/* The rounded copy of parameters, without an update. NULL: nothing. bf16 is also what the
 * optimizers write in their pass. */
void lt_shadow_refresh(uint16_t *shadow, enum lt_dtype dtype, const float *param, int64_t count);

/* Threads that the cpu backend uses: the cores this process may run on, or $OMP_NUM_THREADS. */
int lt_threads(void);

/* Uses that many from now on. Call before a model is made: it has scratch for as many threads as
 * there are then. */
void lt_threads_limit(int threads);

#endif
