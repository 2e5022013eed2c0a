/* xIELU (Huang and Schlag, 2024) with trained curvatures.
 *
 *   p = softplus(alpha_p), n = beta + softplus(alpha_n), m = min(x, eps), h(m) = e^m - 1 - m
 *   x > 0   y = p x^2 + beta x              y' = 2 p x + beta
 *   else    y = n (h(m) + m - x) + beta x   y' = n ((m is x ? e^x : 0) - 1) + beta
 *
 * h is small beside its terms near 0: there it is summed as a series. The curvatures' gradients are parts of
 * elements, cut by their number alone, each in fp64, then the parts in a tree of fixed shape.
 */
#include "gpu/kernels/parts.h"

#define PARTS 1024u
#define LEAST 4096u

template <typename T> struct xielu_operands {
    const T *x, *dy; /* dy: in the backward pass */
    T *out;          /* y or dx */
    const T *alpha_p, *alpha_n, *beta, *eps;
    double *parts; /* [parts][2] */
    size_t count;
    struct mt_cut cut;
};

struct curvature {
    float p, n, beta, eps;
};

static __device__ double softplus(double x)
{
    return x > 30 ? x : log1p(exp(x));
}

/* e^x - 1 - x for x <= 0 and a little above. */
static __device__ float excess(float x)
{
    if (x < -0.5f)
        return expf(x) - 1.0f - x;
    float p = x * 2.75573192e-6f + 2.48015873e-5f; /* 1/9!, 1/8!, ... 1/2! */
    p = p * x + 1.98412698e-4f;
    p = p * x + 1.38888889e-3f;
    p = p * x + 8.33333333e-3f;
    p = p * x + 4.16666667e-2f;
    p = p * x + 1.66666667e-1f;
    p = p * x + 0.5f;
    return x * x * p;
}

/* y, its slope, and what the curvatures are multiplied by. */
static __device__ float curve(const struct curvature &c, float x, float *slope, float *bend)
{
    if (x > 0.0f) {
        *bend = x * x;
        *slope = c.p * (2.0f * x) + c.beta;
        return c.p * *bend + c.beta * x;
    }
    const bool below = x < c.eps;
    const float m = below ? x : c.eps, h = excess(m);
    *bend = h + (m - x);
    *slope = c.n * (below ? h + x : -1.0f) + c.beta;
    return c.n * *bend + c.beta * x;
}

template <typename T, int V, bool backward> static __global__ void xielu_kernel(xielu_operands<T> o)
{
    MT_SHARED(struct curvature, shared, );
    if (threadIdx.x == 0) {
        const double beta = (double)mt_widen(*o.beta);
        shared.p = (float)softplus((double)mt_widen(*o.alpha_p));
        shared.n = (float)(beta + softplus((double)mt_widen(*o.alpha_n)));
        shared.beta = (float)beta;
        shared.eps = mt_widen(*o.eps);
    }
    __syncthreads();
    const struct curvature c = shared;
    size_t first, last;
    double above = 0, below = 0;
    mt_part_of(blockIdx.x, o.cut, o.count, &first, &last);
    mt_each<V>(first, last, threadIdx.x, blockDim.x, [&](auto width, size_t i) {
        constexpr int W = decltype(width)::count;
        float x[W], dy[W], slope, bend;
        mt_load<T, W>(o.x + i, x);
        if (backward)
            mt_load<T, W>(o.dy + i, dy);
        for (int j = 0; j < W; j++) {
            const float y = curve(c, x[j], &slope, &bend);
            if (backward) {
                above += x[j] > 0.0f ? (double)(dy[j] * bend) : 0.0;
                below += x[j] > 0.0f ? 0.0 : (double)(dy[j] * bend);
            }
            x[j] = backward ? dy[j] * slope : y;
        }
        mt_store<T, W>(o.out + i, x);
    });
    if (!backward)
        return;
    above = mt_block_sum(above);
    below = mt_block_sum(below);
    if (threadIdx.x == 0) {
        o.parts[2 * (size_t)blockIdx.x] = above;
        o.parts[2 * (size_t)blockIdx.x + 1] = below;
    }
}

