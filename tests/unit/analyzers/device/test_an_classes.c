/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of kernel classes: names as profilers write them, tables of users, and texts that no
 * table should survive.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "analyzers/device/classes.h"
#include "analyzers/device/family.h"

static an_classes *table(const char *user)
{
    an_classes *c = NULL;
    struct tacho_error err = {0};
    if (an_classes_new(user, &c, &err))
        fail_msg("%s", err.what);
    return c;
}

/* name, class, known, matrix unit, dtype */
#define NAMES(X) \
    X("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", COMM, true, -1, \
      "") \
    X("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", COMM, true, -1, "") \
    X("rccl_main_kernel", COMM, true, -1, "") \
    X("void dpsk::ep::internode::combine<true, 8>(int4*)", COMM, true, -1, "") \
    X("void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)", COMM, true, -1, "") \
    X("_ZN7deep_ep9internode8dispatchILb0EEEvP4int4", COMM, true, -1, "") \
    X("nvshmemi_transfer_rma_nbi", COMM, true, -1, "") \
    X("mscclKernel_Sum_float_LL_false", COMM, true, -1, "") \
    X("void mscclpp::allreduce2<float>(float*)", COMM, true, -1, "") \
    X("void ucc_ec_cuda_reduce(int)", COMM, true, -1, "") \
    X("hcom_allReduce__868_0_1", COMM, true, -1, "") \
    X("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", COMM, true, -1, \
      "") \
    X("void tensorrt_llm::kernels::twoShotAllReduceKernel<__half, 8>()", COMM, true, -1, "") \
    X("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)", \
      COMM, true, -1, "") \
    X("void (anonymous namespace)::two_shot_all_reduce_kernel<c10::BFloat16>()", COMM, true, -1, \
      "") \
    X("void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<>()", \
      FUSED, true, -1, "") \
    X("gemm_all_reduce_kernel", FUSED, true, -1, "") \
    X("triton_poi_fused_all_reduce_wait_tensor_1", OTHER, true, -1, \
      "") /* waits for one, makes none */ \
    X("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 4, cutlass::bfloat16_t>>()", \
      ATTENTION, true, 1, "bf16") \
    X("void cutlass::device_kernel<flash::FlashAttnFwdSm90<cutlass::half_t>>()", ATTENTION, true, \
      1, "fp16") \
    X("fmha_cutlassF_bf16_aligned_64x128_rf_sm80()", ATTENTION, true, 1, "bf16") \
    X("fmha_cutlassF_f32_aligned_64x64_rf_sm50()", ATTENTION, true, 0, "fp32") \
    X("void vllm::paged_attention_v1_kernel<unsigned short>()", ATTENTION, true, 0, "") \
    X("attn_fwd.kd", ATTENTION, true, -1, "") \
    X("volta_h884gemm_128x64_ldg8_tn", MATRIX, true, 1, "fp16") \
    X("volta_sgemm_128x64_nn", MATRIX, true, 0, "fp32") \
    X("volta_dgemm_64x64_nn", MATRIX, true, 0, "fp64") \
    X("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nn", MATRIX, true, 1, "bf16") \
    X("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>()", MATRIX, \
      true, 1, "tf32") \
    X("cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1", MATRIX, true, 1, "fp64") \
    X("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma", MATRIX, \
      true, 0, "fp32") \
    X("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw", MATRIX, true, 1, \
      "tf32") \
    X("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n", MATRIX, true, 1, "fp8") \
    X("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", MATRIX, true, 1, "bf16") \
    X("Cijk_Ailk_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1_SN", MATRIX, true, 1, "bf16") \
    X("Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_SE_K1", MATRIX, true, 0, "fp16") \
    X("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x64x8", MATRIX, true, 1, "bf16") \
    X("void implicit_convolve_sgemm<float, float, 1024>()", MATRIX, true, 0, "fp32") \
    X("volta_scudnn_128x128_relu_interior_nn_v1", MATRIX, true, 0, "fp32") \
    X("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>()", OTHER, true, -1, \
      "") /* no multiply-adds */ \
    X("void fbgemm_gpu::permute_2D_data_kernel<true>()", OTHER, true, -1, "") /* "gemm" */ \
    X("void split_embedding_codegen_forward_unweighted_kernel<fbgemm_gpu::X>()", OTHER, true, -1, \
      "") \
    X("void splitKreduce_kernel<float>()", OTHER, true, -1, "") \
    X("void at::native::vectorized_elementwise_kernel<4, at::native::X>()", OTHER, true, -1, "") \
    X("void oneflow::softmax<WarpAllReduce>()", OTHER, true, -1, "") \
    X("void moe::dev::finalize::finalizeKernelVecLoad<cutlass::bfloat16_t>()", OTHER, true, -1, \
      "") \
    X("__amd_rocclr_fillBufferAligned", OTHER, true, -1, "") \
    X("zyx_kernal", OTHER, false, -1, "") \
    X("", OTHER, false, -1, "")

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum an_device_class class;
        bool known;
        int unit;
        const char *dtype;
    } all[] = {
#define NAME_ROW(name, class, known, unit, dtype) {name, AN_DEVICE_##class, known, unit, dtype},
        NAMES(NAME_ROW)
#undef NAME_ROW
    };
    an_classes *c = table(NULL);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct an_name_class x = an_class_of(c, all[i].name);
        if (x.class != all[i].class || x.known != all[i].known || x.matrix_unit != all[i].unit ||
            strcmp(x.dtype ? x.dtype : "", all[i].dtype) != 0)
            fail_msg("%s: %s %d %d %s", all[i].name, an_device_class_key(x.class), x.known,
                     x.matrix_unit, x.dtype ? x.dtype : "-");
    }
    an_classes_free(c);
}

