/* SPDX-License-Identifier: Apache-2.0
 *
 * FLOPs and bytes of operators: the numbers of torch.utils.flop_counter, then by hand what it does
 * not count or counts otherwise.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzers/work/op_cost.h"
#include "store/store.h"

/* Payloads stand here with ' for ". */
static struct an_op_cost cost_in(const char *name, const char *payload, const char *outer,
                                 const struct an_op_tensor *output)
{
    struct an_arena *a = an_arena_new();
    struct an_op_args args, around;
    char text[2][2048];
    const char *from[] = {payload, outer ? outer : ""};
    for (int k = 0; k < 2; k++) {
        snprintf(text[k], sizeof text[k], "%s", from[k]);
        for (char *p = text[k]; *p; p++)
            *p = *p == '\'' ? '"' : *p;
    }
    assert_int_equal(an_op_args_parse(a, text[0], &args), 0);
    assert_int_equal(an_op_args_parse(a, text[1], &around), 0);
    struct an_op_context context = {output, outer ? &around : NULL};
    struct an_op_cost c = an_op_cost(an_op_find(name), &args, &context);
    an_arena_free(a);
    return c;
}

static struct an_op_cost cost(const char *name, const char *payload)
{
    return cost_in(name, payload, NULL, NULL);
}

/* Printed by torch.utils.flop_counter of PyTorch 2.15.0 (FlopCounterMode on meta tensors, or its
 * formula called with the same arguments). Attention without a mask: it takes no notice of masks.
 */
