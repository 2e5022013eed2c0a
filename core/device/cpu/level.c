/* Which of the instruction sets that kernels are compiled for this processor runs. */
#include "core/device/cpu/simd.h"

#include <stdlib.h>
#include <string.h>

const char *mt_cpu_level_name(enum mt_cpu_level level)
{
    static const char *const names[MT_CPU_LEVELS] = {"baseline", "avx2", "avx512"};
    return names[level];
}

enum mt_cpu_level mt_cpu_level(void)
{
    static int chosen = -1;
    int level = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
    if (level >= 0)
        return (enum mt_cpu_level)level;
    level = MT_CPU_BASELINE;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2"))
        level = MT_CPU_AVX2;
    if (level == MT_CPU_AVX2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        level = MT_CPU_AVX512;
#endif
    const char *asked = getenv("MEGATRAIN_CPU_KERNELS");
    for (int lower = MT_CPU_BASELINE; asked && lower < level; lower++)
        if (!strcmp(asked, mt_cpu_level_name((enum mt_cpu_level)lower)))
            level = lower;
    __atomic_store_n(&chosen, level, __ATOMIC_RELAXED);
    return (enum mt_cpu_level)level;
}