/* Literals are looked for first: the answer must be the expression's all the same. */
static void test_expressions(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool matches;
    } all[] = {{"qqa+b*c", "xqqaac", true},
               {"qqab?cd", "qqacd", true},
               {"qqab?cd", "qqabbcd", false},
               {"^qqabc", "xqqabc", false},
               {"qqabc$", "qqabcx", false},
               {"qqa(bc|de)f", "qqadef", true},
               {"qqa(bc|de)f", "qqaf", false},
               {"qq[|(]x", "qq|x", true},
               {"qq\\|x", "qq|x", true},
               {"qq\\(x\\)", "qq(x)", true},
               {"qq{2}z", "qqqz", true},
               {"qqabc{0,2}d", "qqabd", true},
               {"qq[]x]y", "qq]y", true},
               {"qq[^]x]y", "qq]y", false},
               {"qq[[:digit:]]z", "qq7z", true},
               {"\\<qqz", "a qqz", true},
               {"\\<qqz", "aqqz", false},
               {"qq\\wz", "qqbz", true},
               {"nope|qqx|never", "qqx", true},
               {"qqx.*yzw", "qqx__yzw", true},
               {"q", "q", true}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char user[80];
        snprintf(user, sizeof user, "comm\t%s\n", all[i].pattern);
        an_classes *c = table(user);
        bool got = an_class_of(c, all[i].name).class == AN_DEVICE_COMM;
        if (got != all[i].matches)
            fail_msg("/%s/ and \"%s\": %d", all[i].pattern, all[i].name, got);
        an_classes_free(c);
    }
}

/* A user's line decides before the built-in ones; of two lines the first; "-" adds what the
 * deciding line leaves open. */
static void test_user(void **state)
{
    (void)state;
    an_classes *c = table("# "
                          "mine\r\n\nattention\tgemm_special\tfp4\tno\tremark\ncomm\tgemm_"
                          "special\n-\tmine\tbf16\tyes\n"
                          "matrix\t^mine_a\n-\tmine_a\tfp8\n");
    struct an_name_class x = an_class_of(c, "sgemm_special_fp16");
    assert_int_equal(x.class, AN_DEVICE_ATTENTION);
    assert_string_equal(x.dtype, "fp4");
    assert_int_equal(x.matrix_unit, 0);
    x = an_class_of(c, "mine_a");
    assert_int_equal(x.class, AN_DEVICE_MATRIX);
    assert_string_equal(x.dtype, "bf16");
    assert_int_equal(x.matrix_unit, 1);
    assert_false(an_class_of(c, "mine_b").known); /* a line of the class "-" is not a match */
    assert_int_equal(an_class_of(c, "ncclKernel_x").class, AN_DEVICE_COMM);
    an_classes_free(c);
}

static void test_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *table, *says;
    } all[] = {
        {"comm\n", "line 1: missing pattern"},
        {"comm\tx\nmatrixx\ty\n", "line 2: unknown class \"matrixx\""},
        {"comm\ta(b\n", "line 1: pattern \"a(b\""},
        {"\n\nmatrix\ta\tbf16\tmaybe\n", "line 3: matrix-unit is \"maybe\""},
        {"comm\t(([}]a{99}){99}|b){99}\n", "more than 32767 copies"},
        {"comm\t((((((((((((((((a)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+\n", "more than 32767 copies"},
        {"comm x y\n", "line 1: unknown class"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        an_classes *c = NULL;
        struct tacho_error err = {0};
        assert_int_equal(an_classes_new(all[i].table, &c, &err), TACHO_EFORMAT);
        assert_null(c);
        if (!strstr(err.what, all[i].says))
            fail_msg("\"%s\" does not say \"%s\"", err.what, all[i].says);
        assert_non_null(strstr(err.hint, "class TAB pattern"));
    }
}

