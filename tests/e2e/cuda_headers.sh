#!/bin/bash
# The numbers in the headers of the simulated device are those of the CUDA toolkit's own.
toolkit=$(dirname "$(dirname "$(readlink -f "${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}")")")
[ -e "$toolkit/include/cublasLt.h" ] || { echo "skip the numbers of CUDA's headers: there is no CUDA toolkit"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Each "NAME = number" of an enumeration and "#define NAME number", but for versions.
sed -nE 's/^ *(#define )?((cuda|CUBLAS|CUDA_R|nccl)[A-Za-z0-9_]+)( = |  *)(-?[0-9][0-9a-fx]*),?$/\2 \5/p' tests/cudasim/include/*.h |
    grep -vE '_VER_|^CUDART_VERSION' | sort -u >"$work/numbers"
headers='cuda_runtime.h cublas_v2.h cublasLt.h'
[ -e "$toolkit/include/nccl.h" ] && headers+=' nccl.h' || sed -i '/^nccl/d' "$work/numbers"
{
    printf '#include <%s>\n' $headers
    awk '{printf "static_assert((long)(%s) == (long)(%s), \"%s\");\n", $1, $2, $1}' "$work/numbers"
} >"$work/numbers.cc"
count=$(wc -l <"$work/numbers")
if [ "$count" -gt 150 ] && g++ -std=c++17 -fsyntax-only -isystem "$toolkit/include" "$work/numbers.cc" 2>"$work/errors"; then
    echo "ok $count numbers of the simulated device's headers are CUDA's"
else
    grep error "$work/errors" >&2
    echo "not ok the numbers of the simulated device's headers: $count of them, $(grep -c 'error' "$work/errors") wrong"
    exit 1
fi
