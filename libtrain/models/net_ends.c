/* SPDX-License-Identifier: Apache-2.0
 *
 * Both ends of a list of operations, and where ranks that divide it meet: the embedding or what the
 * stage before has made, the classifier or what the next stage gets, and the messages before and
 * after the matrices that ranks divide.
 */
#include "libtrain/models/net_private.h"

#include "libtrain/base/share.h"

/* ---- a stage of a pipeline ------------------------------------------------------------------- */

void lt_net_stage(struct lt_net *net, int64_t first, int in_flight)
{
    net->first = first;
    net->in_flight = in_flight;
    net->staged = 1;
}

/* Nothing overwrites what is on its way to or from another stage. */
static int travels(struct lt_net *net, int id)
{
    net->value[id].fixed = 1;
    net->value[id].block = NET_NONE;
    return id;
}

/* The first value of the residual stream. */
static int begins(struct lt_net *net, int id)
{
    net->stream = (size_t)(net->value[id].rows * net->value[id].width);
    return id;
}

int lt_net_receive(struct lt_net *net, int64_t width)
{
    struct lt_residual none = {0};
    net->input = travels(net, lt_net_elements(net, lt_net_own_rows(net), width));
    const struct net_use uses[] = {
        VALUE(residual_forward.out, VALUE, net->input, NET_WRITE),
        VALUE(residual_forward.a, GRADIENT, net->input, NET_BACK_READ),
    };
    NODE(net, NET_NONE, NET_NONE, residual_forward, none, uses);
    return begins(net, net->input);
}

void lt_net_hand_on(struct lt_net *net, int in)
{
    struct lt_residual none = {0};
    net->output = travels(net, in);
    const struct net_use uses[] = {
        VALUE(residual_forward.a, VALUE, in, NET_READ),
        VALUE(residual_forward.out, GRADIENT, in, NET_BACK_WRITE),
    };
    NODE(net, NET_NONE, NET_NONE, residual_forward, none, uses);
}

/* ---- ranks that divide the layers ------------------------------------------------------------ */

void lt_net_divide(struct lt_net *net, struct lt_net_ranks ranks)
{
    net->ranks = ranks;
    if (ranks.ranks <= 1)
        net->ranks = (struct lt_net_ranks){.ranks = 1};
}

/* Sums in place, as all ranks have all rows: of a value in forward, or of its gradient in backward,
 * which is what the later operations have left there. */
static int sum(struct lt_net *net, int in, int backward)
{
    struct lt_message args = {.count = net->value[in].rows * net->value[in].width};
    const struct net_use value[] = {VALUE(message.all, VALUE, in, NET_READ | NET_WRITE)},
                         gradient[] = {VALUE(message.dall, GRADIENT, in, NET_BACK_READ)};
    if (backward)
        NODE(net, NET_NONE, NET_SUM, message, args, gradient);
    else
        NODE(net, NET_SUM, NET_NONE, message, args, value);
    return in;
}

/* The rows of all ranks from those of each; backward is what scatter is forward. */
static int join(struct lt_net *net, int in)
{
    int64_t rows = net->model.b * net->model.t, width = net->value[in].width;
    struct lt_message args = {.count = rows * width};
    int out = lt_net_elements(net, rows, width);
    const struct net_use uses[] = {
        VALUE(message.own, VALUE, in, NET_READ),
        VALUE(message.all, VALUE, out, NET_WRITE),
        VALUE(message.dall, GRADIENT, out, NET_BACK_READ),
        VALUE(message.down, GRADIENT, in, NET_BACK_WRITE),
    };
    NODE(net, NET_JOIN, NET_SCATTER, message, args, uses);
    return out;
}

/* Each rank's rows of the sum over the ranks, which destroys what is added up. */
static int scatter(struct lt_net *net, int in)
{
    int64_t width = net->value[in].width;
    struct lt_message args = {.count = net->value[in].rows * width};
    int out = lt_net_elements(net, lt_net_own_rows(net), width);
    const struct net_use uses[] = {
        VALUE(message.all, VALUE, in, NET_READ | NET_WRITE),
        VALUE(message.own, VALUE, out, NET_WRITE),
        VALUE(message.down, GRADIENT, out, NET_BACK_READ),
        VALUE(message.dall, GRADIENT, in, NET_BACK_WRITE),
    };
    NODE(net, NET_SCATTER, NET_JOIN, message, args, uses);
    return out;
}

int lt_net_enter(struct lt_net *net, int in)
{
    if (net->ranks.ranks == 1)
        return in;
    return net->ranks.sequence ? join(net, in) : sum(net, in, 1);
}

int lt_net_leave(struct lt_net *net, int in)
{
    if (net->ranks.ranks == 1)
        return in;
    return net->ranks.sequence ? scatter(net, in) : sum(net, in, 0);
}

/* The first word of this rank. */
static int64_t first_word(const struct lt_net *net)
{
    return (int64_t)lt_share((size_t)net->model.vocab, net->ranks.ranks, net->ranks.rank);
}