static const struct {
    const char *name, *payload;
    int64_t flops;
} counted[] = {
    {"aten::mm",
     "{'shapes':[[37, 64], [64, 129]], 'types':['float', 'float'], 'concrete':['', '']}", 610944},
    {"aten::mm",
     "{'shapes':[[4096, 768], [768, 3072]], 'types':['c10::BFloat16', 'c10::BFloat16'], "
     "'concrete':['', '']}",
     19327352832},
    {"aten::addmm",
     "{'shapes':[[129], [37, 64], [64, 129], [], []], 'types':['float', 'float', 'float', "
     "'Scalar', 'Scalar'], 'concrete':['', "
     "'', '', '1', '1']}",
     610944},
    {"aten::bmm",
     "{'shapes':[[12, 64, 48], [12, 48, 80]], 'types':['c10::Half', 'c10::Half'], 'concrete':['', "
     "'']}",
     5898240},
    {"aten::baddbmm",
     "{'shapes':[[12, 64, 80], [12, 64, 48], [12, 48, 80], [], []], 'types':['float', 'float', "
     "'float', 'Scalar', 'Scalar'], "
     "'concrete':['', '', '', '1', '1']}",
     5898240},
    {"aten::_scaled_mm",
     "{'shapes':[[128, 256], [256, 64], [], [], [], [], [], []], 'types':['c10::Float8_e4m3fn', "
     "'c10::Float8_e4m3fn', 'float', "
     "'float', '', '', 'Scalar', 'Scalar'], 'concrete':['', '', '', '', '', '', 'torch.bfloat16', "
     "'False']}",
     4194304},
    {"aten::convolution",
     "{'shapes':[[2, 3, 17, 19], [8, 3, 3, 3], [8], [], [], [], [], [], []], 'types':['float', "
     "'float', 'float', 'ScalarList', "
     "'ScalarList', 'ScalarList', 'Scalar', 'ScalarList', 'Scalar'], 'concrete':['', '', '', '[2, "
     "2]', '[1, 1]', '[1, 1]', "
     "'False', '[0, 0]', '1']}",
     77760},
    {"aten::convolution",
     "{'shapes':[[4, 16, 28, 28], [32, 4, 5, 3], [], [], [], [], [], [], []], "
     "'types':['c10::Half', 'c10::Half', '', "
     "'ScalarList', 'ScalarList', 'ScalarList', 'Scalar', 'ScalarList', 'Scalar'], 'concrete':['', "
     "'', '', '[1, 2]', '[2, 1]', "
     "'[2, 1]', 'False', '[0, 0]', '4']}",
     5160960},
    {"aten::convolution",
     "{'shapes':[[2, 6, 50], [9, 6, 7], [], [], [], [], [], [], []], 'types':['float', 'float', "
     "'', 'ScalarList', "
     "'ScalarList', 'ScalarList', 'Scalar', 'ScalarList', 'Scalar'], 'concrete':['', '', '', "
     "'[3]', '[2]', '[1]', 'False', "
     "'[0]', '1']}",
     24192},
    {"aten::convolution",
     "{'shapes':[[2, 6, 7, 8], [6, 5, 4, 4], [], [], [], [], [], [], []], 'types':['float', "
     "'float', '', 'ScalarList', "
     "'ScalarList', 'ScalarList', 'Scalar', 'ScalarList', 'Scalar'], 'concrete':['', '', '', '[2, "
     "2]', '[1, 1]', '[1, 1]', "
     "'True', '[0, 0]', '1']}",
     107520},
    {"aten::convolution",
     "{'shapes':[[1, 4, 5, 6, 7], [8, 4, 2, 2, 2], [], [], [], [], [], [], []], 'types':['float', "
     "'float', '', 'ScalarList', "
     "'ScalarList', 'ScalarList', 'Scalar', 'ScalarList', 'Scalar'], 'concrete':['', '', '', '[1, "
     "1, 1]', '[0, 0, 0]', '[1, 1, "
     "1]', 'False', '[0, 0, 0]', '1']}",
     61440},
    {"aten::cudnn_convolution",
     "{'shapes':[[10, 256, 14, 14], [512, 256, 3, 3], [], [], [], [], [], [], []], "
     "'types':['c10::BFloat16', 'c10::BFloat16', "
     "'ScalarList', 'ScalarList', 'ScalarList', 'Scalar', 'Scalar', 'Scalar', 'Scalar'], "
     "'concrete':['', '', '[1, 1]', '[2, "
     "2]', '[1, 1]', '1', 'False', 'False', 'True']}",
     1156055040},
    {"aten::convolution_backward",
     "{'shapes':[[2, 8, 9, 10], [2, 3, 17, 19], [8, 3, 3, 3], [], [], [], [], [], [], [], []], "
     "'types':['float', 'float', "
     "'float', 'ScalarList', 'ScalarList', 'ScalarList', 'ScalarList', 'Scalar', 'ScalarList', "
     "'Scalar', 'ScalarList'], "
     "'concrete':['', '', '', '[8]', '[2, 2]', '[1, 1]', '[1, 1]', 'False', '[0, 0]', '1', '[True, "
     "True, True]']}",
     155520},
    {"aten::convolution_backward",
     "{'shapes':[[2, 8, 9, 10], [2, 3, 17, 19], [8, 3, 3, 3], [], [], [], [], [], [], [], []], "
     "'types':['float', 'float', "
     "'float', 'ScalarList', 'ScalarList', 'ScalarList', 'ScalarList', 'Scalar', 'ScalarList', "
     "'Scalar', 'ScalarList'], "
     "'concrete':['', '', '', '[8]', '[2, 2]', '[1, 1]', '[1, 1]', 'False', '[0, 0]', '1', "
     "'[False, True, True]']}",
     77760},
    {"aten::convolution_backward",
     "{'shapes':[[2, 8, 9, 10], [2, 3, 17, 19], [8, 3, 3, 3], [], [], [], [], [], [], [], []], "
     "'types':['float', 'float', "
     "'float', '', 'ScalarList', 'ScalarList', 'ScalarList', 'Scalar', 'ScalarList', 'Scalar', "
     "'ScalarList'], 'concrete':['', "
     "'', '', '', '[2, 2]', '[1, 1]', '[1, 1]', 'False', '[0, 0]', '1', '[True, False, False]']}",
     77760},
    {"aten::convolution_backward",
     "{'shapes':[[2, 5, 14, 16], [2, 6, 7, 8], [6, 5, 4, 4], [], [], [], [], [], [], [], []], "
     "'types':['float', 'float', "
     "'float', '', 'ScalarList', 'ScalarList', 'ScalarList', 'Scalar', 'ScalarList', 'Scalar', "
     "'ScalarList'], 'concrete':['', "
     "'', '', '', '[2, 2]', '[1, 1]', '[1, 1]', 'True', '[0, 0]', '1', '[True, True, False]']}",
     215040},
    {"aten::_scaled_dot_product_flash_attention",
     "{'shapes':[[2, 12, 256, 64], [2, 12, 256, 64], [2, 12, 256, 64], [], [], []], "
     "'types':['c10::BFloat16', 'c10::BFloat16', "
     "'c10::BFloat16', 'Scalar', 'Scalar', 'Scalar'], 'concrete':['', '', '', '0.0', 'False', "
     "'False']}",
     402653184},
    {"aten::_scaled_dot_product_efficient_attention",
     "{'shapes':[[2, 12, 128, 64], [2, 12, 200, 64], [2, 12, 200, 32], [], [], [], []], "
     "'types':['c10::BFloat16', "
     "'c10::BFloat16', 'c10::BFloat16', '', 'Scalar', 'Scalar', 'Scalar'], 'concrete':['', '', '', "
     "'', 'True', '0.0', "
     "'False']}",
     117964800},
    {"aten::_scaled_dot_product_cudnn_attention",
     "{'shapes':[[2, 8, 128, 64], [2, 8, 128, 64], [2, 8, 128, 64], [], [], [], [], []], "
     "'types':['c10::BFloat16', "
     "'c10::BFloat16', 'c10::BFloat16', '', 'Scalar', 'Scalar', 'Scalar', 'Scalar'], "
     "'concrete':['', '', '', '', 'True', "
     "'0.0', 'False', 'False']}",
     67108864},
    {"aten::_flash_attention_forward",
     "{'shapes':[[2, 256, 12, 64], [2, 256, 12, 64], [2, 256, 12, 64], [], [], [], [], [], [], "
     "[]], 'types':['c10::BFloat16', "
     "'c10::BFloat16', 'c10::BFloat16', '', '', 'Scalar', 'Scalar', 'Scalar', 'Scalar', 'Scalar'], "
     "'concrete':['', '', '', '', "
     "'', '256', '256', '0.0', 'False', 'False']}",
     402653184},
    {"aten::_scaled_dot_product_flash_attention_backward",
     "{'shapes':[[2, 12, 256, 64], [2, 12, 256, 64], [2, 12, 256, 64], [2, 12, 256, 64], [2, 12, "
     "256, 64], [2, 12, 256], [], "
     "[], [], [], [], [], [2], []], 'types':['c10::BFloat16', 'c10::BFloat16', 'c10::BFloat16', "
     "'c10::BFloat16', "
     "'c10::BFloat16', 'float', '', '', 'Scalar', 'Scalar', 'Scalar', 'Scalar', 'long int', 'long "
     "int'], 'concrete':['', '', "
     "'', '', '', '', '', '', '256', '256', '0.0', 'False', '', '']}",
     1006632960},
    {"aten::_scaled_dot_product_efficient_attention_backward",
     "{'shapes':[[2, 12, 256, 64], [2, 12, 256, 64], [2, 12, 256, 64], [2, 12, 256, 64], [], [2, "
     "12, 256, 64], [2, 12, 256], "
     "[], [], [], [], []], 'types':['c10::BFloat16', 'c10::BFloat16', 'c10::BFloat16', "
     "'c10::BFloat16', '', 'c10::BFloat16', "
     "'float', 'long int', 'long int', 'Scalar', 'ScalarList', 'Scalar'], 'concrete':['', '', '', "
     "'', '', '', '', '', '', "
     "'0.0', '[True, True, True, False]', 'False']}",
     1006632960},
    {"aten::_scaled_dot_product_cudnn_attention_backward",
     "{'shapes':[[2, 12, 256, 64], [2, 12, 256, 64], [2, 12, 256, 64], [2, 12, 256, 64], [2, 12, "
     "256, 64], [2, 12, 256], [], "
     "[], [], [], [], [], [], [], []], 'types':['c10::BFloat16', 'c10::BFloat16', 'c10::BFloat16', "
     "'c10::BFloat16', "
     "'c10::BFloat16', 'float', 'long int', 'long int', '', '', '', 'Scalar', 'Scalar', 'Scalar', "
     "'Scalar'], 'concrete':['', "
     "'', '', '', '', '', '', '', '', '', '', '256', '256', '0.0', 'False']}",
     1006632960},
};

