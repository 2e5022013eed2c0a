# The simulated CUDA device: $(BUILD)/megatrain-cudasim.so, the sources of gpu/ compiled by g++ against the substitute
# headers of tests/cudasim/include and linked with the simulator; and the simulator's own tests.
#
# Objects stand in $(BUILD)/obj/cudasim, compiled as $(SANITIZE) says, and for races/ in $(BUILD)/obj/cudasim-tsan,
# always under ThreadSanitizer. There the simulator itself is not instrumented: it announces what CUDA promises.

CXX ?= g++

cudasim_module  := $(BUILD)/megatrain-cudasim.so
cudasim_sources := $(filter-out tests/cudasim/test_%,$(sort $(wildcard tests/cudasim/*.cc)))
cudasim_tests   := $(sort $(wildcard tests/cudasim/test_*.cc))
cudasim_gpu     := $(sort $(wildcard gpu/*.cu gpu/*/*.cu))

cudasim_programs := $(patsubst %.cc,$(BUILD)/%,$(cudasim_tests))
cudasim_races    := $(BUILD)/tests/cudasim/races

# Tests that run once more with the module: their device is then cuda. make tsan has others, and each kernel with its
# threads as threads.
cudasim_on = $(if $(cudasim_gpu),$(patsubst %,$(1):%,$(filter $(patsubst %,$(BUILD)/tests/unit/%,$(2)),$(unit_programs))))
cudasim_again := $(call cudasim_on,cudasim,device/test_agreement device/test_agreement_products device/test_attention \
                     device/test_collective device/test_cross_entropy device/test_curves device/test_linear device/test_norms \
                     device/test_rows plan/test_plan stream/test_golden) \
                 $(call cudasim_on,cudasim-backward,device/test_agreement device/test_agreement_products)
cudasim_tsan  := $(call cudasim_on,cudasim,device/test_agreement device/test_agreement_products device/test_collective \
                     stream/test_waits) \
                 $(call cudasim_on,cudasim-racecheck,device/test_agreement device/test_agreement_products)

cudasim_object    = $(patsubst %,$(BUILD)/obj/$(1)/%.o,$(basename $(2)))
cudasim_simulator := $(call cudasim_object,cudasim,$(cudasim_sources))

cudasim_common := -std=gnu++17 $(OPTIMISE) -fPIC -fvisibility=hidden -Wall -Wextra -Wshadow -Wno-unknown-pragmas \
                  $(if $(WERROR),-Werror) -D_GNU_SOURCE -I. -Itests/cudasim/include -pthread \
                  $(call pkg_cflags,openblas)
# What runs on the simulated device: vectors are accessed through pointers to their elements' type and back, and each
# access must be aligned.
cudasim_device := -fno-strict-aliasing -fsanitize=alignment -fno-sanitize-recover=alignment
# $(1): what the whole build is sanitized by.
cudasim_simulator_flags = $(cudasim_common) $(if $(filter thread,$(1)),-DCUDASIM_TSAN,$(if \
                            $(1),-fsanitize=$(1) -fno-sanitize-recover=undefined))
cudasim_device_flags = $(cudasim_common) $(if $(1),-fsanitize=$(1) -fno-omit-frame-pointer) $(cudasim_device)
cudasim_libraries := $(call pkg_libs,openblas,-lopenblas) -ldl -lm

$(BUILD)/cudasim-flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(CXX) $(call cudasim_simulator_flags,$(SANITIZE)) $(cudasim_device)' | cmp -s - $@ || \
	    printf '%s\n' '$(CXX) $(call cudasim_simulator_flags,$(SANITIZE)) $(cudasim_device)' >$@

# $(1): folder of objects; $(2): sanitizer
define cudasim_rules
$(BUILD)/obj/$(1)/tests/cudasim/test_%.o: tests/cudasim/test_%.cc $(BUILD)/cudasim-flags
	$$(say) CXX $$<
	@mkdir -p $$(@D)
	$$(quiet)$$(CXX) $$(call cudasim_device_flags,$(2)) -MMD -MP -c -o $$@ $$<
$(BUILD)/obj/$(1)/tests/cudasim/races/%.o: tests/cudasim/races/%.cc $(BUILD)/cudasim-flags
	$$(say) CXX $$<
	@mkdir -p $$(@D)
	$$(quiet)$$(CXX) $$(call cudasim_device_flags,$(2)) -MMD -MP -c -o $$@ $$<
$(BUILD)/obj/$(1)/tests/cudasim/%.o: tests/cudasim/%.cc $(BUILD)/cudasim-flags
	$$(say) CXX $$<
	@mkdir -p $$(@D)
	$$(quiet)$$(CXX) $$(call cudasim_simulator_flags,$(2)) -MMD -MP -c -o $$@ $$<
$(BUILD)/obj/$(1)/gpu/%.o: gpu/%.cu $(BUILD)/cudasim-flags
	$$(say) CXX $$<
	@mkdir -p $$(@D)
	$$(quiet)$$(CXX) -x c++ $$(call cudasim_device_flags,$(2)) -MMD -MP -c -o $$@ $$<
endef
$(eval $(call cudasim_rules,cudasim,$(SANITIZE)))
$(eval $(call cudasim_rules,cudasim-tsan,thread))

$(filter $(BUILD)/obj/cudasim%,$(module_objects)): private cudasim_device += $(module_interface)

$(cudasim_module): $(call cudasim_object,cudasim,$(cudasim_gpu)) $(cudasim_simulator)
	$(say) LINK $@
	$(quiet)$(CXX) -shared -pthread $(sanitizer) $(LDFLAGS) -o $@ $^ $(cudasim_libraries)

$(cudasim_programs): $(BUILD)/%: $(BUILD)/obj/cudasim/%.o $(cudasim_simulator)
	$(say) LINK $@
	@mkdir -p $(@D)
	$(quiet)$(CXX) -pthread $(sanitizer) $(LDFLAGS) -o $@ $^ $(TEST_LIBS) $(cudasim_libraries)
$(BUILD)/tests/cudasim/test_races: | $(cudasim_races)
$(cudasim_races): $(call cudasim_object,cudasim-tsan,tests/cudasim/races/races.cc $(cudasim_sources))
	$(say) LINK $@
	@mkdir -p $(@D)
	$(quiet)$(CXX) -pthread -fsanitize=thread $(LDFLAGS) -o $@ $^ $(TEST_LIBS) $(cudasim_libraries)

# The executor under ThreadSanitizer, in every make check: what has its threads and its buffers is compiled so, with the
# module; the rest comes from the archive as it is. make tsan compiles all so, and runs more.
executor_sources := $(sort $(wildcard core/stream/*.c core/store/*.c core/optim/*.c) core/base/pool.c) \
                    tests/unit/stream/test_waits.c tests/unit/stream/stream_support.c
executor_objects := $(patsubst %.c,$(BUILD)/obj/tsan/%.o,$(executor_sources))
executor_module  := $(BUILD)/tests/cudasim/megatrain-cudasim-tsan.so
executor_races   := $(BUILD)/tests/cudasim/executor_races

$(executor_objects): $(BUILD)/obj/tsan/%.o: %.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(quiet)$(CC) $(COMPILE) $(folder_flags) -U_FORTIFY_SOURCE -fsanitize=thread -fno-omit-frame-pointer -MMD -MP -c -o $@ $<

$(executor_races): $(executor_objects) $(core_archive) | $(executor_module)
	$(say) LINK $@
	@mkdir -p $(@D)
	$(quiet)$(CC) $(LINK) -fsanitize=thread -o $@ $(executor_objects) $(core_archive) $(TEST_LIBS) $(CORE_LIBS) -ldl

$(executor_module): $(call cudasim_object,cudasim-tsan,$(cudasim_gpu) $(cudasim_sources))
	$(say) LINK $@
	@mkdir -p $(@D)
	$(quiet)$(CXX) -shared -pthread -fsanitize=thread $(LDFLAGS) -o $@ $^ $(cudasim_libraries)

.PHONY: cudasim cudasim-objects
# For make lint: compiled with -Werror.
cudasim-objects: $(call cudasim_object,cudasim,$(cudasim_gpu) $(cudasim_tests)) $(cudasim_simulator)
cudasim: $(if $(cudasim_gpu),$(cudasim_module)) $(cudasim_programs) $(cudasim_races) $(if $(SANITIZE),,$(executor_races))

-include $(executor_objects:.o=.d)
-include $(patsubst %.o,%.d,$(wildcard $(BUILD)/obj/cudasim/*/*.o $(BUILD)/obj/cudasim/*/*/*.o \
    $(BUILD)/obj/cudasim-tsan/*/*/*.o $(BUILD)/obj/cudasim-tsan/*/*/*/*.o))
