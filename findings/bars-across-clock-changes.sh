#!/usr/bin/env bash
# Bars of four hours of ticks in New York's time over the changes of the clock in March and November 2024: `resample` and `dt.floor` of pandas 3.1.1,
# `group_by_dynamic` and `dt.truncate` of polars 2.1.0, `floor_temporal` of pyarrow 26.0.1 and `time_bucket` of DuckDB 2.0.1 with its TimeZone set.
#
# Guess: the column has its time zone, so all begin bars at 00:00, 04:00 ... 20:00 on every day, but for one bar of three or five hours on the day of the
# change.
# Seen: three ways do (truncate, floor, floor_temporal). `resample` and `group_by_dynamic` count four hours on from the first day: each day after the change
# has bars from 01:00, 05:00 ... in March and from 03:00, 07:00 ... in November, to the end of the rows; the same day alone has them from 00:00. So polars has
# two sets of bars for the same column, and a bar's open and close depend on the day with which the query began. `time_bucket` goes by UTC: from 23:00 and
# 03:00 all winter and from 00:00 and 04:00 all summer, and the first bar of a winter day begins on the day before. On the day of the change `dt.floor` and
# `floor_temporal` refuse bars whose edge the clock leaves out (02:00, bars of two hours) and hours that it has twice (bars of one hour).
# Consequence: bars of more than an hour are made of one local day at a time, or of the local time without a zone; and a bar says when it begins and ends.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install pandas==3.1.1 polars==2.1.0 pyarrow==26.0.1 duckdb==2.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import duckdb
import pandas
import polars
import pyarrow
from pyarrow import compute

ZONE = "America/New_York"
SPRING, AUTUMN = "2024-03-10", "2024-11-03"
connection = duckdb.connect()
connection.execute(f"set timezone = '{ZONE}'")


def ticks_of(first, days):
    """A tick each half hour of the days that begin with the first."""
    end = pandas.Timestamp(first) + pandas.Timedelta(days=days)
    times = pandas.date_range(first, end, freq="30min", tz=ZONE, inclusive="left").as_unit("us")
    return pandas.DataFrame({"time": times, "size": 1})


def bucketed(ticks, hours):
    query = f"select distinct time_bucket(interval '{hours} hours', time) as bar from ticks order by bar"
    return [row[0] for row in connection.sql(query).fetchall()]


WAYS = {
    "resample": lambda ticks, hours: list(ticks.set_index("time").resample(f"{hours}h")["size"].sum().index),
    "group_by_dynamic": lambda ticks, hours: polars.from_pandas(ticks).group_by_dynamic("time", every=f"{hours}h").agg(polars.len())["time"].to_list(),
    "truncate": lambda ticks, hours: polars.from_pandas(ticks)["time"].dt.truncate(f"{hours}h").unique().sort().to_list(),
    "floor": lambda ticks, hours: list(ticks["time"].dt.floor(f"{hours}h").unique()),
    "floor_temporal": lambda ticks, hours: sorted(set(compute.floor_temporal(pyarrow.array(ticks["time"]), hours, "hour").to_pylist())),
    "time_bucket": bucketed,
}


def begins(way, ticks, day):
    """When the bars of a day begin that four hours make of ticks."""
    return " ".join(at.strftime("%H") for at in WAYS[way](ticks, 4) if at.strftime("%Y-%m-%d") == day)


WHOLE = "00 04 08 12 16 20"
WINTER = "03 07 11 15 19 23"
SHIFTED = {SPRING: "01 05 09 13 17 21", AUTUMN: WINTER}
for change in (SPRING, AUTUMN):
    before, after = (str((pandas.Timestamp(change) + pandas.Timedelta(days=days)).date()) for days in (-2, 5))
    long, alone = ticks_of(before, 8), ticks_of(after, 1)
    seen = {way: (begins(way, long, before), begins(way, long, after), begins(way, alone, after)) for way in WAYS}
    for way, (then, later, by_itself) in seen.items():
        print(f"{way}: {before} {then} | {after} {later} | {after} alone {by_itself}")
    assert seen == {
        "resample": (WHOLE, SHIFTED[change], WHOLE),
        "group_by_dynamic": (WHOLE, SHIFTED[change], WHOLE),
        "truncate": (WHOLE,) * 3,
        "floor": (WHOLE,) * 3,
        "floor_temporal": (WHOLE,) * 3,
        "time_bucket": (WINTER, WHOLE, WHOLE) if change == SPRING else (WHOLE, WINTER, WINTER),
    }, seen

refused = set()
for day, hours in ((SPRING, 2), (AUTUMN, 1)):
    for way in WAYS:
        try:
            assert WAYS[way](ticks_of(day, 1), hours)
        except ValueError as error:
            refused.add((way, hours))
            print(f"{way} refuses bars of {hours} h on {day}: {str(error).splitlines()[0]}")
assert refused == {(way, hours) for way in ("floor", "floor_temporal") for hours in (1, 2)}, refused
print("as it was")
PYTHON
