/* device.h: the one door to compute.
 *
 * A backend is a table of function pointers (struct mt_device_api); whoever writes a new one needs this
 * header and core/base's headers alone. Nothing above knows which backend runs. Memory, streams and events
 * behave as in CUDA: an operation is put into a stream and returns at once; operations of one stream run in
 * order, different streams are ordered by events only. Every backend is asynchronous (the CPU's streams are
 * threads).
 *
 * Conventions
 *  - Pointers named in an argument struct are device addresses unless the comment says "host". The struct
 * itself is copied at the call; what it points to must stay valid until the operation has run.
 *  - Matrices are row-major and dense unless a stride is named; strides count elements. T = tokens.
 *  - "data" is the compute type of the call (`dtype`: MT_F32 or MT_BF16): activations, their gradients, and
 * weights as they came over the bus. Gradients of weights, statistics and losses are always fp32. Products
 * accumulate in fp32.
 *  - `accumulate` false: the output is overwritten ("="); true: added to ("+="). A first micro-batch writes,
 * later ones add, so nothing is ever zeroed in advance.
 *  - Reduction orders depend on shapes alone: same inputs, same bits, whatever the number of threads.
 *  - Fields that are 0 or NULL are off, so structs are filled by designated initialisers and may grow.
 *  - Each call returns 0 or a negative errno for what can be seen at once (bad argument, queue full, sticky
 * error). A fault that happens later makes the device fail: each later call and every synchronisation returns
 * -EIO, or -ENOMEM where the device's memory ran out, and last_error tells.
 */
#ifndef MT_DEVICE_DEVICE_H
#define MT_DEVICE_DEVICE_H

#include "core/base/dtype.h"
#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_device;
struct mt_stream;
struct mt_event;

/* A label of -100, as everywhere in this field, has no loss and no gradient. */
#define MT_LABEL_IGNORED (-100)

/* What a device says of itself. */
struct mt_device_info {
    char name[128];      /* "AMD EPYC 7B13", "NVIDIA GeForce RTX 4090" */
    char kind[16];       /* "cpu", "cpu-discrete", "cuda" */
    char id[64];         /* "cpu", "cuda:0" */
    char kernel_set[64]; /* named in checkpoints: resuming on another one changes bits, and says so */
    size_t total_bytes;  /* memory of the device; of the host for the CPU */
    size_t free_bytes;   /* now */
    size_t own_bytes;    /* in use by the device itself: workspaces, handles of libraries */
    bool host_memory;    /* device memory is the host's: slabs are bound in place, copies are not needed */
    bool supports_bf16;
    bool simulated; /* computes nothing, and its memory, host memory included, is not there: for planning */
};

/* ---- argument structs, one an operation ---- */

/* out[t] = table[ids[t]]. ids: I32 [T], each in [0, vocab_size). table [vocab_size, hidden]. An id outside
 * fails the device, here and in the backward operation. */
struct mt_embedding_args {
    const int32_t *ids;
    const void *table;
    void *out; /* [T, hidden] */
    size_t tokens, hidden, vocab_size;
    enum mt_dtype table_dtype, dtype;
};

/* dtable[ids[t]] += dout[t], in token order (fixed bits). */
struct mt_embedding_backward_args {
    const int32_t *ids;
    const void *dout; /* [T, hidden] */
    float *dtable;    /* [vocab_size, hidden], always added to */
    size_t tokens, hidden, vocab_size;
    enum mt_dtype dtype;
};

/* y = x * rstd * (weight_offset + weight) + bias, rstd = 1 / sqrt(mean(x^2) + eps) (Zhang and Sennrich,
 * 2019); weight_offset is 0, or 1 for gemma's kind. centered: x less its mean stands in x's place everywhere,
 * the layer norm of Ba, Kiros and Hinton (2016). A row may hold several vectors, each normed by itself (the
 * heads of a token); they share one weight, or have one each. */
struct mt_rms_norm_args {
    const void *x;      /* [rows, groups, cols], rows x_stride apart */
    const void *weight; /* [cols], [groups, cols] when weight_per_group, or NULL for none */
    const void *bias;   /* as weight, or NULL */
    void *y;            /* [rows, groups, cols], rows y_stride apart; may be x */
    float *rstd;        /* [rows, groups] out, or NULL */
    float *mean;        /* [rows, groups] out, or NULL; only when centered */
    size_t rows, cols;
    size_t groups;             /* 0: one */
    size_t x_stride, y_stride; /* elements between rows; 0: dense */
    float eps, weight_offset;
    bool centered, weight_per_group;
    enum mt_dtype dtype;
};