static void test_counted_by_torch(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        struct an_op_cost c = cost(counted[i].name, counted[i].payload);
        if (c.flops != counted[i].flops)
            fail_msg("%s %s: %lld, not %lld (%s)", counted[i].name, counted[i].payload,
                     (long long)c.flops, (long long)counted[i].flops, c.reason ? c.reason : "");
        assert_null(c.reason);
        assert_true(c.kind != AN_OP_OTHER);
    }
}

/* The three numbers of attention, and pairs counted one by one. */
static void test_masks(void **state)
{
    (void)state;
    for (int queries = 1; queries < 9; queries++)
        for (int keys = 1; keys < 9; keys++)
            for (int left = -1; left < 4; left++)
                for (int causal = 0; causal < 2; causal++) {
                    char payload[512];
                    long pairs = 0;
                    for (int i = 0; i < queries; i++)
                        for (int j = 0; j < keys; j++) {
                            int ahead = j - (i + keys - queries);
                            pairs += (!causal || ahead <= 0) && (left < 0 || -ahead <= left);
                        }
                    snprintf(
                        payload, sizeof payload,
                        "{'shapes':[[3,%d,4,16],[3,%d,2,16],[3,%d,2,16],[],[],[],[],[]],'types':['"
                        "c10::Half',"
                        "'c10::Half','c10::Half','Scalar','Scalar','Scalar','Scalar','Scalar'],"
                        "'concrete':['','','','0.','1.','%s','%d','-1']}",
                        queries, keys, keys, causal ? "True" : "False", left);
                    struct an_op_cost c = cost("flash_attn::_flash_attn_forward", payload);
                    assert_int_equal(c.model_flops, 2 * 3 * 4 * pairs * 32);
                    assert_int_equal(c.flops, c.model_flops);
                    assert_int_equal(c.palm_flops, 2 * 3 * 4 * queries * keys * 32);
                }
}