/* Number 0 is the positive side's curvature. */
template <typename T> struct xielu_finish {
    const T *alpha_p, *alpha_n;
    float *dalpha_p, *dalpha_n;
    bool accumulate;

    __device__ void operator()(unsigned number, double total) const
    {
        float *to = number ? dalpha_n : dalpha_p;
        if (!to)
            return;
        total /= 1 + exp(-(double)mt_widen(number ? *alpha_n : *alpha_p));
        *to = (float)((accumulate ? (double)*to : 0) + total);
    }
};

template <typename T> static int run(struct mt_stream *stream, const struct mt_xielu_backward_args *a)
{
    xielu_operands<T> o = {};
    o.x = static_cast<const T *>(a->x);
    o.dy = static_cast<const T *>(a->dy);
    o.out = static_cast<T *>(a->dx);
    o.alpha_p = static_cast<const T *>(a->alpha_p);
    o.alpha_n = static_cast<const T *>(a->alpha_n);
    o.beta = static_cast<const T *>(a->beta);
    o.eps = static_cast<const T *>(a->eps);
    o.count = a->count;
    o.cut = mt_cuda_cut(a->count, PARTS, LEAST, 8);
    if (a->dy) {
        o.parts = reinterpret_cast<double *>(mt_cuda_parts(stream));
        if (!o.parts)
            return mt_cuda_fault_code(stream->device);
    }
    const bool packs = mt_cuda_packs(a->dtype, {{a->x, 0}, {a->dy, 0}, {a->dx, 0}});
    const dim3 grid(static_cast<unsigned>(o.cut.parts)), threads(MT_PARTS_THREADS);
    constexpr int V = 16 / (int)sizeof(T);
    if (a->dy && packs)
        MT_LAUNCH((xielu_kernel<T, V, true>), grid, threads, 0, stream->handle, o);
    else if (a->dy)
        MT_LAUNCH((xielu_kernel<T, 1, true>), grid, threads, 0, stream->handle, o);
    else if (packs)
        MT_LAUNCH((xielu_kernel<T, V, false>), grid, threads, 0, stream->handle, o);
    else
        MT_LAUNCH((xielu_kernel<T, 1, false>), grid, threads, 0, stream->handle, o);
    if (a->dy && (a->dalpha_p || a->dalpha_n))
        mt_cuda_total_of_parts(
            stream, o.parts, o.cut.parts, 2,
            xielu_finish<T>{o.alpha_p, o.alpha_n, a->dalpha_p, a->dalpha_n, a->accumulate});
    return mt_cuda_end(stream, a->dy ? "xielu_backward" : "xielu");
}

static int check_and_run(struct mt_stream *stream, const struct mt_xielu_backward_args *a)
{
    if (!mt_cuda_data_dtype(a->dtype))
        return -EINVAL;
    if (!a->count)
        return 0;
    if (!a->x || !a->dx || !a->alpha_p || !a->alpha_n || !a->beta || !a->eps)
        return -EINVAL;
    const int code = mt_cuda_begin(stream);
    if (code)
        return code;
    return a->dtype == MT_BF16 ? run<mt_bf16>(stream, a) : run<float>(stream, a);
}

int mt_cuda_xielu(struct mt_stream *stream, const struct mt_xielu_args *a)
{
    struct mt_xielu_backward_args both = {};
    both.x = a->x;
    both.dx = a->y;
    both.alpha_p = a->alpha_p;
    both.alpha_n = a->alpha_n;
    both.beta = a->beta;
    both.eps = a->eps;
    both.count = a->count;
    both.dtype = a->dtype;
    return check_and_run(stream, &both);
}

int mt_cuda_xielu_backward(struct mt_stream *stream, const struct mt_xielu_backward_args *a)
{
    return a->dy || !a->count ? check_and_run(stream, a) : -EINVAL;
}