/* Random tables and names: no crash, no read beyond an end (the sanitizers watch), and the same
 * answer twice. */
static void test_random(void **state)
{
    (void)state;
    static const char letters[] = "ab(|)[]*+?{}^$.\\:-\t1c";
    uint32_t seed = 12345;
    int read = 0;
    for (int round = 0; round < 3000; round++) {
        char pattern[40], name[40], user[64];
        for (size_t i = 0; i < sizeof pattern; i++) {
            seed = seed * 1664525u + 1013904223u;
            pattern[i] = letters[seed >> 16 & 15];
            name[i] = "abc:_1<( "[(seed >> 24) % 9];
        }
        pattern[1 + seed % 30] = name[seed >> 8 & 31] = 0;
        snprintf(user, sizeof user, "matrix\t%s\n", pattern);
        an_classes *c = NULL;
        if (an_classes_new(user, &c, NULL))
            continue;
        read++;
        assert_int_equal(an_class_of(c, name).class, an_class_of(c, name).class);
        an_classes_free(c);
    }
    assert_true(read > 100);
}

/* 3,000 names in milliseconds, not seconds (the limit is wide: sanitizers, busy machines). */
static void test_speed(void **state)
{
    (void)state;
    an_classes *c = table(NULL);
    char name[700];
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (int i = 0; i < 3000; i++) {
        memset(name, "abcdefghij_<>(),:"[i % 17], sizeof name - 1);
        snprintf(name, 80, "void some::library::kernel_number_%d_with_a_name<4, float>", i);
        name[strlen(name)] = ' ';
        name[sizeof name - 1] = 0;
        an_class_of(c, name);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    double ms = (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
    print_message("3000 names of 699 letters: %.1f ms\n", ms);
    assert_true(ms < 3000);
    an_classes_free(c);
}

/* The kind of work by the name before its template arguments. */
static void test_families(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum an_family family;
    } all[] = {
        {"nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", AN_FAMILY_MATRIX},
        {"void cublasLt::splitKreduce_kernel<32, 16, int, float>()", AN_FAMILY_MATRIX},
        {"void cublasLt::epilogue::impl::globalKernelBgradAB_v2<8, 128>()", AN_FAMILY_REDUCTION},
        {"cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma", AN_FAMILY_ATTENTION},
        {"void attention_dqkv<unsigned short, 64, true>()", AN_FAMILY_ATTENTION},
        {"void cudnn::fusion::convert_dq_to_16bits<true>()", AN_FAMILY_ATTENTION},
        {"void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda()>()",
         AN_FAMILY_ELEMENTWISE},
        {"void at::native::vectorized_elementwise_kernel<4, reduce_layer_norm>()",
         AN_FAMILY_ELEMENTWISE},
        {"void at::native::(anonymous namespace)::CatArrayBatchedCopy_vectorized<>()",
         AN_FAMILY_ELEMENTWISE},
        {"void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float>()",
         AN_FAMILY_NORM},
        {"void layernorm_din<unsigned short, 8>()", AN_FAMILY_NORM},
        {"void at::native::(anonymous namespace)::cunn_SoftMaxBackward<8>()", AN_FAMILY_LOSS},
        {"void classifier_row<unsigned short, 8>()", AN_FAMILY_LOSS},
        {"void at::native::reduce_kernel<128, 4>()", AN_FAMILY_REDUCTION},
        {"column_totals(float*, float*)", AN_FAMILY_REDUCTION},
        {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<Fused>()",
         AN_FAMILY_OPTIMIZER},
        {"void adamw<4>(float*)", AN_FAMILY_OPTIMIZER},
        {"void embedding_dword<unsigned short, 8>()", AN_FAMILY_INDEX},
        {"triton_poi_fused_add_1", AN_FAMILY_COMPILED},
        {"loop_multiply_fusion", AN_FAMILY_COMPILED},
        {"zyx_kernal", AN_FAMILY_OTHER},
    };
    an_classes *c = table(NULL);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        enum an_family family = an_family_of(an_class_of(c, all[i].name).class, all[i].name);
        if (family != all[i].family)
            fail_msg("%s is of %s", all[i].name, an_family_key(family));
    }
    an_classes_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),   cmocka_unit_test(test_expressions),
        cmocka_unit_test(test_user),    cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_random),  cmocka_unit_test(test_speed),
        cmocka_unit_test(test_families)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
