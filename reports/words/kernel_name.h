/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of C++ kernels, short enough to read.
 */
#ifndef REPORTS_KERNEL_NAME_H
#define REPORTS_KERNEL_NAME_H

#include <stddef.h>

/* A demangled name without its result type, namespaces, parameters and inner template arguments:
 *
 *     void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>,
 * ...>(...) vectorized_elementwise_kernel<4, CUDAFunctor_add, ...>
 *
 * A lambda has the name of the function around it. A name that is not C++ is copied. `out` is
 * terminated, at most `size` bytes. The result may hold any byte that the name holds: neutralise it
 * (escape.h). */
void rep_kernel_name(char *out, size_t size, const char *name);

#endif
