#!/usr/bin/env bash
# The last quote of a minute where a side was withdrawn, by pandas 3.1.1, pyarrow 26.0.1, DuckDB 2.0.1 and polars 2.1.0.
#
# Guess: "last" is the value of the last row, blank if the side was withdrawn there, and it is the same in all four; at most the name differs.
# Seen: the four go two ways, and DuckDB both. `resample().last()`, `groupby().last()` and `ohlc()` of pandas, `("bid", "last")` of pyarrow and
# `arg_max(bid, ts)` of DuckDB pass blanks over: a bid that was withdrawn is the bar's close, as if it still stood. `last()` of polars, `last(bid order
# by ts)` and `arg_max_null` of DuckDB, pandas' `last(skipna=False)` and pyarrow's `skip_nulls=False` give the blank. "first" does the same at the other
# end. Each column is searched by itself, so that bid and ask of one bar may be of two moments: here a bid of 10.30 that was gone before the ask came down to
# 10.20 makes a spread of -0.10, of a market that was never crossed. `ohlc()` cannot be told otherwise.
# What follows: a bar's close is taken by row (the last row, then its columns), or the switch is set; whoever wants the last value that was there says so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install duckdb==2.0.1 polars==2.1.0 pandas==3.1.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import duckdb
import polars
import pyarrow
import pyarrow.compute

SECOND = 1_000_000_000
# Best quotes of one minute: the bid of 10.30 is withdrawn, then the ask comes down.
rows = [(0, 10.30, 10.40), (20 * SECOND, None, 10.40), (40 * SECOND, None, 10.20)]
ts, bid, ask = zip(*rows)
quotes = pyarrow.table({
    "ts": pyarrow.array(ts, pyarrow.timestamp("ns")), "minute": [0] * len(rows),
    "bid": pyarrow.array(bid, pyarrow.float64()), "ask": pyarrow.array(ask, pyarrow.float64()),
})
# The same backwards, for "first": no bid yet at the beginning.
opening = quotes.take([2, 1, 0]).set_column(0, "ts", quotes["ts"])


def of_pandas(table, how):
    frame = table.to_pandas().set_index("ts")["bid"]
    value = {
        "resample": lambda: frame.resample("1min").agg(how), "ohlc": lambda: frame.resample("1min").ohlc()["close" if how == "last" else "open"],
        "groupby": lambda: frame.groupby(frame.index.floor("min")).agg(how),
        "skipna=False": lambda: getattr(frame.resample("1min"), how)(skipna=False),
    }
    return {f"pandas {name}": call().iloc[0] for name, call in value.items()}


def of_pyarrow(table, how):
    grouped = table.group_by("minute", use_threads=False)
    keep = pyarrow.compute.ScalarAggregateOptions(skip_nulls=False)
    return {
        "pyarrow": grouped.aggregate([("bid", how)])[f"bid_{how}"][0].as_py(),
        "pyarrow skip_nulls=False": grouped.aggregate([("bid", how, keep)])[f"bid_{how}"][0].as_py(),
    }


def of_duckdb(table, how):
    by = "arg_max" if how == "last" else "arg_min"
    ways = {f"DuckDB {how}": f"{how}(bid order by ts)", f"DuckDB {by}": f"{by}(bid, ts)", f"DuckDB {by}_null": f"{by}_null(bid, ts)"}
    with duckdb.connect() as connection:
        connection.register("quotes", table)
        return {name: connection.execute(f"select {call} from quotes").fetchone()[0] for name, call in ways.items()}


def of_polars(table, how):
    bars = polars.from_arrow(table).group_by_dynamic("ts", every="1m").agg(getattr(polars.col("bid"), how)())
    return {"polars": bars["bid"][0]}


def passes_over(value):
    return value == value and value is not None


for table, how in ((quotes, "last"), (opening, "first")):
    found = of_pandas(table, how) | of_pyarrow(table, how) | of_duckdb(table, how) | of_polars(table, how)
    skipping = sorted(name for name, value in found.items() if passes_over(value))
    print(how, "passes blanks over:", ", ".join(skipping), "| does not:", ", ".join(sorted(set(found) - set(skipping))))
    by = "arg_max" if how == "last" else "arg_min"
    assert skipping == sorted(["pandas resample", "pandas ohlc", "pandas groupby", "pyarrow", f"DuckDB {by}"]), found
    assert all(found[name] == 10.30 for name in skipping), found

bar = quotes.to_pandas().set_index("ts").resample("1min")[["bid", "ask"]].last().iloc[0]
print(f"pandas: bid {bar.bid}, ask {bar.ask}, spread {bar.ask - bar.bid:.2f}")
assert round(bar.ask - bar.bid, 2) == -0.10
PYTHON
