/* SPDX-License-Identifier: Apache-2.0
 *
 * What tacho writes down of CUPTI's binary interface (profiler/agent/cupti_abi.h), against the real headers where the CUDA
 * toolkit is installed. The assertions are the compiler's; what runs says whether there was something to compare with.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if defined(__has_include)
#if __has_include(<cupti.h>) && __has_include(<cuda.h>)
#define HAVE_CUPTI_HEADERS 1
#include <cupti.h>
#endif
#endif

#include "profiler/agent/cupti_abi.h"

#ifdef HAVE_CUPTI_HEADERS
#define SAME(ours, theirs)    _Static_assert((int)(ours) == (int)(theirs), #theirs)
#define KIND(name, value, on) SAME(value, CUPTI_ACTIVITY_KIND_##name);
CUPTI_KIND_MAP(KIND)
SAME(CUPTI_KIND_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL);
#define DRIVER(name, value) SAME(value, CUPTI_DRIVER_TRACE_CBID_##name);
CUPTI_DRIVER_LAUNCH_MAP(DRIVER)
CUPTI_DRIVER_WORK_MAP(DRIVER)
#define RUNTIME(name, value) SAME(value, CUPTI_RUNTIME_TRACE_CBID_##name);
CUPTI_RUNTIME_MUTED_MAP(RUNTIME)
CUPTI_RUNTIME_LAUNCH_MAP(RUNTIME)
SAME(CUPTI_MAX_LIMIT_REACHED, CUPTI_ERROR_MAX_LIMIT_REACHED);
SAME(CUPTI_QUEUE_EMPTY, CUPTI_ERROR_QUEUE_EMPTY);
SAME(CUPTI_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
SAME(CUPTI_UNKNOWN, CUPTI_ERROR_UNKNOWN);
SAME(CUPTI_ATTR_ZEROED_BUFFER, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
SAME(CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
SAME(CUPTI_THREAD_ID_SYSTEM, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
SAME(CUPTI_SITE_ENTER, CUPTI_API_ENTER);
SAME(CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
SAME(CUPTI_DOMAIN_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API);
SAME(CUPTI_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_RESOURCE);
SAME(CUPTI_RESOURCE_MODULE_UNLOAD, CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING);
SAME(CUPTI_EXTERNAL_CUSTOM0, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0);
SAME(CUPTI_EXTERNAL_CUSTOM1, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1);
SAME(CUPTI_DEVICE_NAME_AT, offsetof(CUpti_ActivityDevice5, name));
SAME(CUPTI_API_CBID_AT, offsetof(CUpti_ActivityAPI, cbid));
SAME(offsetof(struct cupti_callback_data, site), offsetof(CUpti_CallbackData, callbackSite));
#if CUPTI_API_VERSION >= 130000
SAME(CUPTI_KERNEL_NAME_AT, offsetof(CUpti_ActivityKernel10, name));
SAME(CUPTI_OVERHEAD_DATA_AT, offsetof(CUpti_ActivityOverhead3, overheadData));
SAME(CUPTI_OVERHEAD_LONG_SIZE, sizeof(CUpti_ActivityOverhead3));
SAME(sizeof(struct cupti_subscriber_params), sizeof(CUpti_SubscriberParams));
SAME(offsetof(struct cupti_subscriber_params, old_size), offsetof(CUpti_SubscriberParams, oldSubscriberSize));
SAME(CUPTI_OLD_NAME_BYTES, CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN);
#endif
#endif

static void headers_agree(void **state)
{
    (void)state;
#ifdef HAVE_CUPTI_HEADERS
    assert_true(CUPTI_API_VERSION >= 13);
#else
    print_message("no CUDA toolkit here: nothing to compare with\n");
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(headers_agree)};
    return cmocka_run_group_tests_name("agent: CUPTI's interface", tests, NULL, NULL);
}
