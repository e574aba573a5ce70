#if defined(__x86_64__)
#pragma GCC target("avx2,f16c,fma")
#include "row_kernels.h"

#include "attention_kernel.h"
#include "scan_kernel.h"
#include "scan_halves_kernel.h"

const ork_float_kernels ork_float_avx2 = {
    norm, rotate, quantize, dequantize, add, rope, append, attend, gate, cap, convolve,
    scan_products, scan, scan_operands, scan_inside, scan_carry, scan_finish, chances,
};
#endif
