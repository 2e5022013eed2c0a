/* out = f(gate) * up, the gated units of Shazeer (2020); without `up`, out = f(gate).
 *
 *   backward  dgate = dout * up * f'(gate); dup = dout * f(gate); both overwritten, in place if wished
 *
 * With s = sigmoid(x): silu f = x s, f' = s (1 + x (1 - s)). gelu: f = x Phi(x), f' = Phi(x) + x phi(x). Its
 * tanh form is x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3), since (1 + tanh u) / 2 = sigmoid(2u).
 */
#include "gpu/kernels/elementwise.h"

static __device__ float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* f(x) and, in *slope, f'(x). */
template <int kind> static __device__ float activate(float x, float *slope)
{
    if (kind == MT_ACTIVATION_SILU) {
        const float s = sigmoid(x);
        *slope = s * (1.0f + x * (1.0f - s));
        return x * s;
    }
    if (kind == MT_ACTIVATION_GELU) {
        const float phi = 0.5f + 0.5f * erff(x * 0.70710678f);
        *slope = phi + x * 0.39894228f * expf(x * x * -0.5f);
        return x * phi;
    }
    if (kind == MT_ACTIVATION_GELU_TANH) {
        const float square = x * x;
        const float s = sigmoid(x * 1.59576912f * (1.0f + 0.044715f * square));
        *slope = s + x * s * (1.0f - s) * 1.59576912f * (1.0f + 0.134145f * square);
        return x * s;
    }
    /* NaN is neither below nor above: it stays. */
    const float positive = x <= 0.0f ? 0.0f : x;
    if (kind == MT_ACTIVATION_RELU2) {
        *slope = 2.0f * positive;
        return positive * positive;
    }
    *slope = x <= 0.0f ? 0.0f : 1.0f;
    return positive;
}

template <typename T> struct gated_operands {
    const T *gate, *up, *dout;
    T *out, *dgate, *dup;
    size_t rows, cols, gate_stride, up_stride;
};

template <typename T, int V, int kind>
static __device__ void forward_pack(const gated_operands<T> &o, size_t row, size_t i)
{
    float gate[V], up[V], slope;
    mt_load<T, V>(o.gate + row * o.gate_stride + i, gate);
    if (o.up)
        mt_load<T, V>(o.up + row * o.up_stride + i, up);
    for (int j = 0; j < V; j++) {
        gate[j] = activate<kind>(gate[j], &slope);
        if (o.up)
            gate[j] *= up[j];
    }
    mt_store<T, V>(o.out + row * o.cols + i, gate);
}

template <typename T, int V, int kind>
static __device__ void backward_pack(const gated_operands<T> &o, size_t row, size_t i)
{
    float gate[V], up[V], dout[V], slope;
    mt_load<T, V>(o.dout + row * o.cols + i, dout);
    mt_load<T, V>(o.gate + row * o.gate_stride + i, gate);
    if (o.up)
        mt_load<T, V>(o.up + row * o.up_stride + i, up);
    for (int j = 0; j < V; j++) {
        const float f = activate<kind>(gate[j], &slope);
        gate[j] = dout[j] * slope;
        if (o.up) {
            gate[j] *= up[j];
            up[j] = dout[j] * f;
        }
    }
    mt_store<T, V>(o.dgate + row * o.gate_stride + i, gate);
    if (o.up)
        mt_store<T, V>(o.dup + row * o.up_stride + i, up);
}

template <typename T, int V, int kind, bool backward>
static __global__ void activation_kernel(gated_operands<T> o)
{
    mt_each_of_rows<V>(o.rows, o.cols, [&](auto width, size_t row, size_t i) {
        constexpr int W = decltype(width)::count;
        if (backward)
            backward_pack<T, W, kind>(o, row, i);
        else
            forward_pack<T, W, kind>(o, row, i);
    });
}

