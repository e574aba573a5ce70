/* Plain vectors of the base instruction set: SSE2 on x86-64, NEON on aarch64. */
#include "row_kernels.h"

#include "attention_kernel.h"
#include "scan_kernel.h"
#include "scan_halves_kernel.h"

const ork_float_kernels ork_float_portable = {
    norm, rotate, quantize, dequantize, add, rope, append, attend, gate, cap, convolve,
    scan_products, scan, scan_operands, scan_inside, scan_carry, scan_finish, chances,
};
