/* xIELU (Huang and Schlag, 2024) with trained curvatures.
 *
 *   p = softplus(alpha_p), n = beta + softplus(alpha_n), m = min(x, eps), h(m) = e^m - 1 - m
 *   x > 0   y = p x^2 + beta x              y' = 2 p x + beta
 *   else    y = n (h(m) + m - x) + beta x   y' = n ((m is x ? e^x : 0) - 1) + beta
 *
 * h is small beside its terms near 0: there it is summed as a series. The curvatures' gradients are parts of
 * elements, cut by their number alone, each in fp64, then the parts in a tree of fixed shape.
 */
#include "gpu/kernels/kernel.h"

#define THREADS 256
#define PARTS 1024u
#define LEAST 4096u

template <typename T> struct operands {
    const T *x, *dy; /* dy NULL: forward */
    T *out;          /* y or dx */
    const T *alpha_p, *alpha_n, *beta, *eps;
    double *parts; /* [parts][2] */
    size_t count, a_part;
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

template <typename T> static __global__ void xielu_kernel(operands<T> o)
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
    const size_t first = (size_t)blockIdx.x * o.a_part;
    const size_t last = first + o.a_part < o.count ? first + o.a_part : o.count;
    double sums[2] = {0, 0};
    for (size_t i = first + threadIdx.x; i < last; i += blockDim.x) {
        const float x = mt_widen(o.x[i]), dy = o.dy ? mt_widen(o.dy[i]) : 0.0f;
        float slope, bend;
        const float y = curve(c, x, &slope, &bend);
        sums[x > 0.0f ? 0 : 1] += (double)(dy * bend);
        o.out[i] = mt_narrow<T>(o.dy ? dy * slope : y);
    }
    if (!o.dy)
        return;
    sums[0] = mt_block_sum(sums[0]);
    sums[1] = mt_block_sum(sums[1]);
    if (threadIdx.x == 0) {
        o.parts[2 * (size_t)blockIdx.x] = sums[0];
        o.parts[2 * (size_t)blockIdx.x + 1] = sums[1];
    }
}

/* `which` curvature: 0 the positive side's. */
template <typename T>
static __global__ void sum_parts(const double *parts, size_t num_parts, int which, const T *alpha, float *to,
                                 bool accumulate)
{
    double own = 0;
    for (size_t i = threadIdx.x; i < num_parts; i += blockDim.x)
        own += parts[2 * i + (size_t)which];
    own = mt_block_sum(own);
    if (threadIdx.x == 0) {
        own /= 1 + exp(-(double)mt_widen(*alpha));
        *to = (float)((accumulate ? (double)*to : 0) + own);
    }
}

template <typename T> static int run(struct mt_stream *stream, const struct mt_xielu_backward_args *a)
{
    operands<T> o = {};
    o.x = static_cast<const T *>(a->x);
    o.dy = static_cast<const T *>(a->dy);
    o.out = static_cast<T *>(a->dx);
    o.alpha_p = static_cast<const T *>(a->alpha_p);
    o.alpha_n = static_cast<const T *>(a->alpha_n);
    o.beta = static_cast<const T *>(a->beta);
    o.eps = static_cast<const T *>(a->eps);
    o.count = a->count;
    o.a_part = mt_size_max(LEAST, mt_cuda_ceil_div(a->count, PARTS));
    if (a->dy) {
        o.parts = reinterpret_cast<double *>(mt_cuda_parts(stream));
        if (!o.parts)
            return -EIO;
    }
    const size_t num_parts = mt_cuda_ceil_div(a->count, o.a_part);
    MT_LAUNCH((xielu_kernel<T>), dim3(static_cast<unsigned>(num_parts)), dim3(THREADS), 0, stream->handle, o);
    if (a->dy && a->dalpha_p)
        MT_LAUNCH((sum_parts<T>), dim3(1), dim3(THREADS), 0, stream->handle,
                  static_cast<const double *>(o.parts), num_parts, 0, o.alpha_p, a->dalpha_p, a->accumulate);
    if (a->dy && a->dalpha_n)
        MT_LAUNCH((sum_parts<T>), dim3(1), dim3(THREADS), 0, stream->handle,
                  static_cast<const double *>(o.parts), num_parts, 1, o.alpha_n, a->dalpha_n, a->accumulate);
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
