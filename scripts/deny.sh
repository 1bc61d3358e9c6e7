#!/usr/bin/env bash
# Licences, wildcards and sources of all dependencies by deny.toml, and advisories where there is a database of them
# (`cargo deny fetch`). Without cargo-deny nothing is checked here and that is said: `make test` checks licences and sources by itself
# (crates/quoteway/tests/all/tidy.rs), and `make deny` insists.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cargo deny --version >/dev/null 2>&1; then
    echo "lint: cargo-deny is not installed, so bans and advisories are not checked (cargo install --locked cargo-deny)" >&2
    exit 0
fi
checks=(licenses bans sources)
if compgen -G "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs/*/.git" >/dev/null; then
    checks+=(advisories)
else
    echo "lint: there is no database of advisories, so they are not checked (cargo deny fetch)" >&2
fi
# Duplicate versions are warnings: `make deny` shows them, and where they come from.
cargo deny --workspace --log-level error check --hide-inclusion-graph "${checks[@]}"
