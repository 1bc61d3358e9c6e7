#!/usr/bin/env bash
# Files of one trading day each, with dates as American (11/01/24) and German (01.11.24) vendors write them, read by DuckDB 2.0.1's `read_csv` beside polars
# 2.1.0, pandas 3.1.1 and pyarrow 26.0.1.
#
# Guess: DuckDB finds the format of dates by itself; where 11/01/24 can be two days it may take January for November, the usual mistake, or leave a text.
# Seen: the year and the day change places. The files of the first twelve days of November 2024 have dates of 2011, and are read so without a warning: the
# file of 1 November is 24 January 2011, that of 12 November 24 December 2011. From the 13th on the day is right. With a time behind the date the first twelve
# days are timestamps of 2011 and the others texts. Dates with dots give the day as the year for all days of the month: 30.11.24 is 24 November 2030. Of
# four-digit years, 11/01/2024 is 11 January, and dots and 2024-11-01 are right. polars, pandas and pyarrow leave dates with slashes and dots texts. The files
# of the 1st and the 13th in one call are an error, which tells the format; by `sniff_csv` it is %y/%m/%d.
# Consequence: a loader of daily files gives `dateformat` or the types, and does not take a first file that loads for a test; whoever writes CSV writes
# 2024-11-01.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install duckdb==2.0.1 polars==2.1.0 pandas==3.1.1 pyarrow==26.0.1
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import datetime
import sys

import duckdb
import pandas
import polars
from pyarrow import csv

FORMATS = {"American": "%m/%d/%y", "American, timed": "%m/%d/%y 09:30:00", "American, 2024": "%m/%d/%Y", "German": "%d.%m.%y", "German, 2024": "%d.%m.%Y",
           "ISO": "%Y-%m-%d"}
DAYS = [datetime.date(2024, 11, day) for day in range(1, 31)]


def file_of(name, day):
    """Twenty ticks of one day, as a vendor delivers them."""
    path = f"{sys.argv[1]}/{name}-{day.day}.csv"
    with open(path, "w", encoding="utf-8") as file:
        file.write("date,item,bid\n" + "".join(f"{day.strftime(FORMATS[name])},ZN,{110 + tick / 64}\n" for tick in range(20)))
    return path


read = {}
for name in FORMATS:
    for day in DAYS:
        path = file_of(name, day)
        read[name, day.day] = str(duckdb.sql(f"select distinct date from read_csv('{path}')").fetchall()[0][0])
        if name != "ISO":
            assert polars.read_csv(path)["date"].dtype == polars.String
            assert isinstance(pandas.read_csv(path)["date"].dtype, pandas.StringDtype)
            assert str(csv.read_csv(path)["date"].type) == "string"
    print(f"{name}: " + ", ".join(f"{DAYS[day - 1].strftime(FORMATS[name])} is {read[name, day]}" for day in (1, 12, 13, 30)))

for day in range(1, 31):
    assert read["American", day] == (f"2011-{day:02}-24" if day <= 12 else f"2024-11-{day}"), read["American", day]
    assert read["American, timed", day] == (f"2011-{day:02}-24 09:30:00" if day <= 12 else f"11/{day}/24 09:30:00"), read["American, timed", day]
    assert read["American, 2024", day] == (f"2024-{day:02}-11" if day <= 12 else f"2024-11-{day}"), read["American, 2024", day]
    assert read["German", day] == f"20{day:02}-11-24", read["German", day]
    assert read["German, 2024", day] == read["ISO", day] == f"2024-11-{day:02}", read["German, 2024", day]

first, thirteenth = file_of("American", DAYS[0]), file_of("American", DAYS[12])
format_found = duckdb.sql(f"select dateformat from sniff_csv('{first}')").fetchall()[0][0]
print("format of the first file:", format_found)
assert format_found == "%y/%m/%d"
assert str(duckdb.sql(f"select distinct date from read_csv('{first}', dateformat = '%m/%d/%y')").fetchall()[0][0]) == "2024-11-01"
try:
    duckdb.sql(f"select * from read_csv(['{first}', '{thirteenth}'])").fetchall()
    raise AssertionError("both files are read")
except duckdb.ConversionException as error:
    assert "%y/%m/%d" in str(error)
print("as it was")
PYTHON