/* Scores computed again: five products of which two have the size of keys three times ... 3 * 64 +
 * 2 * 32 a pair. */
static void test_attention_backward(void **state)
{
    (void)state;
    struct an_op_cost c =
        cost("aten::_scaled_dot_product_flash_attention_backward",
             "{'shapes':[[2,12,256,32],[2,12,256,64],[2,12,256,64],[2,12,256,32],[2,12,256,32],[2,"
             "12,256],"
             "[],[],[],[],[],[],[2],[]],'types':['c10::BFloat16','c10::BFloat16','c10::BFloat16',"
             "'c10::BFloat16','c10::BFloat16','float','','','Scalar','Scalar','Scalar','Scalar','"
             "long int',"
             "'long int'],'concrete':['','','','','','','','','256','256','0.0','True','','']}");
    int64_t pairs = 24ll * 256 * 257 / 2;
    assert_int_equal(c.model_flops, 2 * pairs * 2 * (64 + 32));
    assert_int_equal(c.flops, 2 * pairs * (3 * 64 + 2 * 32));
    assert_int_equal(c.palm_flops, 2 * 24ll * 256 * 256 * 2 * (64 + 32));
    assert_string_equal(c.dtype, "bf16");
    assert_int_equal(c.bytes, 2 * 24 * 256 * 2 *
                                  (64 + 64 + 32 + 32)); /* q k v o and do of o's size; dq dk dv */
}

