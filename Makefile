# What a contributor and CI run; cheapest first.
.PHONY: help test test-fast tools sim lint fmt crds docs bench dev

CARGO ?= cargo
# Incremental builds and full debug info cost more than they give outside an editor.
export CARGO_INCREMENTAL ?= 0
# Which Kubernetes the tests run on, where it is not the one in tests/tools/kubernetes/go.mod.
export KUBE_VERSION ?=

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

test: ## Run all tests; those with real parts only where `make tools` has built them
	@status=0; CARGO=$(CARGO) tests/tools/cargo-test.sh --workspace --all-features --no-fail-fast || status=$$?; \
		tests/tools/build.sh missing || [ $$status != 0 ] || status=1; exit $$status

test-fast: ## Run the tests of the core, rendering, the embedded API and the simulation, without any real part
	@CARGO=$(CARGO) TEST_BED=off tests/tools/cargo-test.sh --workspace --all-features --no-fail-fast --lib --bins \
		--test decisions --test definitions --test errors --test golden --test properties \
		--test behaviour --test crds --test disk --test faults --test limits --test reads --test writes --test simulation

tools: ## Build the real parts that tests run against, once (needs Go); KUBE_VERSION=1.35.4 for another Kubernetes
	@tests/tools/build.sh

sim: ## Simulate SEEDS seeds (100) from FROM (0) on all cores, for at most LIMIT seconds; or one SEED, its trace to TRACE
	$(CARGO) test -p solar-controller --all-features --test simulation -- --ignored --exact many_seeds --nocapture

lint: ## Formatting and lints, warnings as errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings
	$(CARGO) clippy -p solar-controller --no-default-features -- -D warnings

fmt: ## Format the code
	$(CARGO) fmt --all

crds: ## Write crds/ from the Rust types
	$(CARGO) run -q -- crds --output-dir crds

docs: ## Write the reference pages of docs/ from the code
	$(CARGO) run -q -- reference --output-dir docs

bench: ## Measure (never a test): the start of `dev`, one chart, idle actors, a fleet, what the cache keeps of it
	$(CARGO) bench --workspace

dev: ## Run everything in one process
	$(CARGO) run --release -- dev
