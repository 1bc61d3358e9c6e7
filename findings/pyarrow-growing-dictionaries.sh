#!/usr/bin/env bash
# Items as dictionary columns of Arrow, whose dictionary grows from batch to batch as new items tick, in pyarrow 26.0.1, polars 2.1.0 and DuckDB 2.0.1.
#
# Guess: where each batch's dictionary begins with that of the one before, the batches are one table for all that pyarrow does; only dictionaries in
# another order are trouble.
# Seen: pyarrow makes no difference between the two. A table of batches whose dictionaries grow is refused by `group_by`, by `join` and by the IPC file
# format, all that people do with ticks, while `filter`, `unique`, `value_counts`, `to_pandas`, the IPC stream and Parquet take it. `emit_dictionary_deltas=True`
# lets the IPC file be written where the dictionary grows, and not where it is in another order. After `unify_dictionaries()` all of these work.
# `sort_by` refuses dictionary columns whatever they hold. polars and DuckDB group all of it.
# What follows: a source of batches tells its users of `unify_dictionaries()`, and a writer of IPC files collects the dictionary before its first batch, or
# writes deltas.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install pyarrow==26.0.1 polars==2.1.0 duckdb==2.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import io

import duckdb
import polars
import pyarrow
from pyarrow import compute, ipc, parquet

schema = pyarrow.schema([("item", pyarrow.dictionary(pyarrow.int32(), pyarrow.string())), ("seq", pyarrow.int64())])


def table(*batches):
    made = []
    for names, keys, numbers in batches:
        items = pyarrow.DictionaryArray.from_arrays(pyarrow.array(keys, pyarrow.int32()), names)
        made.append(pyarrow.record_batch([items, pyarrow.array(numbers)], schema=schema))
    return pyarrow.Table.from_batches(made)


tables = {
    "grows": table((["IBM.N"], [0, 0], [1, 2]), (["IBM.N", "VOD.L"], [1, 0], [3, 4])),
    "other order": table((["IBM.N", "VOD.L"], [0, 1], [1, 2]), (["VOD.L", "IBM.N"], [0, 1], [3, 4])),
}
tables |= {f"{name}, unified": ticks.unify_dictionaries() for name, ticks in list(tables.items())}
lots = pyarrow.table({"item": pyarrow.array(["IBM.N", "VOD.L"]).dictionary_encode(), "lot": [100, 1]})


def written(make, **options):
    def write(ticks):
        with make(io.BytesIO(), ticks.schema, **options) as writer:
            writer.write_table(ticks)

    return write


uses = {
    "group_by": lambda ticks: ticks.group_by("item").aggregate([("seq", "max")]),
    "join": lambda ticks: ticks.join(lots, "item"),
    "IPC file": written(ipc.new_file),
    "IPC file with deltas": written(ipc.new_file, options=ipc.IpcWriteOptions(emit_dictionary_deltas=True)),
    "sort_by": lambda ticks: ticks.sort_by("item"),
    "filter": lambda ticks: ticks.filter(compute.field("item") == "VOD.L"),
    "unique": lambda ticks: ticks["item"].unique(),
    "IPC stream": written(ipc.new_stream),
    "Parquet": lambda ticks: parquet.write_table(ticks, io.BytesIO()),
    "polars group_by": lambda ticks: polars.DataFrame(ticks).group_by("item").len(),
    "DuckDB GROUP BY": lambda ticks: duckdb.sql("select item, count(*) from ticks group by item").fetchall(),
}
refused = {name: set() for name in tables}
for name, ticks in tables.items():
    for use, what in uses.items():
        try:
            what(ticks)
        except pyarrow.ArrowException as error:
            refused[name].add(use)
            print(f"{name}: {use} is refused: {error}")

assert refused == {
    "grows": {"group_by", "join", "IPC file", "sort_by"},
    "other order": {"group_by", "join", "IPC file", "IPC file with deltas", "sort_by"},
    "grows, unified": {"sort_by"},
    "other order, unified": {"sort_by"},
}, refused
print("as it was")
PYTHON