/* ---- embedding and classifier ---------------------------------------------------------------- */

static void look_up(struct lt_net *net, int out, int word)
{
    const struct lt_net_tensor *table = &net->tensor[word].shape;
    int64_t c = table->columns, v = table->rows;
    struct lt_embedding args = {.b = net->model.b, .t = net->model.t, .c = c, .v = v};
    const struct net_use uses[] = {
        VALUE(embedding_forward.out, VALUE, out, NET_WRITE),
        VALUE(embedding_forward.dout, GRADIENT, out, NET_BACK_READ),
        TENSOR(embedding_forward.word, WEIGHT, word, 0, v * c),
        TENSOR(embedding_forward.dword, SLOPE, word, 0, v * c),
        VALUE(embedding_forward.tokens, TOKENS, 0, NET_READ),
    };
    NODE(net, LT_OP_EMBEDDING_FORWARD, LT_OP_EMBEDDING_BACKWARD, embedding_forward, args, uses);
}

static void look_up_part(struct lt_net *net, int out, int word)
{
    const struct lt_net_tensor *table = &net->tensor[word].shape;
    int64_t c = table->columns, v = table->rows;
    struct lt_embedding_part args = {
        .b = net->model.b, .t = net->model.t, .c = c, .v = v, .first = first_word(net)};
    const struct net_use uses[] = {
        VALUE(embedding_part_forward.out, VALUE, out, NET_WRITE),
        VALUE(embedding_part_forward.dout, GRADIENT, out, NET_BACK_READ),
        TENSOR(embedding_part_forward.word, WEIGHT, word, 0, v * c),
        TENSOR(embedding_part_forward.dword, SLOPE, word, 0, v * c),
        VALUE(embedding_part_forward.tokens, TOKENS, 0, NET_READ),
    };
    NODE(net, LT_OP_EMBEDDING_PART_FORWARD, LT_OP_EMBEDDING_PART_BACKWARD, embedding_part_forward,
         args, uses);
}

int lt_net_embedding(struct lt_net *net, int word)
{
    int out = lt_net_elements(net, net->model.b * net->model.t, net->tensor[word].shape.columns);
    net->tensor[word].adds = 1;
    if (net->ranks.ranks == 1)
        look_up(net, out, word);
    else
        look_up_part(net, out, word);
    return begins(net, lt_net_leave(net, out));
}

static void classify(struct lt_net *net, int logits, int losses)
{
    struct lt_classifier args = {.rows = net->value[logits].rows, .v = net->value[logits].width};
    const struct net_use uses[] = {
        VALUE(classifier.logits, VALUE, logits, NET_READ | NET_WRITE),
        VALUE(classifier.losses, VALUE, losses, NET_WRITE),
        VALUE(classifier.targets, TARGETS, 0, NET_READ),
    };
    NODE(net, LT_OP_CLASSIFIER, NET_NONE, classifier, args, uses);
}

/* From statistics of this rank's words to those of all ranks, and from these the losses. */
static void classify_part(struct lt_net *net, int logits, int losses)
{
    int64_t rows = net->value[logits].rows, ranks = net->ranks.ranks;
    struct lt_classifier_part args = {
        .rows = rows, .v = net->value[logits].width, .first = first_word(net), .ranks = (int)ranks};
    struct lt_message gather = {.count = 3 * rows};
    int mine = lt_net_statistics(net, rows, 3), all = lt_net_statistics(net, ranks * rows, 3);
    const struct net_use part[] = {
        VALUE(classifier_part.logits, VALUE, logits, NET_READ),
        VALUE(classifier_part.stats, VALUE, mine, NET_WRITE),
        VALUE(classifier_part.targets, TARGETS, 0, NET_READ),
    };
    const struct net_use message[] = {
        VALUE(message.own, VALUE, mine, NET_READ),
        VALUE(message.all, VALUE, all, NET_WRITE),
    };
    const struct net_use whole[] = {
        VALUE(classifier_join.logits, VALUE, logits, NET_READ | NET_WRITE),
        VALUE(classifier_join.losses, VALUE, losses, NET_WRITE),
        VALUE(classifier_join.stats, VALUE, all, NET_READ),
        VALUE(classifier_join.targets, TARGETS, 0, NET_READ),
    };
    NODE(net, LT_OP_CLASSIFIER_PART, NET_NONE, classifier_part, args, part);
    NODE(net, NET_GATHER, NET_NONE, message, gather, message);
    NODE(net, LT_OP_CLASSIFIER_JOIN, NET_NONE, classifier_join, args, whole);
}

void lt_net_classifier(struct lt_net *net, int logits)
{
    int losses = lt_net_statistics(net, net->value[logits].rows, 1);
    net->losses = losses;
    net->value[logits].in_place = 1;
    if (net->ranks.ranks == 1)
        classify(net, logits, losses);
    else
        classify_part(net, logits, losses);
}
