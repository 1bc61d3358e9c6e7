#!/bin/sh
# Books of a generated day of Nasdaq TotalView-ITCH beside itch-order-book and CppTrader, by turns in one call; see README.md.
#     peers/books/run.sh [MESSAGES] [TURNS] [FOLDER]
set -eu
messages=${1:-50000000}
turns=${2:-5}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=${3:-$root/target/peers/books}
mkdir -p "$work"
cd "$work"

get() { # OWNER/NAME COMMIT
    name=${1#*/}
    [ -d "$name" ] || git clone -q "https://github.com/$1.git" "$name"
    git -C "$name" checkout -q "$2"
}
get charles-cooper/itch-order-book 095ac97ef46c72411a62dd9148d96d2e3ace3305
get chronoxor/CppTrader 99e579988b3634fac3c00cb29bc78bbc921c1f5b
get chronoxor/CppCommon e14011974b8d463cc854239bf351275b5a857de6

(cd "$root" && cargo build --release -p venue --bench itch)
ours=$(ls -t "${CARGO_TARGET_DIR:-$root/target}"/release/deps/itch-* | grep -v '\.d$' | head -1)
day=$work/day-$messages.itch
[ -s "$day" ] || "$ours" write "$day" "$messages" | tee "$day.txt"
cat "$day.txt"
highest=$(sed 's/.*highest order number \([0-9]*\).*/\1/' "$day.txt")

# All read a megabyte at a time, and both peers have room for the day's numbers of orders and no more.
sed -e 's/buf_t buf(1024)/buf_t buf(1 << 20)/' -e "s/184118975 \* 2/$highest/" itch-order-book/main.cpp > itch-order-book/day.cpp
g++ -O3 -march=native -std=c++1y -w itch-order-book/day.cpp itch-order-book/bufferedreader.cpp -o itch_order_book
for program in itch_handler market_manager_optimized market_manager_optimized_aggressive; do
    sed -e 's/uint8_t buffer\[8192\]/static uint8_t buffer[1048576]/' -e "s/300000000/$highest + 1/" \
        "CppTrader/performance/$program.cpp" > "CppTrader/$program.cpp"
    g++ -O3 -march=native -std=c++20 -w -DNDEBUG -I"$here/shims" -ICppTrader/include -ICppCommon/include "CppTrader/$program.cpp" \
        CppTrader/source/trader/providers/nasdaq/itch_handler.cpp -o "$program"
done

each() { # what: nanoseconds a message, by the clock
    printf '%-44s %s ns\n' "$1" "$2"
}
peer() { # name of a program of CppTrader
    each "CppTrader $1" "$("./$1" -i "$day" | sed -n 's/^ITCH message latency: \([0-9]*\) ns/\1/p')"
}
cat "$day" > /dev/null
turn=0
while [ "$turn" -lt "$turns" ]; do
    turn=$((turn + 1))
    "$ours" parse "$day"
    peer itch_handler
    "$ours" levels "$day"
    each itch-order-book "$(./itch_order_book < "$day" | sed -n 's/.* nanos , \([0-9.]*\) nanos per packet.*/\1/p')"
    "$ours" books "$day"
    peer market_manager_optimized
    peer market_manager_optimized_aggressive
done