/* Layout [batch, length, heads, size], which flop_counter takes for [batch, heads, length, size].
 */
static void test_efficient_attention(void **state)
{
    (void)state;
#define EFFICIENT(type, lengths, kind) \
    "{'shapes':[[2,256,12,64],[2,256,12,64],[2,256,12,64],[]," lengths \
    "],'types':['float','float','float',''," type \
    "],'concrete':['','','','','','','256','256','0.0','" kind "','True']}"
#define PLAIN(kind) \
    EFFICIENT("'','','Scalar','Scalar','Scalar','Scalar','Scalar'", "[],[],[],[],[],[],[]", kind)
    assert_int_equal(cost("aten::_efficient_attention_forward", PLAIN("0")).flops, 402653184);
    assert_int_equal(cost("aten::_efficient_attention_forward", PLAIN("1")).flops,
                     402653184ll / 2 * 257 / 256);
    struct an_op_cost c = cost("aten::_efficient_attention_forward",
                               EFFICIENT("'int','int','Scalar','Scalar','Scalar','Scalar','Scalar'",
                                         "[5],[5],[],[],[],[],[]", "1"));
    assert_true(c.flops == STORE_ABSENT);
    assert_non_null(strstr(c.reason, "packed"));
}

/* Two gradients of a convolution in groups cost the same; flop_counter counts the weights' as if
 * there were no groups. */
static void test_grouped_convolution(void **state)
{
    (void)state;
#define BACKWARD(mask) \
    "{'shapes':[[4,32,26,28],[4,16,28,28],[32,4,5,3],[],[],[],[],[],[],[],[]],'types':['c10::" \
    "Half','c10::Half'," \
    "'c10::Half','','ScalarList','ScalarList','ScalarList','Scalar','ScalarList','Scalar','" \
    "ScalarList']," \
    "'concrete':['','','','','[1, 1]','[1, 1]','[1, 1]','False','[0, 0]','4','" mask "']}"
    int64_t once = 2ll * 4 * 32 * 26 * 28 * 4 * 15;
    assert_int_equal(cost("aten::convolution_backward", BACKWARD("[True, False, False]")).flops,
                     once);
    assert_int_equal(cost("aten::convolution_backward", BACKWARD("[False, True, False]")).flops,
                     once);
    assert_int_equal(cost("aten::convolution_backward", BACKWARD("[True, True, True]")).flops,
                     2 * once);
}

/* PyTorch 1.8: no values of scalars, and the two gradients are operators of their own. */
static void test_old_convolutions(void **state)
{
    (void)state;
    static const char *const forward =
        "{'shapes':[[32,64,56,56],[128,64,3,3],[],[],[],[],[],[]],"
        "'types':['float','float','GenericList','GenericList','GenericList','Int','Bool','Bool']}";
    static const char *const both =
        "{'shapes':[[32,64,56,56],[32,128,28,28],[128,64,3,3],[],[],[]],"
        "'types':['float','float','float','GenericList','GenericList','GenericList']}";
    static const char *const half = "{'shapes':[[],[32,128,28,28],[32,64,56,56],[],[]],'types':['"
                                    "GenericList','float','float']}";
    static const char *const input =
        "{'shapes':[[],[32,128,28,28],[128,64,3,3],[],[]],'types':['GenericList','float','float']}";
    int64_t once = 2ll * 32 * 128 * 28 * 28 * 64 * 9;
    struct an_op_tensor gradient = {4, {32, 128, 28, 28}, "fp32", 4};
    assert_true(cost("aten::cudnn_convolution", forward).flops == STORE_ABSENT);
    assert_non_null(strstr(cost("aten::cudnn_convolution", forward).reason, "scalar"));
    assert_int_equal(cost_in("aten::cudnn_convolution", forward, NULL, &gradient).flops, once);
    assert_int_equal(cost("aten::cudnn_convolution_backward_input", input).flops, once);
    assert_true(cost("aten::cudnn_convolution_backward_input", input).bytes == STORE_ABSENT);
    assert_int_equal(cost_in("aten::cudnn_convolution_backward_input", input, both, NULL).bytes,
                     4 * (32 * 64 * 56 * 56 + 32 * 128 * 28 * 28 + 128 * 64 * 9));
    assert_true(cost("aten::cudnn_convolution_backward_weight", half).flops == STORE_ABSENT);
    assert_int_equal(cost_in("aten::cudnn_convolution_backward_weight", half, both, NULL).flops,
                     once);
}

