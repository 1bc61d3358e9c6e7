#!/bin/sh
# Unpaced replay to one client beside JetStream's instant replay, and Parquet out of the same recording, by turns in one call; see README.md.
#     peers/recordings/replay.sh [MILLIONS] [TURNS] [FOLDER]
set -eu
millions=${1:-4}
turns=${2:-3}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=${3:-$root/target/peers/recordings}
items=10000
mkdir -p "$work"
work=$(cd "$work" && pwd)
target=${CARGO_TARGET_DIR:-$root/target}

bench=${QUOTEWAY_RECORD_BENCH:-}
if [ -z "$bench" ]; then
    (cd "$root" && cargo bench -p record --bench write --no-run)
    bench=$(ls -t "$target"/release/deps/write-* | grep -v '\.d$' | head -1)
fi
quoteway=${QUOTEWAY:-}
if [ -z "$quoteway" ]; then
    (cd "$root" && cargo build --release -p quoteway)
    quoteway=$target/release/quoteway
fi
count=${QUOTEWAY_COUNT:-}
if [ -z "$count" ]; then
    (cd "$root" && cargo build --release -p omm-io --example count)
    count=$target/release/examples/count
fi
if [ "${JETSTREAM:-yes}" = yes ]; then
    "$root/scripts/nats-server.sh" "$work"
    cp -r "$here/jetstream" "$work"
    (cd "$work/jetstream" && go mod tidy && go build -o ../jetstream-peer .)
fi

# A recording of so many updates of 74 bytes, the same in every turn and every call.
if [ ! -d "$work/today" ]; then
    "$bench" "$millions" "$items" long "$work/today" > "$work/written.log"
fi

# `quarters COLUMN`: least, median and largest of the rates, M updates/s, the first and the last quarter of a second of each run left out.
quarters() {
    awk -v at="$1" '$at + 0 > 0 { print $at + 0 }' | sed '1d;$d' | sort -n |
        awk '{ all[NR] = $1 } END { if (NR) print all[1], all[int((NR + 1) / 2)], all[NR]; else print "too short" }'
}

# Seconds of processor of a process.
seconds() {
    awk -v tick="$(getconf CLK_TCK)" '{ print ($14 + $15) / tick }' "/proc/$1/stat"
}

# `replay NAME CLIENT`: plays to a client, whose lines go to a file, until all was played.
replay() {
    name=$1
    shift
    "$quoteway" replay "$work/today" --port 14017 --speed max --start-on-open "$items" --interval 0 2> "$work/replay.log" &
    server=$!
    until grep -q 'is replayed' "$work/replay.log" || ! kill -0 "$server" 2> "$work/gone.log"; do :; done
    "$@" > "$work/client.log" 2>&1 &
    client=$!
    until grep -q 'replay is over' "$work/replay.log" || ! kill -0 "$client" 2> "$work/gone.log"; do sleep 0.05; done
    echo "$name: replay used $(seconds $server) s, its client $(seconds $client) s of processor for $millions M"
    kill -INT "$client" "$server"
    wait "$client" "$server" || true
}

jetstream() {
    rm -rf "$work/streams"
    "$work/nats-server" -a 127.0.0.1 -p -1 -js -sd "$work/streams" --ports_file_dir "$work" > "$work/nats.log" 2>&1 &
    server=$!
    ports=$work/nats-server_$server.ports
    while [ ! -s "$ports" ] && kill -0 "$server"; do :; done
    url=$(tr -d ' \n' < "$ports" | sed 's/.*"nats":\["\([^"]*\)".*/\1/')
    "$work/jetstream-peer" "$url" 1000000 "$items" | sed 's/^/JetStream /'
    kill "$server"
    wait "$server" || true
    rm -rf "$work/streams"
}

parquet() {
    rm -rf "$work/tables"
    times=$( { bash -c "TIMEFORMAT='%U %S'; time '$quoteway' record export '$work/today' --as parquet -o '$work/tables' > '$work/export.log' 2>&1"; } 2>&1)
    rows=$(sed -n 's/^\([0-9]*\) rows in.*/\1/p' "$work/export.log")
    echo "$times" | awk -v rows="$rows" '{ print "Parquet: " rows " rows, " $1 + $2 " s of processor, " rows / ($1 + $2) / 1e6 " M rows/s a processor" }'
    echo "Parquet: $(du -sk "$work/tables" | cut -f 1) KB"
}

turn=0
while [ "$turn" -lt "$turns" ]; do
    turn=$((turn + 1))
    replay 'to one that counts' "$count" 127.0.0.1:14017 FEED 'ITEM*.N' "$items"
    echo "to one that counts, M updates/s, least, median, most: $(quarters 1 < "$work/client.log")"
    replay 'to test-client' "$quoteway" test-client -p 14017 -S FEED -il "ITEM{0..$((items - 1))}.N" --interval 0.25 --seconds 60
    echo "to test-client, updates/s, least, median, most: $(quarters 2 < "$work/client.log")"
    parquet
    [ "${JETSTREAM:-yes}" != yes ] || jetstream
done
rm -rf "$work/tables"
