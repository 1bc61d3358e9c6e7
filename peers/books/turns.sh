#!/bin/sh
# Programs that are built already read one day by turns; medians and ratios of each to its peer; see README.md.
#     peers/books/turns.sh DAY TURNS WHAT[:NAME]=PROGRAM...
# WHAT: parse, levels, books (this project's bench `itch`; NAME tells several builds apart), itch_handler, itch_order_book, market_manager (CppTrader's, any of them).
set -eu
day=$1
turns=$2
shift 2
results=$(mktemp)
trap 'rm -f "$results"' EXIT
trap 'exit 1' HUP INT TERM

nanoseconds() { # WHAT PROGRAM: of a message, by the clock
    case $1 in
    parse | levels | books) "$2" "$1" "$day" | sed -n 's/.*(\([0-9.]*\) ns by the clock).*/\1/p' ;;
    itch_order_book) "$2" < "$day" | sed -n 's/.* nanos , \([0-9.]*\) nanos per packet.*/\1/p' ;;
    itch_handler | market_manager) "$2" -i "$day" | awk '/^Processing time:/ { time = $3 } /^Total ITCH messages:/ { printf "%.1f\n", time / $4 }' ;;
    *) echo "unknown: $1" >&2; exit 1 ;;
    esac
}

cat "$day" > /dev/null
turn=0
while [ "$turn" -lt "$turns" ]; do
    turn=$((turn + 1))
    for one in "$@"; do
        each=$(nanoseconds "${one%%[:=]*}" "${one#*=}")
        [ -n "$each" ] || { echo "no figure of ${one%%=*}" >&2; exit 1; }
        echo "$turn ${one%%=*} $each" >> "$results"
    done
done

# Peers of one kind of ours each; the ratio is of rates, so that more than 1 is faster than the peer.
awk '
    { of[$2, $1] = $3; if ($1 > turns) turns = $1; if (!($2 in seen)) { seen[$2]; names[++count] = $2 } }
    function median(name, i, j, t, all) {
        for (i = 1; i <= turns; i++) all[i] = of[name, i]
        for (i = 2; i <= turns; i++) for (j = i; j > 1 && all[j - 1] > all[j]; j--) { t = all[j]; all[j] = all[j - 1]; all[j - 1] = t }
        lowest = all[1]
        return turns % 2 ? all[(turns + 1) / 2] : (all[turns / 2] + all[turns / 2 + 1]) / 2
    }
    function kind(name) { sub(/:.*/, "", name); return name }
    END {
        peer["parse"] = "itch_handler"; peer["levels"] = "itch_order_book"; peer["books"] = "market_manager"
        printf "%-32s %8s %8s   %s\n", "ns a message", "median", "lowest", "turns"
        for (n = 1; n <= count; n++) {
            middle[names[n]] = median(names[n])
            printf "%-32s %8.1f %8.1f  ", names[n], middle[names[n]], lowest
            for (i = 1; i <= turns; i++) printf " %.1f", of[names[n], i]
            print ""
        }
        for (n = 1; n <= count; n++) for (m = 1; m <= count; m++) if (kind(names[m]) == peer[kind(names[n])]) {
            least = most = of[names[m], 1] / of[names[n], 1]
            for (i = 2; i <= turns; i++) {
                r = of[names[m], i] / of[names[n], i]
                if (r < least) least = r
                if (r > most) most = r
            }
            printf "%s to %s: %.2f (single turns %.2f to %.2f)\n", names[n], names[m], middle[names[m]] / middle[names[n]], least, most
        }
    }' "$results"
