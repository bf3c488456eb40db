# `make` alone lists the targets. ARGS goes to `weir dev`: make dev ARGS=--traffic
.DEFAULT_GOAL := help
SHELL := /bin/sh

# What `scripts/setup.sh` fetched comes after what the system has.
export PATH := $(PATH):$(CURDIR)/.tools/bin
# In CI the lock file must be right already.
LOCKED := $(if $(CI),--locked)
TARGET := $(or $(CARGO_TARGET_DIR),target)
NEXTEST := cargo nextest run $(LOCKED) $(if $(CI),--profile ci)
GENERATED := web/openapi.json web/src/api/schema.gen.ts
WEB_SOURCES := $(shell find web -type f -not -path '*/node_modules/*' -not -path 'web/dist/*' 2>/dev/null)

.PHONY: help setup setup-tests setup-checks dev web test test-web test-rust test-browser check check-rust check-web check-dependencies \
        check-generated generate bench soak clean-dev clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-19s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## what is needed to build and run: servers from the system, apt, or packages in ./.tools
	@sh scripts/setup.sh dev
setup-tests:
	@sh scripts/setup.sh tests
setup-checks:
	@sh scripts/setup.sh checks

dev: setup web ## the whole product on this machine, on 127.0.0.1 (ARGS=--traffic gives it something to show)
	cargo build $(LOCKED) -p weir-cli --bin weir
	@$(TARGET)/debug/weir dev $(ARGS)

# ---- the dashboard
web: web/dist/index.html ## the dashboard's files, which the control plane embeds
web/dist/index.html: web/node_modules/.package-lock.json $(WEB_SOURCES)
	cd web && npm run --silent build
	touch control-plane/build.rs # which embeds it
	@touch $@
web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	cd web && npm ci --no-audit --no-fund
	@touch $@

# ---- tests
test: test-web test-rust ## everything: web, Rust, Lua, browser
test-web: web ## the dashboard's unit tests
	cd web && npm test
test-rust: setup-tests web ## Rust and Lua on real servers, the product in a browser, the examples in the docs
	$(NEXTEST) --workspace
	cargo test -q $(LOCKED) --workspace --doc
test-browser: setup-tests web ## of those, only the product in a browser (deploy/e2e/tests/browser.rs starts it and runs web/e2e)
	$(NEXTEST) -p weir-e2e --test browser

# ---- checks
check: check-rust check-web check-dependencies check-generated ## format, lints, docs, dependencies, generated files
check-rust: web ## rustfmt, clippy, rustdoc
	cargo fmt --all --check
	cargo clippy $(LOCKED) --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc -q $(LOCKED) --workspace --no-deps
check-web: web/node_modules/.package-lock.json ## format, lints and types of the dashboard
	cd web && npm run --silent check
check-dependencies: setup-checks ## licences, sources, and dependencies that nobody uses
	cargo deny $(LOCKED) --log-level error check licenses bans sources
	cargo machete
check-generated: generate ## fails when generated files are not what the code says
	git diff --exit-code -- $(GENERATED)
generate: web/node_modules/.package-lock.json ## rewrite generated files: OpenAPI document, API client
	@# Together with the command line, so that libraries are built with the features that everything else has them with.
	cargo build -q $(LOCKED) -p weir-cli -p weir-control-plane --bins
	$(TARGET)/debug/weir-control-plane openapi > web/openapi.json.new
	mv web/openapi.json.new web/openapi.json
	cd web && npm run --silent generate

# ---- long runs
bench: setup-tests web ## benchmarks, printed and in target/bench/summary.json
	cargo run -q --release $(LOCKED) -p weir-bench
soak: setup-tests web ## the long runs: tests named soak_*
	$(NEXTEST) --release --workspace --run-ignored ignored-only -E 'test(/(^|::)soak_/)'

# ---- cleaning
clean-dev: ## remove the data of `make dev`, wherever it went
	@sh scripts/clean_dev.sh
clean: ## remove what was built; keeps the data of `make dev` and ./.tools
	cargo clean
	rm -rf web/dist web/node_modules
