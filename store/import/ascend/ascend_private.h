/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/ascend/: what the timeline and the tables of an NPU say in the same
 * words.
 */
#ifndef STORE_IMPORT_ASCEND_ASCEND_PRIVATE_H
#define STORE_IMPORT_ASCEND_ASCEND_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

enum ascend_task { ASCEND_TASK_KERNEL, ASCEND_TASK_COPY, ASCEND_TASK_WAIT };

/* What a task of the NPU is, by its type ("AI_CORE", "NOTIFY_WAIT") or its name; the text is not
 * terminated. */
enum ascend_task ascend_task_of(const char *text, size_t bytes);

/* The rank of the capture that a file belongs to; STORE_ABSENT: nothing says it. torch_npu and
 * MindSpore write profiler_info_RANK.json into the folder of a capture (*_ascend_pt, *_ascend_ms);
 * its name may say it too (rank3_..._ascend_pt). */
int64_t ascend_rank_of(const char *path);

#endif
