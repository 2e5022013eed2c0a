/* The vector types of CUDA, with its alignments: a whole vector is accessed at a multiple of its size. */
#ifndef CUDASIM_VECTORS_H
#define CUDASIM_VECTORS_H

#define CUDASIM_VECTOR(scalar, name, align2, align4)                                                         \
    struct name##1                                                                                           \
    {                                                                                                        \
        scalar x;                                                                                            \
    };                                                                                                       \
    struct __attribute__((aligned(align2))) name##2                                                          \
    {                                                                                                        \
        scalar x, y;                                                                                         \
    };                                                                                                       \
    struct name##3                                                                                           \
    {                                                                                                        \
        scalar x, y, z;                                                                                      \
    };                                                                                                       \
    struct __attribute__((aligned(align4))) name##4                                                          \
    {                                                                                                        \
        scalar x, y, z, w;                                                                                   \
    };                                                                                                       \
    static inline name##1 make_##name##1(scalar x)                                                           \
    {                                                                                                        \
        return name##1 {x};                                                                                  \
    }                                                                                                        \
    static inline name##2 make_##name##2(scalar x, scalar y)                                                 \
    {                                                                                                        \
        return name##2 {x, y};                                                                               \
    }                                                                                                        \
    static inline name##3 make_##name##3(scalar x, scalar y, scalar z)                                       \
    {                                                                                                        \
        return name##3 {x, y, z};                                                                            \
    }                                                                                                        \
    static inline name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w)                             \
    {                                                                                                        \
        return name##4 {x, y, z, w};                                                                         \
    }

CUDASIM_VECTOR(signed char, char, 2, 4)
CUDASIM_VECTOR(unsigned char, uchar, 2, 4)
CUDASIM_VECTOR(short, short, 4, 8)
CUDASIM_VECTOR(unsigned short, ushort, 4, 8)
CUDASIM_VECTOR(int, int, 8, 16)
CUDASIM_VECTOR(unsigned int, uint, 8, 16)
CUDASIM_VECTOR(long, long, 16, 16)
CUDASIM_VECTOR(unsigned long, ulong, 16, 16)
CUDASIM_VECTOR(long long, longlong, 16, 16)
CUDASIM_VECTOR(unsigned long long, ulonglong, 16, 16)
CUDASIM_VECTOR(float, float, 8, 16)
CUDASIM_VECTOR(double, double, 16, 16)
#undef CUDASIM_VECTOR

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz)
    {
    }
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z)
    {
    }
};

#endif
