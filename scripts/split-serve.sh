#!/usr/bin/env bash
# `quoteway serve` as two processes: a stand-in for the binary that starts a source-distributor and a p2ps, joined by TCP, and says
# `ready` as serve does. Everything that drives serve can be run against it:
#   QUOTEWAY_SPLIT=target/release/quoteway QUOTEWAY_BIN="$PWD/scripts/split-serve.sh" mvn -f interop/pom.xml test
# QUOTEWAY_HUB_TRANSPORT=lbt-rm (lbt-ru, lbt-tcp, lbt-ipc) joins them by LBM over the loopback.
set -uo pipefail
quoteway=${QUOTEWAY_SPLIT:?names the quoteway binary}
if [ "${1:-}" != serve ]; then exec "$quoteway" "$@"; fi
shift

distributor=() p2ps=() config=""
while [ $# -gt 0 ]; do
    case $1 in
        --route | --nip-port) distributor+=("$1" "$2"); shift 2 ;;
        --rssl-port | --shards) p2ps+=("$1" "$2"); shift 2 ;;
        --interface) distributor+=("$1" "$2"); p2ps+=("$1" "$2"); shift 2 ;;
        --config) config=$2; shift 2 ;;
        --http-port) shift 2 ;; # Operators ask one process: here they would be two.
        *) echo "split-serve: $1 is not known here" >&2; exit 2 ;;
    esac
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The hub's part goes behind whatever the file says; times are short, as tests want them.
{
    if [ -n "$config" ]; then awk '/^\[/ { hub = ($0 == "[hub]") } !hub' "$config"; fi
    printf '\n[hub]\nname = "split-%s"\ntransport = "%s"\nheartbeat_interval_ms = 200\npeer_timeout_ms = 2000\ninterface = "127.0.0.1"\nlease_ms = 0\n' \
        "$$" "${QUOTEWAY_HUB_TRANSPORT:-tcp}"
    # Many of these may run at a time: any port will do.
    pools=""
    for pool in "context transport_lbtrm_source_port" "context transport_lbtru_port" "receiver transport_lbtru_port" \
        "context transport_tcp_port" "context request_tcp_port"; do
        pools+="\"${pool}_low 0\", \"${pool}_high 0\", "
    done
    printf 'lbm_options = [%s]\n' "${pools%, }"
    if [ -n "$config" ]; then awk '/^\[/ { hub = ($0 == "[hub]"); next } hub' "$config"; fi
} > "$folder/quoteway.toml"

# Children end with this process, whatever ends it.
start() { exec setpriv --pdeathsig KILL "$quoteway" "$@" --config "$folder/quoteway.toml"; }
# The first line of a process, with what it was waited for.
first() { for _ in $(seq 200); do [ -s "$1" ] && { head -n 1 "$1"; return; }; sleep 0.05; done; }

start source-distributor --hub-port 0 "${distributor[@]}" > "$folder/distributor" & pids=($!)
line=$(first "$folder/distributor")
nip=$(sed -n 's/.* nip=\([^ ]*\).*/\1/p' <<< "$line")
hub=$(sed -n 's/.* hub=\([^ ]*\).*/\1/p' <<< "$line")
[ -n "$hub" ] || { kill "${pids[@]}" 2> /dev/null; exit 1; }
start p2ps --source-distributor "$hub" "${p2ps[@]}" > "$folder/p2ps" & pids+=($!)
line=$(first "$folder/p2ps")
[ -n "$line" ] || { kill "${pids[@]}" 2> /dev/null; exit 1; }

trap 'kill "${pids[@]}" 2> /dev/null' TERM INT
echo "ready rssl=$(sed -n 's/.* rssl=\([^ ]*\).*/\1/p' <<< " $line" | head -n 1) nip=$nip$(sed -n 's/.*\( encrypted=[^ ]*\).*/\1/p' <<< "$line")"
wait -n "${pids[@]}"
kill "${pids[@]}" 2> /dev/null
wait "${pids[@]}" 2> /dev/null
exit 0
