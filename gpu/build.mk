# The CUDA backend, as the module $(BUILD)/megatrain-cuda.so; included where nvcc was found.
#
#   make                       code for this machine's GPU where nvidia-smi names one, else for two generations
#   make CUDA_ARCHS='80 89'    code for these compute capabilities
#   make gpu-all               code for all from 8.0 on, and PTX for later ones
#
# Code for a capability runs on those of the same first number and the same or a higher second one, PTX on all that
# come after: so 8.7 has that of 8.6, 10.3 that of 10.0 and 12.1 that of 12.0.
#
# One object a source, compiled in parallel. The module needs the machine's cuBLAS and driver; NCCL and NVML are looked
# for at run time.

gpu_archs_here := $(subst .,,$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | \
                    grep -E '^[0-9]+\.[0-9]+$$' | sort -Vu))
# What this nvcc can compile for, but what the module refuses.
gpu_known_archs = $(patsubst sm_%,%,$(filter-out sm_5% sm_6% sm_7%,$(filter sm_%,$(shell $(NVCC) --list-gpu-code))))
gpu_all_archs   = $(filter 80 86 89 90 100 110 120,$(gpu_known_archs))
ifeq ($(origin CUDA_ARCHS),undefined)
CUDA_ARCHS := $(or $(if $(gpu_archs_here),$(filter $(gpu_known_archs),$(gpu_archs_here))),80 90)
endif

cuda_module  := $(BUILD)/megatrain-cuda.so
gpu_sources  := $(sort $(wildcard gpu/*.cu gpu/kernels/*.cu))
gpu_objects  := $(patsubst %.cu,$(BUILD)/obj/%.o,$(gpu_sources))
cuda_folder  := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
# PTX of the newest goes with it: a later GPU compiles that when it first meets it.
gpu_newest   := $(lastword $(shell printf '%s\n' $(CUDA_ARCHS) | sort -V))
gpu_code     := $(foreach arch,$(CUDA_ARCHS),-gencode arch=compute_$(arch),code=sm_$(arch)) \
                -gencode arch=compute_$(gpu_newest),code=compute_$(gpu_newest)
comma        := ,
# -Wconversion also complains of the toolkit's own headers.
gpu_warnings := -Wall,-Wextra,-Wshadow$(if $(WERROR),$(comma)-Werror)
NVCCFLAGS    ?= -O3 -lineinfo
gpu_compile   = $(NVCC) -std=c++17 $(NVCCFLAGS) $(gpu_code) -I. -D_GNU_SOURCE -Xcompiler -fPIC,-fvisibility=hidden \
                -Xcompiler $(gpu_warnings) $(if $(WERROR),-Werror all-warnings)

# Sanitizers see nothing of it: their tests use the simulated device.
modules += $(if $(SANITIZE),,$(cuda_module))

$(BUILD)/gpu-flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(gpu_compile)' | cmp -s - $@ || printf '%s\n' '$(gpu_compile)' >$@

# What nvcc and the host's compiler said of a source is kept beside its object: a user's build goes on, `make check`
# does not (gpu-warnings), and needs no build of its own for that.
$(BUILD)/obj/gpu/%.o: gpu/%.cu $(BUILD)/gpu-flags
	$(say) NVCC $<
	@mkdir -p $(@D)
	$(quiet)$(gpu_compile) -MD -MP -MF $(@:.o=.d) -MT $@ -c -o $@ $< 2>$(@:.o=.said); code=$$?; \
	    cat $(@:.o=.said) >&2; exit $$code

.PHONY: gpu-warnings
check_first += $(if $(SANITIZE),,gpu-warnings)
gpu-warnings: $(cuda_module)
	@for said in $(gpu_objects:.o=.said); do [ ! -s $$said ] || { cat $$said; bad=1; }; done; \
	    [ -z "$$bad" ] || { echo "*** gpu/ does not compile without warnings (above)"; exit 1; }

$(BUILD)/obj/gpu/module.o: private gpu_compile += $(module_interface)

$(cuda_module): $(gpu_objects)
	$(say) LINK $@
	$(quiet)$(NVCC) -shared -cudart static -o $@ $(gpu_objects) -L$(cuda_folder)/lib64 -lcublasLt -lcublas -ldl \
	    -Xlinker -rpath,$(cuda_folder)/lib64 -Xlinker -z,relro,-z,now

.PHONY: gpu-all
gpu-all:
	@$(MAKE) $(cuda_module) CUDA_ARCHS='$(gpu_all_archs)'

-include $(gpu_objects:.o=.d)
