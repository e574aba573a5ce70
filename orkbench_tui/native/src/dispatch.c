#include "dispatch.h"

#include <stdatomic.h>
#include <stddef.h>

#include "api/dispatch.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#define HWCAP_DOT_PRODUCT (1UL << 20)
#endif

static const ork_kernels portable = {"portable", ork_strip_portable, ork_nibbles_portable, &ork_float_portable};
#if defined(__x86_64__)
static const ork_kernels avx2 = {"avx2", ork_strip_avx2, ork_nibbles_avx2, &ork_float_avx2};
#elif defined(__aarch64__)
static const ork_kernels neon = {"neon", ork_strip_neon, ork_nibbles_neon, &ork_float_portable};
static const ork_kernels dotprod = {"neon+dotprod", ork_strip_dotprod, ork_nibbles_dotprod, &ork_float_portable};
#endif

static _Atomic(const ork_kernels *) chosen;

static const ork_kernels *best(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("fma")) return &avx2;
#elif defined(__aarch64__)
    return getauxval(AT_HWCAP) & HWCAP_DOT_PRODUCT ? &dotprod : &neon;
#endif
    return &portable;
}

const ork_kernels *ork_chosen_kernels(void) {
    const ork_kernels *kernels = atomic_load(&chosen);
    if (kernels == NULL) {
        kernels = best();
        atomic_store(&chosen, kernels);
    }
    return kernels;
}

const char *ork_instruction_set(void) { return ork_chosen_kernels()->name; }

void ork_use_portable(int use) { atomic_store(&chosen, use ? &portable : best()); }
