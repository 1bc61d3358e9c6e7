#!/usr/bin/env bash
# As-of joins of trades and quotes in which several quotes have the same nanosecond: DuckDB 2.0.1 beside polars 2.1.0, pandas 3.1.1 and pyarrow 26.0.1.
#
# Guess: where times are equal the last row wins, as in the other three; or it is left open, and then a query of the same rows gives the same row.
# Seen: polars, pandas and pyarrow take the last of the equal quotes. DuckDB takes the first of them where up to 63 trades ask and the last where 64 or
# more do, for inner and left joins, with and without a key of items, on one thread and on four: there are two implementations, and the setting
# `asof_loop_join_threshold` (64) chooses. A query that is tried with a few trades gives each of them another quote than the same query of the whole day.
# With the setting at 0 the last row is taken for any number, in the order in which the rows were written.
# What follows: a recording carries a sequence number, and whoever joins takes the last row of each (item, time) beforehand; time alone chooses no quote.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install duckdb==2.0.1 polars==2.1.0 pandas==3.1.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import duckdb
import pandas
import polars
import pyarrow

AT = 1_700_000_000_000_000_000
NS = pyarrow.timestamp("ns")
quotes = pyarrow.table({"item": ["A"] * 3, "at": pyarrow.array([AT] * 3, NS), "seq": ["first", "second", "last"]})


def trades_of(number):
    """Trades of one item, a nanosecond apart, the first of them at the time of the quotes."""
    return pyarrow.table({"item": ["A"] * number, "at": pyarrow.array([AT + i for i in range(number)], NS)})


def by_duckdb(trades, join, key, threads, threshold=None):
    with duckdb.connect() as connection:
        connection.execute(f"set threads = {threads}")
        if threshold is not None:
            connection.execute(f"set asof_loop_join_threshold = {threshold}")
        rows = connection.execute(f"select q.seq, count(*) from trades t {join} quotes q on {key} t.at >= q.at group by 1").fetchall()
    ((seq, count),) = rows
    assert count == len(trades), rows
    return seq


seen = {}
for number in (1, 63, 64, 1000):
    trades = trades_of(number)
    ways = [(join, key, threads) for join in ("asof join", "asof left join") for key in ("", "t.item = q.item and") for threads in (1, 4)]
    default = {by_duckdb(trades, *way) for way in ways}
    at_zero = {by_duckdb(trades, *way, threshold=0) for way in ways}
    others = {
        "polars": set(polars.from_arrow(trades).join_asof(polars.from_arrow(quotes), on="at")["seq"]),
        "pandas": set(pandas.merge_asof(trades.to_pandas(), quotes.to_pandas(), on="at")["seq"]),
        "pyarrow": set(trades.join_asof(quotes, on="at", by="item", tolerance=-10_000)["seq"].to_pylist()),
    }
    assert all(value == {"last"} for value in others.values()), others
    seen[number] = (default, at_zero)
    print(f"{number} trades: DuckDB {default}, with the threshold at 0 {at_zero}, the others", others)

assert seen == {
    1: ({"first"}, {"last"}),
    63: ({"first"}, {"last"}),
    64: ({"last"}, {"last"}),
    1000: ({"last"}, {"last"}),
}, seen
print("as it was")
PYTHON