/* With g = dy * (weight_offset + weight): dx = rstd * (g - x * rstd^2 * mean(g * x)); dweight = sum over rows
 * of dy * x * rstd; dbias = sum of dy. centered: x less its mean, and g less its mean in dx. */
struct mt_rms_norm_backward_args {
    const void *x, *weight, *dy; /* x with x_stride, dy with dy_stride */
    const float *rstd, *mean;    /* mean: NULL unless centered */
    void *dx;                    /* with dx_stride; may be dy when not accumulating */
    float *dweight, *dbias;      /* [cols] or [groups, cols]; may be NULL */
    size_t rows, cols;
    size_t groups;
    size_t x_stride, dy_stride, dx_stride;
    float weight_offset;
    bool centered, weight_per_group;
    bool accumulate_dx, accumulate_dweight; /* dweight: and dbias */
    enum mt_dtype dtype;
};

/* y[T, out] = x[T, in] * weight[out, in]^T + bias[out]; of a matrix that is stored [in, out], x * weight +
 * bias. (The backward passes of such a product need no case of their own: dx[T, in] = dy * weight^T is this
 * operation on dy, and dweight[in, out] = x^T * dy is linear_backward_weight with x and dy in each other's
 * place.) */
struct mt_linear_args {
    const void *x, *weight, *bias; /* bias may be NULL */
    void *y;
    size_t tokens, in_features, out_features;
    size_t x_stride, y_stride; /* elements between rows; 0: dense */
    bool accumulate;           /* y += ... : the residual sum without another pass */
    float softcap;             /* > 0: y becomes softcap * tanh(y / softcap) after all */
    bool weight_transposed;    /* weight is [in, out] */
    size_t weight_stride;      /* elements between the weight's rows, a part of wider ones; 0: dense */
    enum mt_dtype dtype;
};

/* dx[T, in] = dy[T, out] * weight[out, in]. */
struct mt_linear_backward_input_args {
    const void *dy, *weight;
    void *dx;
    size_t tokens, in_features, out_features;
    size_t dy_stride, dx_stride;
    bool accumulate;
    bool wide_dx; /* dx is fp32 whatever the data type: a sum over several calls, to be rounded once */
    enum mt_dtype dtype;
};

/* dweight[out, in] = dy[T, out]^T * x[T, in]; dbias[out] = sum over T of dy. */
struct mt_linear_backward_weight_args {
    const void *dy, *x;
    float *dweight, *dbias; /* either may be NULL */
    size_t tokens, in_features, out_features;
    size_t dy_stride, x_stride;
    bool accumulate;
    enum mt_dtype dtype;
};

/* Rotary position embedding in place (Su et al., 2021). Pairs are (i, i + rotary_dim / 2) ("halves"), or (2i,
 * 2i + 1) when interleaved; the dimensions from rotary_dim on are left alone. inverse: rotates back (the
 * backward pass). */
struct mt_rope_args {
    void *x;                  /* [T, heads, head_dim], rows x_stride apart (0: dense) */
    const int32_t *positions; /* [T] */
    const float *cos, *sin;   /* [num_positions, rotary_dim / 2], attention factor included */
    size_t tokens, heads, head_dim, rotary_dim, x_stride, num_positions;
    size_t run, run_stride; /* heads lie in runs of `run`, run_stride elements apart; 0: all in one */
    bool interleaved, inverse;
    enum mt_dtype dtype;
};

/* Causal grouped-query attention over documents laid one after another: query t of document d sees the keys
 * of d up to its own place. softmax in fp32, blocked with an online softmax (Milakov and Gimelshein, 2018;
 * Dao et al., 2022): memory is linear in T. Decoding: key_starts (host) gives other bounds for keys than for
 * queries; the last query of a document is aligned with its last key. */
