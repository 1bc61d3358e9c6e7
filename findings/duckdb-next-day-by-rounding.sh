#!/usr/bin/env bash
# The day, the second and the bar of a tick in the last half microsecond of a day, by DuckDB 2.0.1 beside polars 2.1.0 and pandas 3.1.1.
#
# Guess: DuckDB's TIMESTAMP_NS keeps all nine digits; what works on microseconds cuts the last three off, so that a tick stays in its day, second and bar.
# Seen: `::DATE`, `::TIME`, `::TIMESTAMP`, `date_trunc` and `time_bucket` round to a microsecond. 23:59:59.9999995 and later of 2 January is a tick of 3 January
# and of the bar of 00:00, and `where ts::DATE = '2024-01-02'` does not find it. `extract(day ...)`, `strftime` and `date_part` of the same value
# say 2 January, so one query has both days. A tick a nanosecond before the half stays. polars and pandas keep all of them in their day.
# What follows: bars and days are made of the integer (`epoch_ns(ts) // 60_000_000_000`), and a recording that is read by others carries its date in a
# column beside the time. Two programs that differ in one tick of a bar's edge need not differ in the data.
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

HALF = 1_704_239_999_999_999_500  # 2024-01-02T23:59:59.999999500Z
ticks = pyarrow.table({"ts": pyarrow.array([HALF - 1, HALF], pyarrow.timestamp("ns"))})
BY = {
    "::DATE": "ts::DATE::VARCHAR",
    "::TIME": "ts::TIME::VARCHAR",
    "::TIMESTAMP": "ts::TIMESTAMP::VARCHAR",
    "date_trunc": "date_trunc('day', ts)::DATE::VARCHAR",
    "time_bucket": "strftime(time_bucket(interval '1 minute', ts), '%d %H:%M')",
    "extract": "extract(day from ts)::VARCHAR",
    "date_part": "date_part('second', ts)::VARCHAR",
    "strftime": "strftime(ts, '%d %H:%M:%S')",
    "as text": "ts::VARCHAR",
    "minute of the integer": "(epoch_ns(ts) // 60_000_000_000 % 60)::VARCHAR",
}
seen = {}
for name, expression in BY.items():
    seen[name] = tuple(row[0] for row in duckdb.sql(f"select {expression} from ticks order by epoch_ns(ts)").fetchall())
    print(f"{name}: {seen[name][0]}, a nanosecond later {seen[name][1]}")
found = duckdb.sql("select count(*) from ticks where ts::DATE = '2024-01-02'").fetchall()[0][0]
print("found by date:", found, "of 2")
others = {
    "polars": polars.from_arrow(ticks)["ts"].dt.date().cast(polars.String).to_list(),
    "pandas": ticks.to_pandas()["ts"].dt.floor("D").astype(str).to_list(),
}
print(others)

assert seen == {
    "::DATE": ("2024-01-02", "2024-01-03"),
    "::TIME": ("23:59:59.999999", "00:00:00"),
    "::TIMESTAMP": ("2024-01-02 23:59:59.999999", "2024-01-03 00:00:00"),
    "date_trunc": ("2024-01-02", "2024-01-03"),
    "time_bucket": ("02 23:59", "03 00:00"),
    "extract": ("2", "2"),
    "date_part": ("59", "59"),
    "strftime": ("02 23:59:59", "02 23:59:59"),
    "as text": ("2024-01-02 23:59:59.999999499", "2024-01-02 23:59:59.9999995"),
    "minute of the integer": ("59", "59"),
}, seen
assert found == 1
assert others == {"polars": ["2024-01-02"] * 2, "pandas": ["2024-01-02"] * 2}, others
print("as it was")
PYTHON