template <typename T, int V, bool backward>
static void launch(struct mt_stream *stream, const gated_operands<T> &o, enum mt_activation kind)
{
    const dim3 grid = mt_rows_grid(o.rows, o.cols, V), block = mt_rows_block(o.cols, V);
    switch (kind) {
    case MT_ACTIVATION_SILU:
        MT_LAUNCH((activation_kernel<T, V, MT_ACTIVATION_SILU, backward>), grid, block, 0, stream->handle, o);
        break;
    case MT_ACTIVATION_GELU:
        MT_LAUNCH((activation_kernel<T, V, MT_ACTIVATION_GELU, backward>), grid, block, 0, stream->handle, o);
        break;
    case MT_ACTIVATION_GELU_TANH:
        MT_LAUNCH((activation_kernel<T, V, MT_ACTIVATION_GELU_TANH, backward>), grid, block, 0,
                  stream->handle, o);
        break;
    case MT_ACTIVATION_RELU:
        MT_LAUNCH((activation_kernel<T, V, MT_ACTIVATION_RELU, backward>), grid, block, 0, stream->handle, o);
        break;
    case MT_ACTIVATION_RELU2:
        MT_LAUNCH((activation_kernel<T, V, MT_ACTIVATION_RELU2, backward>), grid, block, 0, stream->handle,
                  o);
        break;
    }
}

/* A forward call is told by `out`. */
struct call {
    struct mt_gated_activation_backward_args args;
    void *out;
};

static int run(struct mt_stream *stream, const struct call *call, const char *operation)
{
    struct mt_gated_activation_backward_args a = call->args;
    const bool backward = !call->out;
    a.gate_stride = a.gate_stride ? a.gate_stride : a.cols;
    a.up_stride = a.up_stride ? a.up_stride : a.cols;
    if (!mt_cuda_data_dtype(a.dtype) || a.activation > MT_ACTIVATION_RELU2 || a.gate_stride < a.cols ||
        a.up_stride < a.cols)
        return -EINVAL;
    if (!a.rows || !a.cols)
        return 0;
    if (!a.gate || (backward && (!a.dout || !a.dgate || (a.up && !a.dup))))
        return -EINVAL;
    const int code = mt_cuda_begin(stream);
    if (code)
        return code;
    const bool packs = mt_cuda_packs(a.dtype, {{a.gate, a.gate_stride},
                                               {a.up, a.up_stride},
                                               {a.dout, a.cols},
                                               {a.dgate, a.gate_stride},
                                               {a.dup, a.up_stride},
                                               {call->out, a.cols}});
    mt_cuda_dispatch(a.dtype, packs, [&](auto kind) {
        typedef typename decltype(kind)::type T;
        constexpr int V = decltype(kind)::packs;
        gated_operands<T> o = {};
        o.gate = static_cast<const T *>(a.gate);
        o.up = static_cast<const T *>(a.up);
        o.dout = static_cast<const T *>(a.dout);
        o.out = static_cast<T *>(call->out);
        o.dgate = static_cast<T *>(a.dgate);
        o.dup = static_cast<T *>(a.dup);
        o.rows = a.rows;
        o.cols = a.cols;
        o.gate_stride = a.gate_stride;
        o.up_stride = a.up_stride;
        if (backward)
            launch<T, V, true>(stream, o, a.activation);
        else
            launch<T, V, false>(stream, o, a.activation);
    });
    return mt_cuda_end(stream, operation);
}

int mt_cuda_gated_activation(struct mt_stream *stream, const struct mt_gated_activation_args *a)
{
    struct call call = {};
    if (!a->out && a->rows && a->cols)
        return -EINVAL;
    call.args.gate = a->gate;
    call.args.up = a->up;
    call.args.rows = a->rows;
    call.args.cols = a->cols;
    call.args.gate_stride = a->gate_stride;
    call.args.up_stride = a->up_stride;
    call.args.activation = a->activation;
    call.args.dtype = a->dtype;
    call.out = a->out;
    return run(stream, &call, "gated_activation");
}

int mt_cuda_gated_activation_backward(struct mt_stream *stream,
                                      const struct mt_gated_activation_backward_args *a)
{
    struct call call = {};
    call.args = *a;
    return run(stream, &call, "gated_activation_backward");
}
