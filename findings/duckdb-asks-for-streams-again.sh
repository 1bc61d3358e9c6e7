#!/usr/bin/env bash
# Streams of Arrow (`__arrow_c_stream__`), as a live source of ticks gives them, read by DuckDB 2.0.1 beside polars 2.1.0, pandas 3.1.1 and
# pyarrow 26.0.1.
#
# Guess: a query of DuckDB asks a Python object for one stream and reads that; or for two, the first for the schema alone.
# Seen: `duckdb.sql("select ... from x")` asks for one stream when the relation is made and for two more when its rows are fetched, reads
# the last and lets the others go unread; `duckdb.from_arrow(x)` with an aggregate asks four times, `register` once and the table made of it twice. polars,
# pandas and pyarrow ask once. A second query of the same object begins a new stream without a word: of a source whose streams go on where the one before
# ended, it has no rows. `limit 5` reads one batch, whatever is in it, and lets go of the rest.
# What follows: a source must begin (subscribe, take from its queue) with the first `get_next` of a stream and not when it is asked for one, or each query
# costs three subscriptions; or it hands out batches that stand still and can be read again. Whoever wants a live stream in DuckDB reads it once into a table.
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


class Ticks:
    """A hundred ticks in batches of ten. Each stream goes on behind what those before have given."""

    def __init__(self):
        self.left = list(range(100))
        self.given = []

    def __arrow_c_stream__(self, requested_schema=None):
        stream = len(self.given)
        self.given.append(0)
        schema = pyarrow.schema([("seq", pyarrow.int64())])

        def batches():
            while self.left:
                batch, self.left = self.left[:10], self.left[10:]
                self.given[stream] += len(batch)
                yield pyarrow.record_batch([pyarrow.array(batch)], schema=schema)

        reader = pyarrow.RecordBatchReader.from_batches(schema, batches())
        return reader.__arrow_c_stream__(requested_schema)


seen = {}


def note(name, rows, ticks):
    seen[name] = (rows, list(ticks.given))
    print(f"{name}: {rows} rows, streams asked for gave {ticks.given}")


ticks = Ticks()
relation = duckdb.sql("select count(*) from ticks")
note("relation made", 0, ticks)
note("count", relation.fetchall()[0][0], ticks)
note("count again", duckdb.sql("select count(*) from ticks").fetchall()[0][0], ticks)
ticks = Ticks()
note("limit 5", len(duckdb.sql("select * from ticks limit 5").fetchall()), ticks)
ticks = Ticks()
note("from_arrow", duckdb.from_arrow(ticks).aggregate("count(*)").fetchall()[0][0], ticks)
ticks = Ticks()
connection = duckdb.connect()
connection.register("live", ticks)
connection.execute("create table kept as select * from live")
note("table", connection.execute("select count(*) from kept").fetchall()[0][0], ticks)
for name, read in {"polars": polars.DataFrame, "pandas": pandas.DataFrame.from_arrow, "pyarrow": pyarrow.table}.items():
    ticks = Ticks()
    note(name, len(read(ticks)), ticks)

assert seen == {
    "relation made": (0, [0]),
    "count": (100, [0, 0, 100]),
    "count again": (0, [0, 0, 100, 0, 0, 0]),
    "limit 5": (5, [0, 0, 10]),
    "from_arrow": (100, [0, 0, 0, 100]),
    "table": (100, [0, 0, 100]),
    "polars": (100, [100]),
    "pandas": (100, [100]),
    "pyarrow": (100, [100]),
}, seen
print("as it was")
PYTHON
