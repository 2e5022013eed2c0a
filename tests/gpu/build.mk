# What runs on a real GPU (tests/gpu/check.sh) and, in small, on the simulated one: $(BUILD)/tests/gpu/figures; and
# `make gpu-pack`, which gathers everything that check.sh needs on a machine without our libraries.

gpu_test_sources := $(sort $(wildcard tests/gpu/*.c))
gpu_figures      := $(BUILD)/tests/gpu/figures

$(gpu_figures): $(call objects,$(gpu_test_sources)) $(core_archive)
	$(say) LINK $@
	@mkdir -p $(@D)
	$(quiet)$(CC) $(LINK) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(CORE_LIBS) -ldl

.PHONY: gpu-pack
gpu-pack: all tests
	@MT_BUILD='$(abspath $(BUILD))' tests/gpu/check.sh --pack '$(BUILD)/gpu-check'

-include $(patsubst %.o,%.d,$(call objects,$(gpu_test_sources)))
