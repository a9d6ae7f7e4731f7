# A thin front: every recipe is one or two commands that can be typed by hand. CMakePresets.json says what each build is.
JOBS ?= $(shell nproc)
PROMPT ?= Tell me a story about a fox and a lantern.
FUZZ_SECONDS ?= 600

# ccache when it is there; its cache is shared between clones of the tree.
ifneq ($(shell command -v ccache),)
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
endif
export JOBS PROMPT

.PHONY: build run test check-all test-exhaustive fuzz tidy format cuda clean help
.DEFAULT_GOAL := build

build:            ## build the release program, build/release/evros
	@tools/setup.sh build
	@cmake --preset release -DEVROS_TESTS=OFF >/dev/null
	@cmake --build build/release -j $(JOBS)

run: build        ## build, then tell a story with the bundled model (PROMPT="..." to ask for something else)
	@build/release/evros run --no-think -p "$$PROMPT"

test:             ## everything that CI runs: style, all tests, Clang, sanitizers, short fuzzing
	@tools/test.sh ci

check-all:        ## everything there is: all sanitizers on all tests, exhaustive arithmetic, FUZZ_SECONDS of fuzzing (hours)
	@tools/test.sh all $(FUZZ_SECONDS)

test-exhaustive:  ## the arithmetic of kernels/math.h on every input
	@tools/test.sh exhaustive

fuzz:             ## every fuzz target for FUZZ_SECONDS each
	@tools/test.sh fuzz $(FUZZ_SECONDS)

tidy:             ## layers, budgets, banned calls and words, format
	@tools/test.sh tidy

format:           ## rewrite the sources as .clang-format wants them
	@tools/setup.sh test
	@git ls-files -z '*.cc' '*.h' '*.cu' | xargs -0 -r clang-format-14 -i

cuda:             ## build with the CUDA backend
	@tools/setup.sh build
	@cmake --preset cuda -DEVROS_TESTS=OFF
	@cmake --build build/cuda -j $(JOBS)

clean:            ## remove build/
	rm -rf build

help:             ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24