static void test_other_work(void **state)
{
    (void)state;
    struct an_op_cost c = cost(
        "aten::add", "{'shapes':[[8,1,16],[4,1],[]],'types':['c10::BFloat16','float','Scalar']}");
    assert_int_equal(c.flops, 8 * 4 * 16);
    assert_int_equal(c.bytes, 8 * 16 * 2 + 4 * 4 + 8 * 4 * 16 * 4);
    assert_int_equal(c.model_flops, 0);
    assert_true(c.kind == AN_OP_OTHER);
    c = cost("aten::mul_",
             "{'shapes':[[27,3],[]],'types':['float','double']}"); /* a number as a tensor decides
                                                                      no type */
    assert_int_equal(c.flops, 81);
    assert_int_equal(c.bytes, 81 * 4 * 2 + 8);
    assert_string_equal(c.dtype, "fp32");
    c = cost("aten::eq", "{'shapes':[[10],[10]],'types':['long int','long int']}");
    assert_int_equal(c.bytes, 10 * 8 * 2 + 10);
    assert_int_equal(c.flops, 0); /* of integers */
    c = cost("aten::lt", "{'shapes':[[10],[]],'types':['float','Scalar']}");
    assert_int_equal(c.flops, 10);
    c = cost("aten::clamp_min",
             "{'shapes':[[10],[],[10]],'types':['float','Scalar','float']}"); /* written to the last
                                                                                 one */
    assert_int_equal(c.flops, 10);
    assert_int_equal(c.bytes, 80);
    c = cost("aten::fill_", "{'shapes':[[10,10],[]],'types':['float','Scalar']}");
    assert_int_equal(c.flops, 0);
    assert_int_equal(c.bytes, 400);
    c = cost("aten::copy_",
             "{'shapes':[[10,10],[10,10],[]],'types':['float','c10::Half','Scalar']}");
    assert_int_equal(c.flops, 0);
    assert_int_equal(c.bytes, 600);
    c = cost("aten::sum", "{'shapes':[[4,5,6],[],[],[]],'types':['float','ScalarList','Scalar',''],"
                          "'concrete':['','[0, -1]','False','']}");
    assert_int_equal(c.flops, 120);
    assert_int_equal(c.bytes, 4 * (120 + 5));
    c = cost("aten::embedding",
             "{'shapes':[[1000,64],[2,16],[],[],[]],'types':['float','long int','Scalar']}");
    assert_int_equal(c.flops, 0);
    assert_int_equal(c.bytes, 32 * (64 * 4 * 2 + 8));
    c = cost(
        "aten::native_layer_norm",
        "{'shapes':[[2,16,64],[],[64],[64],[]],'types':['float','ScalarList','float','float']}");
    assert_int_equal(c.flops, 8 * 2048);
    assert_int_equal(c.bytes, 4 * (2 * 2048 + 128));
    c = cost(
        "aten::_fused_adamw_",
        "{'shapes':[[[10],[4,4]],[[10],[4,4]],[[10],[4,4]],[[10],[4,4]],[],[[],[]]],"
        "'types':['TensorList','TensorList','TensorList','TensorList','TensorList','TensorList']}");
    assert_int_equal(c.flops, 14 * 26);
    assert_true(c.bytes == STORE_ABSENT); /* lists do not say their type */
}

