# The short way to build, test and try qkv: thin over CMake, which works in build/.
# "make help" lists the targets. CC, CMAKE_FLAGS, PREFIX and DESTDIR are read from the command line.

MAKEFLAGS += --no-print-directory

BUILD    ?= build
SANITIZE ?= build-sanitize
THREADS  ?= build-threads
FUZZ     ?= build-fuzz
SECONDS  ?= 60
PREFIX   ?= /usr/local
JOBS     ?= $(shell nproc 2>/dev/null || echo 2)
QKV       = $(BUILD)/qkv
CTEST     = ctest --output-on-failure -j$(JOBS)
ifneq ($(origin CC),default)
COMPILER  = -DCMAKE_C_COMPILER=$(CC)
endif

.PHONY: all build deps demo test test-slow sanitize sanitize-threads fuzz bench install uninstall clean help
all: build

help:
	@echo "make            build the library and the command in $(BUILD)/"
	@echo "make demo       train a small GPT on real text for about a minute and let it write; everything goes to demo/, and a"
	@echo "                run that is there goes on (STEPS=N sets its end); nothing is deleted"
	@echo "make test       build and run the tests (a few minutes)"
	@echo "make test-slow  the tests that take longer as well"
	@echo "make sanitize   build with the address and undefined-behaviour sanitizers in $(SANITIZE)/ and run the tests"
	@echo "make sanitize-threads   build with clang's thread sanitizer in $(THREADS)/ and run threads: of a context, and several contexts at once"
	@echo "make fuzz       feed every reader of foreign files with clang's libFuzzer, under the sanitizers, for SECONDS=$(SECONDS) each"
	@echo "make bench      measure the speed of kernels, training and generation beside OpenBLAS and oneDNN"
	@echo "make install    install to PREFIX ($(PREFIX)); DESTDIR is put before it"
	@echo "make uninstall  remove what install installed"
	@echo "make deps       install what the build needs (done by the targets above as well)"
	@echo "make clean      remove what was built; demo/ and data/ stay"
	@echo "QKV_ISA=avx2 QKV_PRECISION=bf16 make test: with the kernels and the precision of another machine"
	@echo "Variables: CC=clang, JOBS=$(JOBS), CMAKE_FLAGS=-DQKV_WERROR=ON, BENCH_FLAGS=--full"

deps:
	@CC="$(if $(COMPILER),$(CC))" scripts/install-deps

# Configuring again is quick and picks up other flags.
build: deps
	@cmake -S . -B $(BUILD) $(COMPILER) $(CMAKE_FLAGS)
	@cmake --build $(BUILD) -j$(JOBS)

demo: build
	@QKV=$(QKV) scripts/demo

test: build
	@cd $(BUILD) && $(CTEST) -LE slow

test-slow: build
	@cd $(BUILD) && $(CTEST)

sanitize: deps
	@cmake -S . -B $(SANITIZE) -DQKV_SANITIZE=ON -DQKV_BENCH=OFF $(COMPILER) $(CMAKE_FLAGS)
	@cmake --build $(SANITIZE) -j$(JOBS)
	@cd $(SANITIZE) && $(CTEST) -LE slow

sanitize-threads: deps
	@cmake -S . -B $(THREADS) -DQKV_SANITIZE_THREADS=ON -DQKV_BENCH=OFF -DCMAKE_C_COMPILER=clang $(CMAKE_FLAGS)
	@cmake --build $(THREADS) -j$(JOBS) --target test_threads test_team
	@cd $(THREADS) && $(CTEST) -R '^test_(threads|team)$$'

# The inputs that were found go on from one run to the next; they lie in $(FUZZ)/.
fuzz: deps
	@command -v clang >/dev/null || { echo "make fuzz needs clang, whose libFuzzer it runs: install clang (Debian: clang)"; exit 1; }
	@cmake -S . -B $(FUZZ) -DQKV_FUZZ=ON -DQKV_SANITIZE=ON -DQKV_BENCH=OFF -DQKV_SIMD=OFF -DCMAKE_C_COMPILER=clang $(CMAKE_FLAGS)
	@cmake --build $(FUZZ) -j$(JOBS) --target fuzz
	@scripts/fuzz $(FUZZ) $(SECONDS)

# The text is for the recipe, which is not among the usual rows.
bench: build
	@$(BUILD)/bench/qkv bench $(if $(findstring --full,$(BENCH_FLAGS))$(findstring recipe,$(BENCH_FLAGS)),--text "$$(scripts/get-data)") $(BENCH_FLAGS)

install: build
	cmake --install $(BUILD) --prefix $(PREFIX) --strip
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

uninstall:
	@if [ ! -f $(BUILD)/install_manifest.txt ]; then echo "nothing was installed from $(BUILD)/"; exit 1; fi
	@while read -r file || [ -n "$$file" ]; do rm -fv "$(DESTDIR)$$file"; done < $(BUILD)/install_manifest.txt

clean:
	rm -rf $(BUILD) $(SANITIZE) $(THREADS) $(FUZZ) build-clang build-clang-sanitize
