#!/bin/sh
# The cost of updates for an application: this project's clients in Rust and Python beside ETA Java's and lseg-data, by turns in one call; see README.md.
#     peers/clients/run.sh fields|python|lseg|provider|all [TURNS] [SECONDS] [ITEMS]
set -eu
part=${1:-all}
turns=${2:-3}
seconds=${3:-4}
items=${4:-10000}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
work=$(mktemp -d)
trap 'kill $(cat "$work"/*.pid 2>/dev/null) 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

quoteway=${QUOTEWAY_BIN:-$target/release/quoteway}
[ -x "$quoteway" ] || (cd "$root" && cargo build --release -p quoteway)
consume=${QUOTEWAY_CONSUME:-}
if [ -z "$consume" ]; then
    (cd "$root" && cargo bench -p client-io --bench consume --no-run)
    consume=$(ls -t "$target"/release/deps/consume-* | grep -v '\.d$' | head -1)
fi
# An interpreter that has the module, and one that has lseg-data 2.1.1.
python=${QUOTEWAY_PYTHON:-$root/python/target/venv/bin/python}
lseg=${QUOTEWAY_LSEG_PYTHON:-$root/target/interop-python/bin/python}
dictionary=${QUOTEWAY_DICTIONARY:-$root/../shared/dictionary}
updates=${QUOTEWAY_DATA:-$root/../shared/data}/rtsdk/MsgData.xml

# The source has one processor, the consumer the other: `taskset` becomes the program, so that its number is the program's.
source_on='taskset -c 0'
consumer_on='taskset -c 1'

start() { # file for the output, pattern of the line that says the port, command: waits for that line
    log=$1 pattern=$2
    shift 2
    : > "$log"
    $source_on "$@" > "$log" 2>&1 < /dev/null &
    started=$!
    echo "$started" >> "$work/started.pid"
    until port=$(sed -n "$pattern" "$log") && [ -n "$port" ]; do
        kill -0 "$started" || { cat "$log"; exit 1; }
    done
}
end() {
    kill "$1"
    wait "$1" 2> /dev/null || true
}
publish() { # rate: the source, of the updates of the SDK's performance tools: 13 fields each
    start "$work/source" 's/.*published on [^:]*:\([0-9]*\);.*/\1/p' \
        "$quoteway" sink-driven-src --bind 127.0.0.1 -N 0 -K -c -tcpnodel -U "$1" -I 3600 -Q "$updates" --dictionary "$dictionary"
    source=$started
}
said() { # name, command
    printf '%-24s ' "$1"
    shift
    $consumer_on "$@"
}
ours() { # how
    publish max
    said "Rust, $1" "$consume" "$1" "127.0.0.1:$port" "$items" 1 "$seconds"
    end "$source"
}
python() { # how
    publish max
    said "Python, $1" "$python" "$here/consume.py" "$1" "127.0.0.1:$port" "$items" 1 "$seconds"
    end "$source"
}
eta() {
    publish max
    said "ETA Java" "$root/interop/bench/run" fields "$port" "${QUOTEWAY_SERVICE_ID:-1}" "$items" 4 "$seconds" "$dictionary/RDMFieldDictionary"
    end "$source"
}
lseg_data() { # updates a second: as many as it keeps up with, by JSON from a server
    publish "$1"
    start "$work/serve" 's/^ready .*:\([0-9]*\).*/\1/p' \
        "$quoteway" serve --route "127.0.0.1:$port" --interface 127.0.0.1 --rssl-port 0 --nip-port 0 --http-port off
    said "lseg-data, $1 a second" "$lseg" "$here/consume.py" lseg "127.0.0.1:$port" "${2:-$items}" 2 "$seconds"
    end "$started"
    end "$source"
}
provider() {
    mkfifo "$work/input"
    $source_on "$consume" provide "$items" < "$work/input" > "$work/provider" &
    providing=$!
    echo "$providing" >> "$work/started.pid"
    exec 3> "$work/input"
    until port=$(sed -n 's/^ready .*:\([0-9]*\)$/\1/p' "$work/provider") && [ -n "$port" ]; do
        kill -0 "$providing" || exit 1
    done
    for _ in 1 2; do
        said "Rust, session" "$consume" session "127.0.0.1:$port" "$items" 1 "$seconds" &
        echo $! >> "$work/consumers"
    done
    for consumer in $(cat "$work/consumers"); do
        wait "$consumer"
    done
    exec 3>&-
    wait "$providing" || true
    printf '%-24s ' "provider"
    sed 1d "$work/provider"
    rm "$work/input" "$work/consumers"
}

turn=0
while [ "$turn" -lt "$turns" ]; do
    turn=$((turn + 1))
    case $part in fields | all)
        eta
        ours connection
        ours session
        ;;
    esac
    case $part in python | all)
        for how in arrow arrow2 objects dicts callback async; do
            python "$how"
        done
        ;;
    esac
    case $part in lseg | all)
        lseg_data "${QUOTEWAY_LSEG_RATE:-2000}"
        ;;
    esac
    case $part in provider | all)
        provider
        ;;
    esac
done
