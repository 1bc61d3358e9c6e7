#!/usr/bin/env bash
# Every figure of docs/perf, beside its floor and its peers in the same run: ./scripts/bench.sh [lab's arguments]
# Needs the release binaries (`make bench` builds them). The peers need JDK 17 and Maven; without them their columns stay empty.
set -euo pipefail
cd "$(dirname "$0")/.."

lab=${QUOTEWAY_LAB:-target/release/quoteway-lab}
[ -x "$lab" ] || { echo "no $lab: run 'make build-lab' first, or name one in QUOTEWAY_LAB; QUOTEWAY_BIN names the product it measures" >&2; exit 1; }

if command -v mvn >/dev/null && command -v java >/dev/null; then
    for pair in bench codec-bench; do
        if [ ! -d "interop/$pair/target/classes" ] || [ -n "$(find "interop/$pair/src" "interop/$pair/pom.xml" -newer "interop/$pair/target/classes" -print -quit)" ]; then
            { mvn -q -B -f "interop/$pair/pom.xml" compile && touch "interop/$pair/target/classes"; } || echo "interop/$pair cannot be built: ETA Java is left out" >&2
        fi
    done
else
    echo "no JDK or Maven: ETA Java is left out" >&2
fi

exec "$lab" "$@"