struct mt_attention_args {
    const void *q;     /* [T, num_heads, head_dim], rows q_stride apart (0: dense) */
    const void *k, *v; /* [Tk, num_kv_heads, head_dim], rows k_stride, v_stride apart (0: dense) */
    void *out;         /* [T, num_heads, head_dim], dense */
    float *lse;        /* [T, num_heads]: log-sum-exp of the scaled scores; NULL when no backward follows */
    const int32_t *document_starts; /* HOST, [num_documents + 1], first 0, last T */
    const int32_t *key_starts;      /* HOST, [num_documents + 1], or NULL: the same as document_starts */
    void *workspace;                /* attention_workspace_bytes */
    size_t num_documents, num_heads, num_kv_heads, head_dim;
    size_t q_stride, k_stride, v_stride;
    /* Elements within a row from the queries of one key-value head to those of the next, and from one key (or
     * value) head to the next; 0: dense. For rows that hold q, k, v head by head; the gradients likewise. */
    size_t q_group_stride, kv_head_stride;
    size_t window; /* > 0: a token sees `window` keys, itself included */
    float scale;   /* on q.k */
    float softcap; /* > 0: scores become softcap * tanh(score / softcap) */
    /* Linear biases (Press, Smith and Lewis, 2021): alibi[h] * (place of the key - place of the query) is
     * added to head h's scaled scores. Device, [num_heads], or NULL; not together with softcap. */
    const float *alibi;
    /* As Falcon's code adds them: scale * bf16(alibi[h] * bf16(place of the key in its document)), which no
     * longer depends on distances alone; bf16() rounds to the nearest, slopes are bf16 already. Not together
     * with a window. */
    bool alibi_bf16;
    enum mt_dtype dtype;
};

/* Recomputes the probabilities from q, k and lse. dq, dk, dv: as q, k, v, overwritten, with their strides. */
struct mt_attention_backward_args {
    struct mt_attention_args forward; /* q, k, v, out, lse as the forward pass left them */
    const void *dout;                 /* [T, num_heads, head_dim], dense */
    void *dq, *dk, *dv;
    size_t dq_stride, dk_stride, dv_stride;
};

enum mt_activation {
    MT_ACTIVATION_SILU,      /* x * sigmoid(x) */
    MT_ACTIVATION_GELU,      /* x * Phi(x), by erf */
    MT_ACTIVATION_GELU_TANH, /* the tanh approximation (gelu_pytorch_tanh, gelu_new) */
    MT_ACTIVATION_RELU,
    MT_ACTIVATION_RELU2, /* relu(x)^2 */
};

/* out = activation(gate) * up (Shazeer, 2020); up NULL: out = activation(gate). */
struct mt_gated_activation_args {
    const void *gate, *up; /* [rows, cols], rows gate_stride, up_stride apart (0: dense) */
    void *out;             /* [rows, cols] dense */
    size_t rows, cols, gate_stride, up_stride;
    enum mt_activation activation;
    enum mt_dtype dtype;
};

struct mt_gated_activation_backward_args {
    const void *gate, *up, *dout;
    void *dgate, *dup; /* strides as gate's and up's; may be gate and up themselves */
    size_t rows, cols, gate_stride, up_stride;
    enum mt_activation activation;
    enum mt_dtype dtype;
};

/* xIELU (Huang and Schlag, 2024), element by element, with p = softplus(*alpha_p), n = *beta +
 * softplus(*alpha_n):
 *   x > 0: y = p x^2 + beta x;  else: y = n (expm1(min(x, *eps)) - x) + beta x. */
struct mt_xielu_args {
    const void *x;
    void *y;                                    /* may be x */
    const void *alpha_p, *alpha_n, *beta, *eps; /* one data element each */
    size_t count;
    enum mt_dtype dtype;
};

/* dx; and dalpha_p, dalpha_n, one number each (=, or += when `accumulate`), summed in fixed order: over x > 0
 * dy x^2, over the others dy (expm1(min(x, eps)) - x), times the slopes of softplus. */
struct mt_xielu_backward_args {
    const void *x, *dy;
    void *dx; /* may be x or dy */
    const void *alpha_p, *alpha_n, *beta, *eps;
    float *dalpha_p, *dalpha_n; /* either may be NULL */
    size_t count;
    bool accumulate;
    enum mt_dtype dtype;
};

/* In place: x = min(max(x, -limit), limit). With `by`, the clipped values, x is their gradient: it becomes 0
 * where |by| >= limit. */
struct mt_clip_args {
    void *x;        /* [rows, cols], rows x_stride apart (0: dense) */
    const void *by; /* [rows, cols], rows by_stride apart (0: dense), or NULL */
    size_t rows, cols, x_stride, by_stride;
    float limit; /* > 0 */
    enum mt_dtype dtype;
};

/* y = a + scale * b, element by element; y may be a or b. a NULL: y = scale * b. */
struct mt_add_args {
    const void *a, *b;
    void *y;
    size_t count;
    float scale;
    const void *factor; /* device, one data element by which scale is multiplied; NULL: none */
    enum mt_dtype dtype;
};

