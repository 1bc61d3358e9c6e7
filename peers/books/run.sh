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
work=$(pwd)

get() { # OWNER/NAME COMMIT [FOLDER...]: what is there already, from wherever, is used; of large ones the folders that are compiled
    name=${1#*/} commit=$2
    [ -d "$name" ] || git clone -q --no-checkout "https://github.com/$1.git" "$name"
    shift 2
    [ $# = 0 ] || git -C "$name" sparse-checkout set "$@"
    git -C "$name" checkout -qf "$commit"
}
get charles-cooper/itch-order-book 095ac97ef46c72411a62dd9148d96d2e3ace3305
get chronoxor/CppTrader 99e579988b3634fac3c00cb29bc78bbc921c1f5b include source performance
get chronoxor/CppCommon e14011974b8d463cc854239bf351275b5a857de6 include

(cd "$root" && cargo build --release -p venue --bench itch)
ours=$(ls -t "${CARGO_TARGET_DIR:-$root/target}"/release/deps/itch-* | grep -v '\.d$' | head -1)
day=$work/day-$messages.itch
[ -s "$day" ] || "$ours" write "$day" "$messages" | tee "$day.txt"
cat "$day.txt"
highest=$(sed 's/.*highest order number \([0-9]*\).*/\1/' "$day.txt")

# All read a megabyte at a time, and both peers have room for the day's numbers of orders and no more.
sed -e 's/buf_t buf(1024)/buf_t buf(1 << 20)/' -e "s/184118975 \* 2/$highest/" itch-order-book/main.cpp > itch-order-book/day.cpp
g++ -O3 -march=native -std=c++1y -w itch-order-book/day.cpp itch-order-book/bufferedreader.cpp -o itch_order_book
# Its optimised manager takes the price of a new order and does not keep it: all that are added stand at price 0, one level a side. `priced` keeps it.
priced='/order_ptr->Side = side;/{n;s/order_ptr->Quantity = quantity;/& order_ptr->Price = price;/}'
for program in itch_handler market_manager_optimized market_manager_optimized_priced market_manager_optimized_aggressive; do
    case $program in *_priced) change=$priced ;; *) change= ;; esac
    sed -e 's/uint8_t buffer\[8192\]/static uint8_t buffer[1048576]/' -e "s/300000000/$highest + 1/" -e "$change" \
        "CppTrader/performance/${program%_priced}.cpp" > "CppTrader/$program.cpp"
    g++ -O3 -march=native -std=c++20 -w -DNDEBUG -I"$here/shims" -ICppTrader/include -ICppCommon/include "CppTrader/$program.cpp" \
        CppTrader/source/trader/providers/nasdaq/itch_handler.cpp -o "$program"
done

# Both peers make their tables before their clock starts, and ours have memory then, too, by `ready`: for the orders that stand at the most.
most=$(sed 's/.*at most \([0-9]*\) orders.*/\1/' "$day.txt")
printf '#!/bin/sh\nexec "%s" "$@" %s\n' "$ours" "$most" > ready
chmod +x ready
"$here/turns.sh" "$day" "$turns" "parse=$ours" "itch_handler=$work/itch_handler" \
    "levels=$ours" "levels:ready=$work/ready" "itch_order_book=$work/itch_order_book" \
    "books=$ours" "books:ready=$work/ready" "market_manager:priced=$work/market_manager_optimized_priced" \
    "market_manager:as-it-comes=$work/market_manager_optimized" "market_manager:aggressive=$work/market_manager_optimized_aggressive"
