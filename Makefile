# Builds, tests and tries qkv in one command each, with CMake in build/.
# "make help" lists the targets. The command line sets CC, CMAKE_FLAGS, PREFIX, DESTDIR and VERBOSE.

MAKEFLAGS += --no-print-directory

BUILD    ?= build
SANITIZE ?= build-sanitize
WITHOUT  ?= slow|sources
THREADS  ?= build-threads
FUZZ     ?= build-fuzz
SECONDS  ?= 60
PREFIX   ?= /usr/local
JOBS     ?= $(shell nproc 2>/dev/null || echo 2)
QKV       = $(BUILD)/qkv
CONFIGURE = VERBOSE=$(VERBOSE) scripts/configure
MAKE_IN   = VERBOSE=$(VERBOSE) scripts/build
# Tests of ranks and of pages wait for other processes for half of their time: one more than there are cores.
CTEST     = ctest --output-on-failure -j$$(($(JOBS) + 1))
ifneq ($(origin CC),default)
COMPILER  = -DCMAKE_C_COMPILER=$(CC)
endif

.PHONY: all build deps deps-command demo style tests test test-quick test-random \
	test-slow sanitize sanitize-threads fuzz bench install uninstall clean help
all: build

help:
	@echo "make              build the library and the command in $(BUILD)/"
	@echo "make demo         build the command for this machine, train a small GPT on real text for about a"
	@echo "                  minute, and let it write; all goes to demo/, and a run that is there continues"
	@echo "                  (STEPS=N sets its end)"
	@echo "make test         build and run the tests (some minutes)"
	@echo "make test-quick   the tests that take less than a minute together"
	@echo "make test-random  the tests with random shapes that no run had before; prints their seed"
	@echo "make test-slow    the tests that take longer as well"
	@echo "make style        check that changed lines are written as docs/style.md asks (BASE=COMMIT)"
	@echo "make sanitize     the tests under the address and undefined-behaviour sanitizers, in $(SANITIZE)/"
	@echo "make sanitize-threads  the tests of threads under clang's thread sanitizer, in $(THREADS)/"
	@echo "make fuzz         feed every reader of foreign files with clang's libFuzzer, SECONDS=$(SECONDS) each"
	@echo "make bench        measure kernels, training and generation beside OpenBLAS and oneDNN"
	@echo "make install      install to PREFIX ($(PREFIX)); DESTDIR is put before it"
	@echo "make uninstall    remove the files that install installed, and its own folders (same DESTDIR)"
	@echo "make deps         install what building, tests and ranks need; the others install their own needs"
	@echo "make clean        remove what was built; demo/ and data/ stay"
	@echo "QKV_ISA=avx2 QKV_PRECISION=bf16 make test: with the kernels and the precision of another machine"
	@echo "Variables: CC=clang, VERBOSE=1, JOBS=$(JOBS), CMAKE_FLAGS=-DQKV_WERROR=ON, BENCH_FLAGS=--full"

deps:
	@CC="$(if $(COMPILER),$(CC))" scripts/install-deps --tests

deps-command:
	@CC="$(if $(COMPILER),$(CC))" scripts/install-deps

build: deps-command
	@$(CONFIGURE) $(BUILD) -DQKV_KERNELS=all $(COMPILER) $(CMAKE_FLAGS)
	@$(MAKE_IN) $(BUILD) $(JOBS) product

# Builds the command alone. A new build folder gets only the best kernels of this machine.
demo: deps-command
	@$(CONFIGURE) $(BUILD) $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DQKV_KERNELS=best) \
		$(COMPILER) $(CMAKE_FLAGS)
	@$(MAKE_IN) $(BUILD) $(JOBS) qkv
	@QKV=$(QKV) scripts/demo

tests: deps
	@$(CONFIGURE) $(BUILD) -DQKV_KERNELS=all $(COMPILER) $(CMAKE_FLAGS)
	@$(MAKE_IN) $(BUILD) $(JOBS) all

test: tests
	@cd $(BUILD) && $(CTEST) -LE slow

test-quick: tests
	@cd $(BUILD) && $(CTEST) -L quick

style:
	@scripts/check-style $(BASE)

test-random: tests
	@seed=$$(date +%s) && echo "QKV_TEST_SEED=$$seed" && cd $(BUILD) && QKV_TEST_SEED=$$seed $(CTEST) -LE slow

test-slow: tests
	@cd $(BUILD) && $(CTEST)

sanitize: deps
	@$(CONFIGURE) $(SANITIZE) -DQKV_SANITIZE=ON -DQKV_BENCH=OFF -DQKV_KERNELS=native $(COMPILER) $(CMAKE_FLAGS)
	@$(MAKE_IN) $(SANITIZE) $(JOBS) all
	@cd $(SANITIZE) && $(CTEST) -LE '$(WITHOUT)'

sanitize-threads: deps
	@$(CONFIGURE) $(THREADS) -DQKV_SANITIZE_THREADS=ON -DQKV_BENCH=OFF -DQKV_KERNELS=best \
		-DCMAKE_C_COMPILER=clang $(CMAKE_FLAGS)
	@$(MAKE_IN) $(THREADS) $(JOBS) test_threads test_team test_share
	@cd $(THREADS) && $(CTEST) -R '^test_(threads|team|share)$$'

# A run starts from the inputs that earlier runs found, in $(FUZZ)/corpus/.
fuzz: deps
	@command -v clang >/dev/null || { echo "make fuzz needs the libFuzzer of clang; install clang"; exit 1; }
	@$(CONFIGURE) $(FUZZ) -DQKV_FUZZ=ON -DQKV_SANITIZE=ON -DQKV_BENCH=OFF -DQKV_KERNELS=scalar \
		-DCMAKE_C_COMPILER=clang $(CMAKE_FLAGS)
	@$(MAKE_IN) $(FUZZ) $(JOBS) fuzz
	@scripts/fuzz $(FUZZ) $(SECONDS)

# The recipe row needs the text; it is not among the default rows.
bench: build
	@$(MAKE_IN) $(BUILD) $(JOBS) qkv_bench
	@$(BUILD)/bench/qkv bench $(BENCH_FLAGS) \
		$(if $(findstring --full,$(BENCH_FLAGS))$(findstring recipe,$(BENCH_FLAGS)), \
		--text "$$(scripts/get-data)")

install: build
	cmake --install $(BUILD) --prefix $(PREFIX) --strip
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

uninstall:
	@if [ ! -f $(BUILD)/install_manifest.txt ]; then echo "nothing was installed from $(BUILD)/"; exit 1; fi
	@while read -r file || [ -n "$$file" ]; do \
		rm -fv "$(DESTDIR)$$file"; \
		case "$${file%/*}" in */qkv) rmdir "$(DESTDIR)$${file%/*}" 2>/dev/null || :;; esac; \
	done < $(BUILD)/install_manifest.txt

clean:
	rm -rf $(BUILD) $(SANITIZE) $(THREADS) $(FUZZ) build-clang
