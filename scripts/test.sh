#!/usr/bin/env bash
# Runs every test and ends with their count. Everything is built once; then the test programs run beside the real SDK's tests and
# the examples of the documentation, because most of them wait for processes, timers and partitions. The SDK meets the same
# binary as the Rust tests, with its assertions; `make test-interop` gives it the release binary.
set -euo pipefail
cd "$(dirname "$0")/.."

need() { # command, Debian package
    command -v "$1" >/dev/null && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$2" >/dev/null && return
    fi
    echo "make test needs $1 (Debian: $2): it checks against EMA and ETA Java, Wireshark and Prometheus, and between hosts made of network namespaces; install it" >&2
    exit 1
}
need cargo cargo
need cc gcc
need javac openjdk-17-jdk-headless
need mvn maven
need tshark tshark
need ip iproute2
need nft nftables
need python3 python3
need node nodejs
need npm npm
need promtool prometheus
need curl curl
need jq jq
need tcpdump tcpdump
need openssl openssl

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
# With partitions of 70 s, too: topic resolution has gone quiet by then.
export QUOTEWAY_LONG=1 logs
# Seconds for each program, so that one which hangs is a failure with its output: the longest takes ten minutes on two processors.
export limit=${QUOTEWAY_TEST_LIMIT:-2400}
cores=$(nproc)
free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')
[ -d target/debug/deps ] || [ "$free" -ge 12 ] || echo "make test builds some 10 GB (5 with CARGO_INCREMENTAL=0) and $free GB are free here" >&2

cargo test --workspace --no-run --message-format=json-render-diagnostics >"$logs/built.json"
# A line each: the folder of the package, the program. Those that take longest begin.
sed -n 's|.*"manifest_path":"\([^"]*\)/Cargo\.toml".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\1 \2|p' "$logs/built.json" \
    | awk '{ print ($1 ~ /quoteway$/ && $2 ~ /all-/) ? 0 : ($1 ~ /sim$/) ? 1 : ($1 ~ /hub(-distributor|-p2ps)?$/) ? 2 : 3, $1, $2 }' | sort -s -k1,1n | cut -d' ' -f2- \
    >"$logs/programs"
[ "$(wc -l <"$logs/programs")" -ge 10 ] || { echo "cargo names too few test programs" >&2; exit 1; }

report() { # name, exit code, log: one thing's output at once
    { flock 9; printf '\n== %s\n' "$1"; cat "$3"; } 9>"$logs/lock"
    case $2 in 124 | 137) printf 'error: %s had not ended after %s s and was stopped; see which test "has been running" above\n' "$1" "$limit" | tee -a "$3" ;; esac
    [ "$2" = 0 ] || echo "$1" >>"$logs/failed"
}
run_program() { # threads, folder, program
    local name log code=0
    name="$(basename "$2") $(basename "$3")"
    log="$logs/$(basename "$3").log"
    (cd "$2" && RUST_TEST_THREADS=${RUST_TEST_THREADS:-$1} timeout --foreground -k 10 "$limit" "$3") >"$log" 2>&1 || code=$?
    report "$name" "$code" "$log"
}
run() { # name, command...
    local name=$1 code=0
    shift
    timeout --foreground -k 10 "$limit" bash -c '"$@"' "$name" "$@" >"$logs/$name.log" 2>&1 || code=$?
    report "$name" "$code" "$logs/$name.log"
}
websocket() {
    # Kept between runs: lseg-data brings numpy and pandas.
    local venv=target/interop-python node=target/interop-node
    export QUOTEWAY_NODE_MODULES="$PWD/$node/node_modules"
    { [ -x "$venv/bin/python" ] || python3 -m venv "$venv"; } \
        && "$venv/bin/pip" -q install websocket-client==1.9.2 websockets==17.4 pyjwt==2.15.1 zstandard==0.25.0 cryptography==50.0.2 \
            lseg-data==2.1.1 refinitiv-data==1.6.2 openapi-spec-validator==0.7.1 pyte==0.8.2 \
        && npm install --silent --no-audit --no-fund --prefix "$node" ws@8.18.3 \
        && "$venv/bin/python" interop/websocket/test_websocket.py
}
browser() {
    # The packages that the tests of WebSocket clients installed.
    command -v chromium >/dev/null || { [ "$(id -u)" = 0 ] && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } || true
    target/interop-python/bin/python interop/browser/test_page.py
}
terminal() {
    target/interop-python/bin/python interop/terminal/test_demo.py
}
export -f report run_program websocket browser terminal

run documentation cargo test --workspace --doc &
run documents python3 scripts/documents.py check
export QUOTEWAY_BIN="$PWD/target/debug/quoteway"
{ run websocket websocket; run browser browser; run terminal terminal; } &
run snippets python3 interop/test_snippets.py &
run interop mvn -B -q -Dstyle.color=never -f interop/pom.xml test &
# Tests between processes wait more than they compute: more of them than cores run at once.
awk -v cores="$cores" '{ print ($1 ~ /(quoteway|lbm-io)$/) ? 3 * cores : cores, $0 }' "$logs/programs" \
    | xargs -P "$cores" -L 1 bash -c 'run_program "$@"' run_program || true
wait

# What failed, once more and last: whoever reads only the end of the output has to find it there.
if [ -s "$logs/failed" ]; then
    while read -r name; do
        log="$logs/${name##* }.log"
        printf '\n== failed: %s\n' "$name"
        # cargo's closing section (what each failed test printed), else the lines in which Maven, Python and the tests name a fault.
        sed -n '/^failures:$/,$p' "$log" | head -n 120 | grep . \
            || { grep -aE -A 12 '^\[ERROR\]|^(FAIL|ERROR): |FAILED|^failed|[Aa]ssertion.*(Error|Failed)' "$log" || tail -n 30 "$log"; } | head -n 120 || true
    done <"$logs/failed"
fi

# cargo: "test result: ok. 12 passed; 0 failed; ..."; interop: "interop: 12 passed, 0 failed, 0 skipped".
sed 's/\x1b\[[0-9;]*m//g' "$logs"/*.log | awk '
    /^test result:/ { passed += $4; failed += $6; skipped += $8 }
    /^interop:/ { passed += $2; failed += $4; skipped += $6 }
    END { printf "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped }
'
if [ -s "$logs/failed" ]; then
    printf 'failed: %s\n' "$(paste -sd, "$logs/failed")" >&2
    exit 1
fi
