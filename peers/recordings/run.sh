#!/bin/sh
# Recordings beside NATS JetStream, Chronicle Queue and Aeron Archive, by turns in one call on one disk; see README.md.
#     peers/recordings/run.sh [MILLIONS] [TURNS] [FOLDER]
set -eu
millions=${1:-2}
turns=${2:-3}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=${3:-$root/target/peers/recordings}
items=10000
messages=$((millions * 1000000))
mkdir -p "$work"
work=$(cd "$work" && pwd)

bench=${QUOTEWAY_RECORD_BENCH:-}
if [ -z "$bench" ]; then
    (cd "$root" && cargo bench -p record --bench write --no-run)
    bench=$(ls -t "${CARGO_TARGET_DIR:-$root/target}"/release/deps/write-* | grep -v '\.d$' | head -1)
fi
"$root/scripts/nats-server.sh" "$work"
cp -r "$here/jetstream" "$here/chronicle" "$here/aeron-archive" "$work"
(cd "$work/jetstream" && go mod tidy && go build -o ../jetstream-peer .)
[ -s "$work/chronicle.classpath" ] ||
    mvn -q -B dependency:build-classpath -f "$work/chronicle/pom.xml" -Dmdep.outputFile="$work/chronicle.classpath"
classes=$work/chronicle/classes:$(cat "$work/chronicle.classpath")
javac -d "$work/chronicle/classes" -cp "$classes" "$work/chronicle/Chronicle.java"
[ -s "$work/aeron.classpath" ] ||
    mvn -q -B dependency:build-classpath -f "$work/aeron-archive/pom.xml" -Dmdep.outputFile="$work/aeron.classpath"
aeron_classes=$work/aeron-archive/classes:$(cat "$work/aeron.classpath")
javac -d "$work/aeron-archive/classes" -cp "$aeron_classes" "$work/aeron-archive/AeronPeer.java"

# `ours NAME WORDS`: as the bench is told by the words.
ours() {
    name=$1
    shift
    rm -rf "$work/ours"
    "$bench" "$millions" "$items" "$@" "$work/ours" | sed -n "s/^\\(written\\|read\\|played\\) *\\([0-9.]*\\) M.*/ours, $name, \\1 \\2 M\\/s/p"
}

# What its documentation asks of a JVM from 17 on. Without the first property each start of a queue is told to Google.
chronicle() {
    java -Dchronicle.analytics.disable=true \
        --add-exports=java.base/jdk.internal.ref=ALL-UNNAMED --add-exports=java.base/sun.nio.ch=ALL-UNNAMED \
        --add-exports=jdk.compiler/com.sun.tools.javac.file=ALL-UNNAMED --add-opens=jdk.compiler/com.sun.tools.javac=ALL-UNNAMED \
        --add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.lang.reflect=ALL-UNNAMED \
        --add-opens=java.base/java.io=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED \
        --add-opens=java.base/sun.nio.ch=ALL-UNNAMED \
        -cp "$classes" Chronicle "$work/queue" "$messages" 2> "$work/chronicle.log"
}

# With a level of synchronisation, and with checksums or without.
aeron() {
    java --add-opens=java.base/sun.nio.ch=ALL-UNNAMED --add-opens=java.base/jdk.internal.misc=ALL-UNNAMED \
        --add-opens=java.base/java.util.zip=ALL-UNNAMED -cp "$aeron_classes" AeronPeer "$work/aeron" "$messages" "$@" 2> "$work/aeron.log"
}

jetstream() {
    "$work/nats-server" -a 127.0.0.1 -p -1 -js -sd "$work/streams" --ports_file_dir "$work" > "$work/nats.log" 2>&1 &
    server=$!
    ports=$work/nats-server_$server.ports
    while [ ! -s "$ports" ] && kill -0 "$server"; do :; done
    url=$(tr -d ' \n' < "$ports" | sed 's/.*"nats":\["\([^"]*\)".*/\1/')
    "$work/jetstream-peer" "$url" "$messages" "$items"
    kill "$server"
    wait "$server" || true
}

turn=0
while [ "$turn" -lt "$turns" ]; do
    turn=$((turn + 1))
    rm -rf "$work/streams" "$work/queue" "$work/aeron"
    ours packed long
    ours unpacked long unpacked
    ours opaque opaque
    jetstream | sed 's/^/JetStream /'
    chronicle | sed 's/^/Chronicle Queue /'
    aeron 0 | sed 's/^/Aeron Archive /'
    aeron 1 | sed 's/^/Aeron Archive, synchronised, /'
    aeron 0 checked | sed 's/^/Aeron Archive, with checksums, /'
done
rm -rf "$work/ours" "$work/streams" "$work/queue" "$work/aeron"
