#!/usr/bin/env bash
# Prices that are not a number (NaN for a blank, as frames of doubles have it) in Parquet, asked for by DuckDB 2.0.1 in the file and in a table made of
# the file; polars 2.1.0 and pyarrow 26.0.1 beside it.
#
# Guess: NaN is above every number for DuckDB, as for PostgreSQL, and a query gives the same rows from the file as from a table of it.
# Seen: of the prices 1, NaN and 50 the table has one above 100, two up to 50 and one that `isnan`. The file as pyarrow or polars writes it has none, three and
# none: its statistics (1 to 50) leave NaN out, as the format says, and DuckDB takes them for the whole, so a row group whose statistics decide alone is
# skipped or taken without a look at its rows. `max` of pyarrow's file is 50, of polars' and of the table NaN. The same file without statistics, or as
# DuckDB writes it (no minimum and maximum where there is a NaN), gives what the table gives. polars and pyarrow have the same rows from files and from memory.
# What follows: a recording writes blanks as null and never as NaN; whoever has files of others in which NaN may be makes a table of them before he filters.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install --no-compile duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1
cd "$folder"
venv/bin/python - <<'PYTHON'
import math

import duckdb
import polars
import pyarrow
from pyarrow import compute, dataset, parquet

prices = pyarrow.table({"p": pyarrow.array([1.0, math.nan, 50.0])})
connection = duckdb.connect()
connection.execute("create table memory as select * from prices")
parquet.write_table(prices, "pyarrow.parquet")
parquet.write_table(prices, "bare.parquet", write_statistics=False)
polars.from_arrow(prices).write_parquet("polars.parquet")
connection.execute("copy memory to 'duckdb.parquet' (format parquet)")


def by_duckdb(source):
    """Rows above 100, up to 50 and not a number, and the highest price."""
    counts = [connection.execute(f"select count(*) from {source} where {asked}").fetchall()[0][0] for asked in ("p > 100", "p <= 50", "isnan(p)")]
    return *counts, str(connection.execute(f"select max(p) from {source}").fetchall()[0][0])


seen = {}
for writer in ("pyarrow", "polars", "duckdb", "bare"):
    file = f"{writer}.parquet"
    statistics = parquet.read_metadata(file).row_group(0).column(0).statistics
    connection.execute(f"create or replace table kept as select * from '{file}'")
    seen[writer] = (by_duckdb(f"'{file}'"), by_duckdb("kept"))
    print(f"{file}: DuckDB in the file {seen[writer][0]}, in a table of it {seen[writer][1]}")
    assert bool(statistics and statistics.has_min_max) == (writer in ("pyarrow", "polars")), statistics
    asked = polars.col("p")
    for condition in (asked > 100, asked <= 50, asked.is_nan()):
        assert polars.scan_parquet(file).filter(condition).collect().height == polars.from_arrow(prices).filter(condition).height
    asked = compute.field("p")
    for condition in (asked > 100, asked <= 50, compute.is_nan(asked)):
        assert dataset.dataset(file).to_table(filter=condition).num_rows == prices.filter(condition).num_rows

TABLE = (1, 2, 1, "nan")
assert seen == {
    "pyarrow": ((0, 3, 0, "50.0"), TABLE),
    "polars": ((0, 3, 0, "nan"), TABLE),
    "duckdb": (TABLE, TABLE),
    "bare": (TABLE, TABLE),
}, seen
print("as it was")
PYTHON
