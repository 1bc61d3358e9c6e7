#!/usr/bin/env bash
# Columns of times and durations in whole seconds, as pandas 3.1.1 makes them of trading dates, written to Parquet by fastparquet 2026.9.0.
#
# Guess: Parquet has no unit of seconds, so they are written as milliseconds, a thousand for each, and 2 January 2024 stays 2 January 2024.
# Seen: the numbers are written as they stand under the name of milliseconds, without an error or a warning: 2 January 2024 is 1970-01-01 00:28:24.153 for
# pyarrow 26.0.1, polars 2.1.0 and DuckDB 2.0.1. fastparquet itself refuses to read its own file ("Cannot losslessly cast '1704153 ms' to s"), or with a
# time zone gives 1970-01-01 00:28:24+00:00. `times="int96"` gives 1970-01-01 00:00:01.704153600, and a duration of 90 s becomes 90 us. Milliseconds,
# microseconds and nanoseconds are right. A column of seconds is what pandas makes of numpy's dates (`datetime64[D]`), or `.as_unit("s")`.
# What follows: dates of sessions are written as dates or in microseconds, and a check of an export reads what was written, by another library.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install fastparquet==2026.9.0 pandas==3.1.1 numpy==2.4.6 pyarrow==26.0.1 polars==2.1.0 duckdb==2.0.1
"$folder/venv/bin/python" - "$folder/column" <<'PYTHON'
import sys

import duckdb
import fastparquet
import numpy
import pandas
import polars
from pyarrow import parquet

FILE = sys.argv[1] + ".parquet"
DAY = pandas.Series(numpy.array(["2024-01-02"], dtype="datetime64[D]"))
assert str(DAY.dtype) == "datetime64[s]"


def written(column, **options):
    """A column's one value as four readers find it in the file."""
    fastparquet.write(FILE, pandas.DataFrame({"day": column}), **options)
    try:
        itself = str(fastparquet.ParquetFile(FILE).to_pandas()["day"][0])
    except ValueError as error:
        itself = str(error)
    found = [
        str(pandas.Series(parquet.read_table(FILE)["day"].to_pandas())[0]),
        str(polars.read_parquet(FILE)["day"][0]),
        str(duckdb.sql(f"select day::VARCHAR from '{FILE}'").fetchall()[0][0]),
        itself,
    ]
    print(column.dtype, options, str(parquet.read_schema(FILE).field("day").type), found)
    return found


assert written(DAY) == ["1970-01-01 00:28:24.153000"] * 2 + ["1970-01-01 00:28:24.153", "Cannot losslessly cast '1704153 ms' to s"]
assert written(DAY.dt.tz_localize("UTC"))[3] == "1970-01-01 00:28:24+00:00"
assert written(DAY, times="int96")[0] == "1970-01-01 00:00:01.704153600"
for unit in ("ms", "us", "ns"):
    assert written(DAY.dt.as_unit(unit)) == ["2024-01-02 00:00:00"] * 4
duration = pandas.Series(numpy.array([90], dtype="timedelta64[s]"))
assert written(duration)[:2] == ["00:00:00.000090"] * 2
assert written(duration.dt.as_unit("us"))[:2] == ["00:01:30"] * 2
print("as it was")
PYTHON