/* Cross entropy over a chunk of tokens, in tiles of the vocabulary so that full logits never exist. For each
 * tile: statistics; then once finish; then for each tile (its logits computed again, unless there is one
 * tile) backward. */
struct mt_cross_entropy_statistics_args {
    const void *logits;    /* [rows, cols]: columns vocab_offset .. vocab_offset + cols of the vocabulary */
    const int32_t *labels; /* [rows], MT_LABEL_IGNORED or in [0, vocab_size): any other fails the device */
    float *max, *sum;      /* [rows]: running maximum and sum of exp(logit - maximum) */
    float *target;         /* [rows]: the label's logit, once its tile was seen */
    size_t rows, cols, vocab_offset;
    size_t vocab_size; /* of all tiles; one that ends beyond is -EINVAL */
    bool first;        /* the first tile: max, sum and target start here */
    enum mt_dtype dtype;
};

struct mt_cross_entropy_finish_args {
    const float *max, *sum, *target; /* [rows] */
    const int32_t *labels;           /* those of statistics, which has looked at them */
    float *lse;                      /* [rows]: max + log(sum) */
    float *losses;                   /* [rows]: lse - target, 0 where ignored */
    double *loss_sum;                /* [1]: sum of losses in row order; accumulate: added to */
    size_t rows;
    bool accumulate;
};

/* logits become dlogits in place: grad_scale * (softmax - onehot); 0 where ignored. With a softcap, the
 * gradient of what was bent: times 1 - (logit / softcap)^2. */
struct mt_cross_entropy_backward_args {
    void *logits;          /* [rows, cols] */
    const int32_t *labels; /* those of statistics; one that is in no tile takes nothing from any */
    const float *lse;
    size_t rows, cols, vocab_offset;
    float grad_scale; /* 1 / target tokens of the whole step */
    float softcap;    /* > 0: the logits are softcap * tanh(... / softcap) */
    enum mt_dtype dtype;
};

/* *sum = (accumulate ? *sum : 0) + sum of x[i]^2, in fp64 by fixed blocks. Not finite if any x is not. */
struct mt_sum_squares_args {
    const float *x;
    double *sum;
    size_t count;
    bool accumulate;
};

/* dst = src in another type, to nearest even. */
struct mt_cast_args {
    const void *src;
    void *dst;
    size_t count;
    enum mt_dtype src_dtype, dst_dtype; /* MT_F32 and MT_BF16 */
};

/* ---- what operations and the host's own work are for ---- */

/* Told to devices that want to know: a planner, a trace. The index is a layer, or a cargo of weights. */
enum mt_stage {
    MT_STAGE_OTHER,
    MT_STAGE_TOKENS_IN, /* labels and positions */
    MT_STAGE_WEIGHTS_IN,
    MT_STAGE_ACTIVATIONS_IN,
    MT_STAGE_FORWARD,
    MT_STAGE_HEAD,
    MT_STAGE_RECOMPUTE,
    MT_STAGE_BACKWARD,
    MT_STAGE_ACTIVATIONS_OUT,
    MT_STAGE_GRADIENTS_OUT,
    MT_STAGE_EMBEDDING, /* on the host: gather and scatter */
    MT_STAGE_UPDATE,    /* on the host; the index is a group of the model */
    MT_STAGE_WAIT,      /* on the host: until the update of group `index` is made */
    MT_NUM_STAGES,
};

/* Work of the host beside the streams. */
struct mt_host_work {
    enum mt_stage stage;
    size_t index;
    size_t bytes;           /* read and written, together */
    struct mt_event *after; /* the work starts when this event is over; NULL: at once */
};

/* ---- the table ---- */

struct mt_device_api {
    uint32_t version; /* MT_DEVICE_API_VERSION */

    void (*info)(struct mt_device *device, struct mt_device_info *info);
    void (*close)(struct mt_device *device); /* all streams must be idle */
    /* The sentence of the first fault, with what to do; "" when there was none. */
    const char *(*last_error)(struct mt_device *device);

    /* Device memory, aligned to 256. Not inside a step: callers cut what they need from few large blocks.
     * -ENOMEM with the bytes asked, in use and available in the sentence. */
    int (*allocate)(struct mt_device *device, size_t bytes, void **address, struct mt_error *error);
    void (*release)(struct mt_device *device, void *address);

