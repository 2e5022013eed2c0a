# MegaTrain: the one Makefile. `make help` lists the targets; `make V=1` shows every command.
#
# Sources are found by wildcard, so a new file needs no edit here:
#   core/**.c                     build/libmegatrain-core.a
#   api/*.c daemon/megatraind/*.c build/megatraind
#   daemon/worker/*.c             build/megatrain-worker
#   daemon/cli/*.c                build/megatrain
#   tests/unit/<floor>/test_*.c   one cmocka program each (other .c files of the folder are linked to each of them)
#   tests/e2e/*.c, tests/bench/*.c one program each: helpers of the end-to-end tests; benchmarks
# A program appears when its folder has sources. All output stands under $(BUILD).

MAKEFLAGS += --no-builtin-rules --no-print-directory
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
SANITIZE ?=

ifeq ($(origin CC),default)
CC := gcc
endif
AR := ar

# --- flags ---------------------------------------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wshadow -Wconversion $(if $(WERROR),-Werror)
OPTIMISE ?= -O2 -g
CFLAGS   ?=
LDFLAGS  ?=

sanitizer := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer $(if \
               $(findstring undefined,$(SANITIZE)),-fno-sanitize-recover=undefined))

# -isystem: warnings are for our own headers.
pkg_cflags = $(patsubst -I%,-isystem %,$(foreach p,$(1),$(shell pkg-config --cflags $(p) 2>/dev/null)))
# What costs nothing and stops an overrun from becoming more; sanitizers bring their own.
hardening := $(if $(SANITIZE),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong)

pkg_libs   = $(or $(shell pkg-config --libs $(1) 2>/dev/null),$(2))

core_packages   := jansson yaml-0.1 openblas sqlite3 libxxhash libpcre2-8 libutf8proc zlib libzstd liblz4 snappy
server_packages := libmicrohttpd inih
cli_packages    := libcurl
all_packages    := $(core_packages) $(server_packages) $(cli_packages) cmocka
COMPILE := -std=gnu11 $(OPTIMISE) $(WARNINGS) -D_GNU_SOURCE -I. -pthread $(sanitizer) $(hardening) \
           $(call pkg_cflags,$(all_packages)) $(CFLAGS)

# Extra flags of single folders: folder_flags_<folder>.
# Dequantised numbers are those of other programs to the bit: no product is fused with a sum.
folder_flags_core/formats := $(if $(SANITIZE),-O1,-O3) -ffp-contract=off -fno-trapping-math
# Weights pass through these loops as they are loaded and saved.
folder_flags_core/store := $(if $(SANITIZE),-O1,-O3)
# AdamW vectorises only where sqrt need not set errno; products are never fused with sums: same bits everywhere.
folder_flags_core/optim := -O3 -fno-math-errno -fno-trapping-math -ffp-contract=off
# Vector types are passed between always_inline functions alone, so the note on their calling convention is idle.
folder_flags_core/device/cpu := $(if $(SANITIZE),-O1,-O3) -fno-math-errno -fno-trapping-math -Wno-psabi
folder_flags_tests/unit/device := -Wno-psabi
folder_flags = $(folder_flags_$(patsubst %/,%,$(dir $<)))

# Archive members and libraries are taken only where something needs them: megatraind gets no OpenBLAS.
LINK        := -pthread $(sanitizer) -Wl,--as-needed,-z,relro,-z,now $(LDFLAGS)
CORE_LIBS   := $(call pkg_libs,jansson,-ljansson) $(call pkg_libs,yaml-0.1,-lyaml) \
               $(call pkg_libs,openblas,-lopenblas) $(call pkg_libs,sqlite3,-lsqlite3) \
               $(call pkg_libs,libxxhash,-lxxhash) $(call pkg_libs,libpcre2-8,-lpcre2-8) \
               $(call pkg_libs,libutf8proc,-lutf8proc) $(call pkg_libs,zlib,-lz) \
               $(call pkg_libs,libzstd,-lzstd) $(call pkg_libs,liblz4,-llz4) $(call pkg_libs,snappy,-lsnappy) -lm
