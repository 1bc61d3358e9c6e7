#!/usr/bin/env bash
# An Arrow stream (`__arrow_c_stream__`) of ticks read by polars 2.1.0 in its two ways, `from_arrow` and `DataFrame`; pyarrow 26.0.1 makes the streams.
#
# Guess: both give a table with the stream's columns, and one without rows where no tick has come yet.
# Seen: `DataFrame` does, whoever has made the stream and whether or not it has batches. `from_arrow` looks at the type of what it is given: a Table or
# RecordBatchReader of pyarrow becomes a DataFrame, any other source of the same stream a Series of structs. A RecordBatchReader without rows is refused by it
# (ValueError: pass a schema), though the reader has one; a Table without rows is a DataFrame with its columns, and its list of batches, which is empty,
# a DataFrame without any. The other way round `DataFrame` takes a list of batches for values: one batch of two ticks is one row of one column.
# What follows: a library that gives streams tells its users of `DataFrame(source)`; a program that asks for what has come so far and may get nothing
# does not use `from_arrow`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install pyarrow==26.0.1 polars==2.1.0
"$folder/venv/bin/python" - <<'PYTHON'
import polars
import pyarrow


class Source:
    """A stream and nothing else, as a library without pyarrow has it."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


schema = pyarrow.schema([("item", pyarrow.string()), ("bid", pyarrow.float64())])
ticks = {"ticks": pyarrow.table({"item": ["IBM.N", "VOD.L"], "bid": [1.5, 2.5]}, schema=schema), "none yet": schema.empty_table()}
makers = {"stream": Source, "table": lambda table: table, "reader": pyarrow.Table.to_reader, "batches": pyarrow.Table.to_batches}


def read(way, given):
    try:
        made = way(given)
    except ValueError as error:
        return type(error).__name__
    return f"{type(made).__name__} {made.shape}"


seen = {}
for how, table in ticks.items():
    for name, make in makers.items():
        seen[how, name] = read(polars.from_arrow, make(table)), read(polars.DataFrame, make(table))
        print(f"{how} as {name}: from_arrow gives {seen[how, name][0]}, DataFrame {seen[how, name][1]}")

assert polars.from_arrow(Source(ticks["ticks"])).dtype == polars.Struct({"item": polars.String, "bid": polars.Float64})
whole, empty = "DataFrame (2, 2)", "DataFrame (0, 2)"
assert {key: value for key, value in seen.items() if key[1] != "batches"} == {
    ("ticks", "stream"): ("Series (2,)", whole),
    ("ticks", "table"): (whole, whole),
    ("ticks", "reader"): (whole, whole),
    ("none yet", "stream"): ("Series (0,)", empty),
    ("none yet", "table"): (empty, empty),
    ("none yet", "reader"): ("ValueError", empty),
}, seen
assert seen["ticks", "batches"] == (whole, "DataFrame (1, 1)"), seen
assert seen["none yet", "batches"][0] == "DataFrame (0, 0)", seen
print("as it was")
PYTHON