    /* Host memory for copies (pinned where that helps), aligned to 4096. A failing pin falls back to pageable
     * memory and sets *pinned (may be NULL) to false. */
    int (*host_allocate)(struct mt_device *device, size_t bytes, void **memory, bool *pinned,
                         struct mt_error *error);
    void (*host_release)(struct mt_device *device, void *memory);

    int (*stream_create)(struct mt_device *device, const char *name, struct mt_stream **stream,
                         struct mt_error *error);
    void (*stream_destroy)(struct mt_stream *stream); /* waits until it is idle */
    int (*stream_synchronize)(struct mt_stream *stream, struct mt_error *error);
    /* Calls function(context) on some host thread when the stream gets there. It must not call into the
     * device. */
    int (*stream_host_function)(struct mt_stream *stream, void (*function)(void *context), void *context);

    /* Events may be recorded again; a wait is for the latest record before the call of wait. Never recorded:
     * no wait. */
    int (*event_create)(struct mt_device *device, struct mt_event **event, struct mt_error *error);
    void (*event_destroy)(struct mt_event *event);
    int (*event_record)(struct mt_event *event, struct mt_stream *stream);
    int (*event_wait)(struct mt_stream *stream, struct mt_event *event);
    int (*event_synchronize)(struct mt_event *event, struct mt_error *error);

    int (*copy_to_device)(struct mt_stream *stream, void *to, const void *from_host, size_t bytes);
    int (*copy_to_host)(struct mt_stream *stream, void *to_host, const void *from, size_t bytes);
    int (*copy)(struct mt_stream *stream, void *to, const void *from, size_t bytes);
    int (*fill_zero)(struct mt_stream *stream, void *address, size_t bytes);

    int (*embedding)(struct mt_stream *, const struct mt_embedding_args *);
    int (*embedding_backward)(struct mt_stream *, const struct mt_embedding_backward_args *);
    int (*rms_norm)(struct mt_stream *, const struct mt_rms_norm_args *);
    int (*rms_norm_backward)(struct mt_stream *, const struct mt_rms_norm_backward_args *);
    int (*linear)(struct mt_stream *, const struct mt_linear_args *);
    int (*linear_backward_input)(struct mt_stream *, const struct mt_linear_backward_input_args *);
    int (*linear_backward_weight)(struct mt_stream *, const struct mt_linear_backward_weight_args *);
    int (*rope)(struct mt_stream *, const struct mt_rope_args *);
    size_t (*attention_workspace_bytes)(struct mt_device *, const struct mt_attention_args *, bool backward);
    int (*attention)(struct mt_stream *, const struct mt_attention_args *);
    int (*attention_backward)(struct mt_stream *, const struct mt_attention_backward_args *);
    int (*gated_activation)(struct mt_stream *, const struct mt_gated_activation_args *);
    int (*gated_activation_backward)(struct mt_stream *, const struct mt_gated_activation_backward_args *);
    int (*add)(struct mt_stream *, const struct mt_add_args *);
    int (*xielu)(struct mt_stream *, const struct mt_xielu_args *);
    int (*xielu_backward)(struct mt_stream *, const struct mt_xielu_backward_args *);
    int (*clip)(struct mt_stream *, const struct mt_clip_args *);
    int (*cross_entropy_statistics)(struct mt_stream *, const struct mt_cross_entropy_statistics_args *);
    int (*cross_entropy_finish)(struct mt_stream *, const struct mt_cross_entropy_finish_args *);
    int (*cross_entropy_backward)(struct mt_stream *, const struct mt_cross_entropy_backward_args *);
    int (*sum_squares)(struct mt_stream *, const struct mt_sum_squares_args *);
    int (*cast)(struct mt_stream *, const struct mt_cast_args *);

    /* Optional, each may be NULL. What is put into the stream from here on is for this stage. */
    void (*mark)(struct mt_stream *stream, enum mt_stage stage, size_t index);
    /* Around work of the host, on the thread that does it. host_begin returns true when the device stands in
     * for the host (a simulated device does): the work is then left out, and host_end is not called. */
    bool (*host_begin)(struct mt_device *device, const struct mt_host_work *work);
    void (*host_end)(struct mt_device *device, const struct mt_host_work *work);
};

#define MT_DEVICE_API_VERSION 1u

/* Every backend's device begins with this, so that callers write device->api->linear(stream, &(struct
 * mt_linear_args){...}). */
struct mt_device {
    const struct mt_device_api *api;
};

#endif
