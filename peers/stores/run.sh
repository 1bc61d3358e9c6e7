#!/bin/sh
# Stores of LBM beside receivers without one, by turns in one call for each transport; see README.md.
#     peers/stores/run.sh [tcp|small|lbtrm|lbtipc|queues|jetstream|all] [SECONDS] [ROUNDS] [BYTES] [FOLDER]
set -eu
part=${1:-all}
seconds=${2:-1}
rounds=${3:-3}
bytes=${4:-700}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
folder=${5:-$work}

example() { # package, name, variable that names a program which is built already
    program=$(eval "printf %s \"\${$3:-}\"")
    if [ -z "$program" ]; then
        (cd "$root" && cargo build --release -p "$1" --example "$2")
        program=$target/release/examples/$2
    fi
}
rates() { # transport, cases, options
    printf '%b' "$3" > "$work/options"
    "$rates" seconds="$seconds" rounds="$rounds" bytes="$bytes" folder="$folder" transport="$1" cases="$2" options="$work/options"
}
wanted() {
    [ "$part" = all ] || [ "$part" = "$1" ]
}

if [ "$part" != queues ] && [ "$part" != jetstream ]; then
    example lbm-store-io rates QUOTEWAY_RATES
    rates=$program
fi
if wanted tcp; then
    echo "LBT-TCP"
    rates tcp abcdefgh ''
fi
# Messages under way stay in the processors' caches.
if wanted small; then
    echo "LBT-TCP, receive buffers of 1 MB"
    rates tcp abcdefgh 'context transport_tcp_receiver_socket_buffer 1048576\n'
fi
if wanted lbtrm; then
    echo "LBT-RM"
    rates lbtrm abcdefgh ''
fi
# The source waits for its readers.
if wanted lbtipc; then
    echo "LBT-IPC"
    rates lbtipc abcdeg 'source transport_lbtipc_behavior receiver_paced\n'
fi
if wanted queues; then
    example lbm-queue-io shares QUOTEWAY_SHARES
    echo "queues, LBT-TCP"
    "$program" "$seconds" "$rounds" "$bytes" 8
fi
if wanted jetstream && ! command -v go > /dev/null; then
    echo "no Go: JetStream is left out (https://go.dev/doc/install)" >&2
elif wanted jetstream; then
    "$root/scripts/nats-server.sh" "$target/peers"
    cp -r "$here/jetstream" "$work"
    (cd "$work/jetstream" && go mod tidy 2> /dev/null && go build -o ../jetstream-peer .)
    echo "JetStream"
    round=0
    while [ "$round" -lt "$rounds" ]; do
        round=$((round + 1))
        for replicas in 1 3; do
            for storage in memory file; do
                "$work/jetstream-peer" "$target/peers/nats-server" "$folder/streams" "$seconds" "$bytes" "$storage" "$replicas"
                rm -rf "$folder/streams"
            done
        done
    done
fi
