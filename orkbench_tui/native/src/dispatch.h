/* Which kernels this processor gets; chosen once, when first asked. */
#ifndef ORK_DISPATCH_H
#define ORK_DISPATCH_H

#include "float_kernels.h"
#include "int8_kernels.h"
#include "nibble_kernels.h"

typedef struct {
    const char *name;
    ork_strip_product strip;
    ork_nibble_product nibbles;
    const ork_float_kernels *floats;
} ork_kernels;

const ork_kernels *ork_chosen_kernels(void);

#endif
