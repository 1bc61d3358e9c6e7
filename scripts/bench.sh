#!/usr/bin/env bash
# Every figure of docs/perf, beside its floor and its peers in the same run: ./scripts/bench.sh [lab's arguments]
# Needs the release binary (`make bench` builds it). The peers need JDK 17 and Maven; without them their columns stay empty.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=${QUOTEWAY_BINARY:-target/release/quoteway}
[ -x "$binary" ] || { echo "no $binary: run 'make build' first, or name one in QUOTEWAY_BINARY" >&2; exit 1; }

if command -v mvn >/dev/null && command -v java >/dev/null; then
    for pair in bench codec-bench; do
        if [ ! -d "interop/$pair/target/classes" ] || [ -n "$(find "interop/$pair/src" -newer "interop/$pair/target/classes" -print -quit)" ]; then
            { mvn -q -B -f "interop/$pair/pom.xml" compile && touch "interop/$pair/target/classes"; } || echo "interop/$pair cannot be built: ETA Java is left out" >&2
        fi
    done
else
    echo "no JDK or Maven: ETA Java is left out" >&2
fi

exec "$binary" lab "$@"
