# `make fuzz`: each tests/fuzz/fuzz_*.c with libFuzzer, AddressSanitizer and UBSan (clang), for FUZZ_SECONDS. What a
# target finds and where it has been stays in $(BUILD)/fuzz/corpus and $(BUILD)/fuzz/found.

FUZZ_SECONDS ?= 30
FUZZ_CC      ?= clang

fuzz_sources := $(sort $(wildcard tests/fuzz/fuzz_*.c))
# The floors that read files; the rest is not instrumented, and not linked.
fuzz_core    := $(filter core/base/% core/formats/% core/job/% core/text/% core/data/%,$(core_sources))
fuzz_archive := $(BUILD)/libfuzz-core.a

.PHONY: fuzz fuzz-run
fuzz:
	@packaging/install-packages.sh build test fuzz
	@$(MAKE) fuzz-run BUILD=$(BUILD)/fuzz CC='$(FUZZ_CC)' SANITIZE=fuzzer-no-link,address,undefined OPTIMISE='-O1 -g'

$(eval $(call archive_rule,$(fuzz_archive),$(call objects,$(fuzz_core) tests/fuzz/fuzz.c)))

fuzz_programs := $(patsubst %.c,$(BUILD)/%,$(fuzz_sources))
$(fuzz_programs): $(BUILD)/%: $(BUILD)/obj/%.o $(fuzz_archive)
	$(say) LINK $@
	@mkdir -p $(@D)
	$(quiet)$(CC) $(LINK) -fsanitize=fuzzer -o $@ $(filter %.o,$^) $(filter %.a,$^) $(filter %.a,$^) $(CORE_LIBS)

fuzz-run: $(fuzz_programs)
	@MT_BUILD='$(abspath $(BUILD))' tests/fuzz/run.py --seconds $(FUZZ_SECONDS) $(fuzz_programs)

-include $(patsubst %.o,%.d,$(call objects,$(fuzz_sources) tests/fuzz/fuzz.c))