SERVER_LIBS := $(call pkg_libs,libmicrohttpd,-lmicrohttpd) $(call pkg_libs,inih,-linih)
CLI_LIBS    := $(call pkg_libs,libcurl,-lcurl)
TEST_LIBS   := $(call pkg_libs,cmocka,-lcmocka)

# --- sources -------------------------------------------------------------------------------------------------

core_sources   := $(sort $(wildcard core/*/*.c core/*/*/*.c core/*/*/*/*.c))
server_sources := $(sort $(wildcard api/*.c api/*/*.c daemon/megatraind/*.c))
worker_sources := $(sort $(wildcard daemon/worker/*.c))
cli_sources    := $(sort $(wildcard daemon/cli/*.c))
unit_sources   := $(sort $(wildcard tests/unit/*/test_*.c tests/golden/test_*.c))
helper_sources := $(sort $(wildcard tests/e2e/*.c))
bench_sources  := $(sort $(wildcard tests/bench/*.c))
migrations     := $(and $(wildcard core/queue/migrations.h),$(sort $(wildcard migrations/*.sql)))

objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))

core_archive := $(BUILD)/libmegatrain-core.a
core_objects := $(call objects,$(core_sources)) $(if $(migrations),$(BUILD)/obj/generated/migrations.o)

# A program's folders without their main.c, as an archive, so that unit tests can link them.
server_archive := $(if $(server_sources),$(BUILD)/libmegatraind.a)
worker_archive := $(if $(worker_sources),$(BUILD)/libmegatrain-worker.a)
cli_archive    := $(if $(cli_sources),$(BUILD)/libmegatrain-cli.a)

programs := $(if $(wildcard daemon/megatraind/main.c),$(BUILD)/megatraind) \
            $(if $(wildcard daemon/worker/main.c),$(BUILD)/megatrain-worker) \
            $(if $(wildcard daemon/cli/main.c),$(BUILD)/megatrain)
unit_programs   := $(patsubst %.c,$(BUILD)/%,$(unit_sources))
helper_programs := $(patsubst %.c,$(BUILD)/%,$(helper_sources))
bench_programs  := $(patsubst %.c,$(BUILD)/%,$(bench_sources))

# Programs and a CUDA module know each other's structures from these headers alone; a module that was compiled from
# others is refused. What depends on their checksum is compiled again when one of them changes.
module_headers   := $(addprefix core/,base/dtype.h base/error.h device/collective.h device/device.h device/module.h)
module_interface := -DMT_CUDA_MODULE_INTERFACE=$(firstword $(shell cat $(module_headers) | cksum))u
module_objects   := $(patsubst %,$(BUILD)/obj/%/module.o,core/device gpu cudasim/gpu cudasim-tsan/gpu)
$(module_objects): $(module_headers)
# Private: the files that record flags are prerequisites, and must not see them.
$(BUILD)/obj/core/device/module.o: private folder_flags += $(module_interface)

# --- the CUDA module: gpu/build.mk brings the rules, and adds to $(modules) -------------------------------------

modules :=
check_first :=
ifneq ($(wildcard gpu/build.mk),)
NVCC ?= $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
ifneq ($(NVCC),)
include gpu/build.mk
else
modules := no-cuda
endif
endif

# --- the simulated CUDA device that tests use: rules for $(cudasim_module) and $(cudasim_programs) ------------------

include tests/cudasim/build.mk
include tests/gpu/build.mk

# --- main targets ----------------------------------------------------------------------------------------------

.PHONY: all programs tests demo check check-run check-real check-consumers bench bench-run lint asan tsan install clean help packages \
        have-packages no-cuda FORCE
all: have-packages $(core_archive) $(programs) $(modules)

# Without a library the compiler would complain about its header, which helps nobody.
have-packages:
	@LIBRARIES='$(all_packages)' packaging/install-packages.sh --check build
$(BUILD)/flags: | have-packages

no-cuda:
	@echo "  NOTE    no CUDA toolkit (nvcc) found: building without the CUDA backend in gpu/"

tests: $(unit_programs) $(helper_programs) $(gpu_figures) cudasim

packages:
	@LIBRARIES='$(all_packages)' packaging/install-packages.sh build test

# The packages may bring the compiler and pkg-config, so everything else is a make of its own.
demo: packages
	@$(MAKE) all
	@MT_BUILD='$(abspath $(BUILD))' demo/demo.sh

check: packages
	@$(MAKE) check-run

# TESTS='base queue' runs the tests whose names contain one of the words.
run_options = $(if $(TESTS),--only '$(TESTS)') $(if $(SANITIZE),--sanitized)

check-run: all tests $(check_first)
	@MT_BUILD='$(abspath $(BUILD))' tests/run.py $(run_options) $(unit_programs) $(cudasim_programs) \
	    $(cudasim_again) $(sort $(wildcard tests/e2e/*.sh tests/e2e/*.py))

# A real fine-tune, which takes a quarter of an hour to an hour.
check-real: packages
	@$(MAKE) all
	@MT_BUILD='$(abspath $(BUILD))' tests/run.py $(sort $(wildcard tests/real/*.py))

# Beside the programs that read the same files: what they need is fetched, and some of it compiled, with pip.
check-consumers: packages
	@$(MAKE) all tests
	@MT_BUILD='$(abspath $(BUILD))' MT_TOKENIZER_TEXTS=100000 tests/run.py $(sort $(wildcard tests/consumers/*.py)) \
	    tests/e2e/tokenizers.py

bench: packages
	@$(MAKE) bench-run

bench-run: all $(bench_programs) $(helper_programs)
	@MT_BUILD='$(abspath $(BUILD))' tests/bench.sh $(bench_programs) $(sort $(wildcard tests/bench/*.py))

asan: packages
	@$(MAKE) check-run BUILD=$(BUILD)/asan SANITIZE=address,undefined OPTIMISE='-O1 -g'

# tests/fuzz/build.mk has `make fuzz`.

# Races are looked for where threads are: the pool, the device's streams, the executor, the queue.
tsan_floors := base device stream plan queue
tsan: packages
	@$(MAKE) tsan-run BUILD=$(BUILD)/tsan SANITIZE=thread OPTIMISE='-O1 -g'

.PHONY: tsan-run
tsan_programs := $(filter $(patsubst %,$(BUILD)/tests/unit/%/test_%,$(tsan_floors)),$(unit_programs))
tsan-run: $(tsan_programs) $(if $(cudasim_tsan),$(cudasim_module))
	@MT_BUILD='$(abspath $(BUILD))' tests/run.py $(run_options) $(tsan_programs) $(cudasim_tsan)

# Each C file is compiled with -Werror and analysed in $(BUILD)/lint, once until it or one of its headers changes.
lint:
	@packaging/install-packages.sh build test lint
	@tests/lint/tree.sh; tree=$$?; $(MAKE) -k lint-files cudasim-objects BUILD=$(BUILD)/lint WERROR=1 && exit $$tree

lint_sources := $(core_sources) $(server_sources) $(worker_sources) $(cli_sources) $(unit_sources) $(helper_sources) \
                $(bench_sources) $(gpu_test_sources)
.PHONY: lint-files
lint-files: $(patsubst %.c,$(BUILD)/%.analysed,$(lint_sources))

# The path-sensitive half of clang-tidy takes seconds a file; for tests the other half will do.
tidy_options = $(if $(filter tests/%,$*),--checks=-clang-analyzer-*)

CPPCHECK_FLAGS := --quiet --error-exitcode=1 --std=c11 --platform=unix64 -I. -D_GNU_SOURCE --inline-suppr \
                  --enable=warning,performance,portability --library=tests/lint/cppcheck.cfg \
                  --suppressions-list=tests/lint/cppcheck.txt

clean:
	rm -rf $(BUILD)

help:
	@echo "make              the programs, in $(BUILD)/"
	@echo "make demo         train a small model through the daemon, then ask it (installs missing packages)"
	@echo "make check        all tests that need no GPU (installs missing packages)"
	@echo "make check-consumers  compare with llama.cpp, and more texts with tokenizers and sentencepiece (compiles minutes)"
	@echo "make check-real   fine-tune a real model, which then must answer with its new name"
	@echo "make bench        measure; each figure beside its limit"
	@echo "make lint         formatting, analysers, and the layering of the source folders"
	@echo "make asan, tsan   the tests under AddressSanitizer and UBSan, or ThreadSanitizer"
	@echo "make fuzz         random files for the readers, FUZZ_SECONDS (30) each, under libFuzzer and the sanitizers"
	@echo "make install      to \$$(DESTDIR)\$$(PREFIX), by default /usr/local"
	@echo "make clean        remove $(BUILD)/"
	@echo "Variables: TESTS='words' runs only tests with such names; V=1 shows the commands; BUILD=folder; CC, CFLAGS, LDFLAGS; WERROR=1."

# --- compiling and linking ---------------------------------------------------------------------------------------

ifeq ($(V),1)
say = @:
quiet :=
else
say = @printf '  %-7s %s\n'
quiet := @
endif

# A file that changes when the flags do; every object depends on it.
all_flags = $(CC) $(COMPILE) / $(LINK) / $(foreach v,$(filter folder_flags_%,$(.VARIABLES)),$(v)=$($(v)))
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(all_flags)' | cmp -s - $@ || printf '%s\n' '$(all_flags)' >$@

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(quiet)$(CC) $(COMPILE) $(folder_flags) -MMD -MP -c -o $@ $<

$(BUILD)/%.analysed: $(BUILD)/obj/%.o .clang-tidy tests/lint/cppcheck.txt tests/lint/cppcheck.cfg
	$(say) LINT $*.c
	@mkdir -p $(@D)
	$(quiet)clang-tidy --quiet $(tidy_options) $*.c -- $(COMPILE) 2>$@.err || { cat $@.err; exit 1; }
	$(quiet)cppcheck $(CPPCHECK_FLAGS) $*.c
	@rm -f $@.err && touch $@

$(BUILD)/obj/generated/%.o: $(BUILD)/generated/%.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(quiet)$(CC) $(COMPILE) -MMD -MP -c -o $@ $<

$(BUILD)/generated/migrations.c: $(migrations) packaging/embed-migrations.sh
	$(say) EMBED migrations/
	@mkdir -p $(@D)
	$(quiet)packaging/embed-migrations.sh $(migrations) >$@.new && mv $@.new $@

# An archive is made anew when its list of members changes, so that nothing of a removed file stays. The list has no
# $(BUILD) in it: the same folder under another name (absolute, as tests have it) must not link programs that run.
define archive_rule
$(1).members: FORCE
	@mkdir -p $$(@D)
	@printf '%s\n' $(patsubst $(BUILD)/%,%,$(2)) | cmp -s - $$@ || printf '%s\n' $(patsubst $(BUILD)/%,%,$(2)) >$$@
$(1): $(2) $(1).members
	$$(say) AR $$@
	@rm -f $$@
	$$(quiet)$$(AR) rcs $$@ $(2)
endef
without_main = $(filter-out %/main.c,$(1))
$(eval $(call archive_rule,$(core_archive),$(core_objects)))
$(if $(server_sources),$(eval $(call archive_rule,$(server_archive),$(call objects,$(call without_main,$(server_sources))))))
$(if $(worker_sources),$(eval $(call archive_rule,$(worker_archive),$(call objects,$(call without_main,$(worker_sources))))))
$(if $(cli_sources),$(eval $(call archive_rule,$(cli_archive),$(call objects,$(call without_main,$(cli_sources))))))

link = $(CC) $(LINK) $(link_extra) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(filter %.a,$^)

$(BUILD)/megatraind: $(BUILD)/obj/daemon/megatraind/main.o $(server_archive) $(core_archive)
	$(say) LINK $@
	$(quiet)$(link) $(SERVER_LIBS) $(CORE_LIBS)
$(BUILD)/megatrain-worker: $(BUILD)/obj/daemon/worker/main.o $(worker_archive) $(core_archive)
	$(say) LINK $@
	$(quiet)$(link) $(CLI_LIBS) $(CORE_LIBS) -ldl
$(BUILD)/megatrain: $(BUILD)/obj/daemon/cli/main.o $(cli_archive) $(core_archive)
	$(say) LINK $@
	$(quiet)$(link) $(CLI_LIBS) $(CORE_LIBS) -ldl

# Unit tests of api/ and the daemon's folders get that program's archive too.
$(filter $(BUILD)/tests/unit/api/% $(BUILD)/tests/unit/megatraind/%,$(unit_programs)): $(server_archive)
$(filter $(BUILD)/tests/unit/worker/%,$(unit_programs)): $(worker_archive)
$(filter $(BUILD)/tests/unit/cli/%,$(unit_programs)): $(cli_archive)

.SECONDEXPANSION:
support_of = $(call objects,$(filter-out $(dir $(1))test_%,$(wildcard $(dir $(1))*.c)))
$(unit_programs): $(BUILD)/%: $(BUILD)/obj/%.o $$(call support_of,$$*) $(core_archive)
	$(say) LINK $@
	@mkdir -p $(@D)
	$(quiet)$(link) $(TEST_LIBS) $(SERVER_LIBS) $(CLI_LIBS) $(CORE_LIBS) -ldl
# The worker with something in front of its optimizer.
$(filter $(BUILD)/tests/e2e/marking_worker,$(helper_programs)): link_extra := -Wl,--wrap=mt_adamw_update
$(filter $(BUILD)/tests/e2e/marking_worker,$(helper_programs)): $(BUILD)/obj/daemon/worker/main.o $(worker_archive)
# The API in front of a pretended daemon.
$(filter $(BUILD)/tests/e2e/api_%,$(helper_programs)): $(server_archive)
$(helper_programs) $(bench_programs): $(BUILD)/%: $(BUILD)/obj/%.o $(core_archive)
	$(say) LINK $@
	@mkdir -p $(@D)
	$(quiet)$(link) $(SERVER_LIBS) $(CLI_LIBS) $(CORE_LIBS) -ldl

include tests/fuzz/build.mk

.SECONDARY:
-include $(patsubst %.o,%.d,$(core_objects) $(call objects,$(server_sources) $(worker_sources) $(cli_sources) \
    $(unit_sources) $(helper_sources) $(bench_sources)) $(foreach s,$(unit_sources),$(call support_of,$(s))))

# --- install -----------------------------------------------------------------------------------------------------

INSTALL ?= install
install: all
	$(INSTALL) -d '$(DESTDIR)$(PREFIX)/bin'
	$(if $(programs),$(INSTALL) -m 755 $(programs) '$(DESTDIR)$(PREFIX)/bin')
	$(INSTALL) -d '$(DESTDIR)$(PREFIX)/share/doc/megatrain'
	$(INSTALL) -m 644 LICENSE $(wildcard README.md docs/*.md docs/*.png) '$(DESTDIR)$(PREFIX)/share/doc/megatrain'
	$(if $(filter %.so,$(modules)),$(INSTALL) -d '$(DESTDIR)$(PREFIX)/lib/megatrain' && \
	    $(INSTALL) -m 755 $(filter %.so,$(modules)) '$(DESTDIR)$(PREFIX)/lib/megatrain')
# A configuration that someone has changed stays; the new one is put beside it.
	@$(foreach file,$(wildcard etc/*.conf etc/*/*),to='$(DESTDIR)/etc/megatrain/$(file:etc/%=%)'; \
	    if [ -e "$$to" ] && ! cmp -s $(file) "$$to"; then to="$$to.new"; echo "  NOTE    kept $${to%.new}, new one in $$to"; fi; \
	    $(INSTALL) -D -m 644 $(file) "$$to";)
	$(foreach kind,service:systemd/system:.service sysusers:sysusers.d:.conf tmpfiles:tmpfiles.d:.conf,\
	    $(call install_units,$(word 1,$(subst :, ,$(kind))),$(word 2,$(subst :, ,$(kind))),$(word 3,$(subst :, ,$(kind)))))

# What systemd reads stands under its own names (sysusers.d and tmpfiles.d want .conf), with this PREFIX in it.
define install_units
$(foreach file,$(wildcard systemd/*.$(1)),$(INSTALL) -d '$(DESTDIR)$(PREFIX)/lib/$(2)' && \
    sed 's|/usr/bin/|$(PREFIX)/bin/|g; s|/usr/share/|$(PREFIX)/share/|g' $(file) \
    >'$(DESTDIR)$(PREFIX)/lib/$(2)/$(basename $(notdir $(file)))$(3)' && \
    chmod 644 '$(DESTDIR)$(PREFIX)/lib/$(2)/$(basename $(notdir $(file)))$(3)';)
endef
