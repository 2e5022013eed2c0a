#!/bin/sh
# Golden cases on the simulated CUDA device, in fp32 and in bf16: all of llama, and of each other way to compute one
# (capped scores, linear biases, learned positions, norms of heads, curves of their own); MT_GOLDEN_CASE: those whose
# names begin so.
module=${MT_BUILD:-build}/megatrain-cudasim.so
[ -e "$module" ] || { echo "skip golden cases on CUDA: there is no simulated module"; exit 0; }
failed=0
for case in ${MT_GOLDEN_CASE:-llama gemma2 bloom_post gpt2_hub qwen3_window apertus_bias cohere2 falcon_rw}; do
    MEGATRAIN_CUDA_MODULE=$module MT_GOLDEN_CASE=$case "${MT_BUILD:-build}/tests/unit/stream/test_golden" || failed=1
done
exit $failed
