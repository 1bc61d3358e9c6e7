#!/usr/bin/env bash
# Runs every test and ends with their count: Rust first, then the real SDK against the release binary.
set -euo pipefail
cd "$(dirname "$0")/.."

need() { # command, Debian package
    command -v "$1" >/dev/null && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$2" >/dev/null && return
    fi
    echo "make test needs $1 (Debian: $2) for the tests against EMA and ETA Java; install it or run 'make test-rust'" >&2
    exit 1
}
need cargo cargo
need cc gcc
need javac openjdk-17-jdk-headless
need mvn maven

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
cargo build --release --package quoteway
cargo test --workspace 2>&1 | tee "$log" || status=1
if [ "$status" = 0 ]; then
    QUOTEWAY_BIN="$PWD/target/release/quoteway" mvn -B -f interop/pom.xml test 2>&1 | tee -a "$log" || status=1
fi

# cargo: "test result: ok. 12 passed; 0 failed; ..."; surefire's total: "Tests run: 12, Failures: 0, Errors: 0, Skipped: 0" at a line's end.
awk '
    /^test result:/ { passed += $4; failed += $6 }
    /Tests run: [0-9]+, Failures: [0-9]+, Errors: [0-9]+, Skipped: [0-9]+$/ {
        gsub(",", ""); for (i = 1; i < NF; i++) { if ($i == "run:") r = $(i+1); if ($i == "Failures:") f = $(i+1); if ($i == "Errors:") e = $(i+1); if ($i == "Skipped:") s = $(i+1) }
        jp = r - f - e - s; jf = f + e; js = s
    }
    END { printf "%d passed, %d failed, %d skipped\n", passed + jp, failed + jf, js }
' "$log"
exit "$status"
