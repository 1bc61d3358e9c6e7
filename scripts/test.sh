#!/usr/bin/env bash
# Runs every test and ends with their count: Rust first, then the real SDK against the release binary.
set -euo pipefail
cd "$(dirname "$0")/.."

need() { # command, Debian package
    command -v "$1" >/dev/null && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$2" >/dev/null && return
    fi
    echo "make test needs $1 (Debian: $2): it checks against EMA and ETA Java, against Wireshark and between hosts made of network namespaces; install it" >&2
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

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
cargo build --release --package quoteway
# With partitions of 70 s, too: topic resolution has gone quiet by then.
QUOTEWAY_LONG=1 cargo test --workspace 2>&1 | tee "$log" || status=1
if [ "$status" = 0 ]; then
    QUOTEWAY_BIN="$PWD/target/release/quoteway" mvn -B -q -Dstyle.color=never -f interop/pom.xml test 2>&1 | tee -a "$log" || status=1
fi

if [ "$status" = 0 ]; then
    # Kept between runs: lseg-data brings numpy and pandas.
    venv=target/interop-python
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" -q install websocket-client==1.9.2 lseg-data==2.1.1
    QUOTEWAY_BIN="$PWD/target/release/quoteway" "$venv/bin/python" interop/websocket/test_websocket.py 2>&1 | tee -a "$log" || status=1
fi

# cargo: "test result: ok. 12 passed; 0 failed; ..."; interop: "interop: 12 passed, 0 failed, 0 skipped".
sed 's/\x1b\[[0-9;]*m//g' "$log" | awk '
    /^test result:/ { passed += $4; failed += $6; skipped += $8 }
    /^interop:/ { passed += $2; failed += $4; skipped += $6 }
    END { printf "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped }
'
exit "$status"