/* What is not known is not 0. */
static void test_refusals(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "{}",
        "[1]",
        "{'shapes':3}",
        "{'shapes':[]}",
        "{'shapes':[[2,3]],'types':['float']}",
        "{'shapes':[[2,3],[4,5]],'types':['float','float']}",
        "{'shapes':[[2,-3],[-3,5]],'types':['float','float']}",
        "{'shapes':[[2,'3'],[3,5]],'types':['float','float']}",
        "{'shapes':[[2,3.0],[3,5]],'types':['float','float']}",
        "{'shapes':[[1,1,1,1,1,1,1,1,2],[2,3]],'types':['float','float']}",
        "{'shapes':[[4000000000,4000000000],[4000000000,4000000000]],'types':['float','float']}",
        "{'shapes':[[[2,3],[3,5]],[[2,3],[3,5]]],'types':['TensorList','TensorList']}",
        "{'shapes':[null,{}],'types':{}}"};
    for (int op = 0; an_op_products[op].name; op++)
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            struct an_op_cost c = cost(an_op_products[op].name, bad[i]);
            if (c.flops != STORE_ABSENT && !strstr(an_op_products[op].name, "::dot"))
                fail_msg("%s %s: %lld", an_op_products[op].name, bad[i], (long long)c.flops);
            assert_non_null(c.reason);
        }
    for (int op = 0; an_op_others[op].name; op++)
        for (size_t i = 0; i < 5; i++)
            assert_true(cost(an_op_others[op].name, bad[i]).flops == STORE_ABSENT);
    assert_int_equal(an_op_find("aten::svd"), -1);
    assert_true(cost("aten::svd", "{'shapes':[[2,2]],'types':['float']}").flops == STORE_ABSENT);
    assert_non_null(strstr(cost("aten::mm", "{}").reason, "record_shapes"));
    assert_true(cost("aten::mm", "{}").kind == AN_OP_MATRIX);
    /* a result of stride 0, or a filter larger than what it slides over */
    assert_true(
        cost("aten::convolution",
             "{'shapes':[[2,3,4,4],[8,3,3,3],[],[],[],[],[],[],[]],'types':['float','float'],"
             "'concrete':['','','','[0, 0]','[0]','[1]','False','[0]','1']}")
            .flops == STORE_ABSENT);
    assert_true(
        cost("aten::convolution",
             "{'shapes':[[2,3,2,2],[8,3,3,3],[],[],[],[],[],[],[]],'types':['float','float'],"
             "'concrete':['','','','[1]','[0]','[1]','False','[0]','1']}")
            .flops == STORE_ABSENT);
}

/* Every row of a table is found under its own name, once. */
static void test_tables(void **state)
{
    (void)state;
    for (int i = 0; an_op_products[i].name; i++) {
        assert_int_equal(an_op_find(an_op_products[i].name), i);
        assert_true(an_op_is_product(i));
    }
    for (int i = 0; an_op_others[i].name; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(an_op_others[i].name, an_op_others[j].name);
    assert_false(an_op_is_product(an_op_find("aten::add")));
}

static void test_stack(void **state)
{
    (void)state;
    struct an_arena *a = an_arena_new();
    struct an_op_args args;
    assert_int_equal(an_op_args_parse(a, "{\"stack\":[\"a.py(1): f\",\"b.py(2): g\"]}", &args), 0);
    assert_int_equal(args.frames, 2);
    assert_string_equal(args.frame[1], "b.py(2): g");
    assert_false(args.shapes);
    assert_int_equal(an_op_args_parse(a, "{\"stack\":\"a.py(1): f;b.py(2): g\"}", &args), 0);
    assert_int_equal(args.frames, 2);
    assert_string_equal(args.frame[0], "a.py(1): f");
    an_arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counted_by_torch),
                                       cmocka_unit_test(test_masks),
                                       cmocka_unit_test(test_attention_backward),
                                       cmocka_unit_test(test_efficient_attention),
                                       cmocka_unit_test(test_grouped_convolution),
                                       cmocka_unit_test(test_old_convolutions),
                                       cmocka_unit_test(test_other_work),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_tables),
                                       cmocka_unit_test(test_stack)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
