#!/bin/bash
# Which GPUs a build of the CUDA module has code for: this machine's as nvidia-smi names them, two generations where it
# names none that nvcc knows, and all from 8.0 on by `make gpu-all`. Nothing is compiled.
command -v "${NVCC:-nvcc}" >/dev/null || [ -e /usr/local/cuda/bin/nvcc ] || { echo "skip GPU architectures: there is no nvcc"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# gpus CAPABILITY...: what nvidia-smi says from here on.
gpus() {
    printf '#!/bin/sh\nprintf "%%s\\n" %s\n' "$*" >"$work/nvidia-smi"
    chmod +x "$work/nvidia-smi"
}

# codes TARGET [VARIABLE=VALUE...]: what one source would be compiled for, as "sm_80 sm_90 compute_90".
codes() {
    PATH=$work:$PATH make -n BUILD="$work/build" "$@" 2>"$work/errors" | grep -m 1 -F -- '-c -o' | grep -o 'code=[a-z]*_[0-9a-z]*' | sed 's/code=//' | paste -sd' '
}

# is NAME WANTED GOT
is() {
    if [ "$2" = "$3" ]; then echo "ok $1"; else
        echo "not ok $1: \"$3\" instead of \"$2\""
        cat "$work/errors" >&2
        failed=1
    fi
}

gpus 12.0 6.1 8.6 12.0
is "this machine's GPUs get code, but those that the module refuses" "sm_86 sm_120 compute_120" "$(codes "$work/build/obj/gpu/module.o")"
gpus 99.0
is "a GPU that nvcc does not know gets PTX" "sm_80 sm_90 compute_90" "$(codes "$work/build/obj/gpu/module.o")"
gpus '"[N/A]"'
is "without a GPU two generations get code" "sm_80 sm_90 compute_90" "$(codes "$work/build/obj/gpu/module.o")"
is "PTX is the newest's, in whatever order they stand" "sm_120 sm_89 compute_120" "$(codes "$work/build/obj/gpu/module.o" CUDA_ARCHS='120 89')"

all=$(codes gpu-all)
missing=
for capability in $("${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}" --list-gpu-code | sed -n 's/^sm_\([0-9]*\)$/\1/p' | grep -vE '^[567]'); do
    for code in $all; do # the same first number, and a second one that is not higher
        own=${code#sm_}
        [ "$code" != "$own" ] && [ "${own%?}" = "${capability%?}" ] && [ "${own#"${own%?}"}" -le "${capability#"${capability%?}"}" ] && continue 2
    done
    missing+=" $capability"
done
is "make gpu-all has code for every GPU from 8.0 on that nvcc knows" "" "$missing"
is "and PTX for later ones" "compute_120" "${all##* }"
exit $failed
