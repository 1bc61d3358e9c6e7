#!/usr/bin/env bash
# exchange_calendars 4.13.2 and pandas_market_calendars 5.5.0, asked for the sessions of CME's equity index futures.
#
# Guess: both know the exchange, so sessions, opens and closes from 2005 on are the same but for an odd day.
# Seen: the two never agree on a regular close (17:00 against 16:00 in Chicago), until 15 November 2012 not on the open either
# (17:00 against 15:30), and one has no session on Good Fridays on which the employment report comes out and the futures trade in the
# morning. For the New York stock exchange they differ on two days since 2005, for London on none; before that one knows late opens that
# the other does not, among them noon of 11 September 2002.
# What follows: a recording that is cut into trading days by one of them cannot be compared with one that was cut by the other, and
# `close` of a CME session is a choice of the library. Take dates from the exchange's own notices where a day has to be exact.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install exchange_calendars==4.13.2 pandas_market_calendars==5.5.0 pandas==3.1.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata as metadata

import exchange_calendars
import pandas as pd
import pandas_market_calendars

FIRST, LAST = "2005-01-03", "2025-12-31"
for name in ("exchange_calendars", "pandas_market_calendars"):
    print(name, metadata.version(name))


def sessions(one, other):
    """Opens and closes of each day by both, in UTC."""
    left = exchange_calendars.get_calendar(one, start=FIRST, end=LAST).schedule[["open", "close"]]
    right = pandas_market_calendars.get_calendar(other).schedule(FIRST, LAST)[["market_open", "market_close"]]
    return left.join(right, how="outer")


def count(table):
    both = table.dropna()
    return {
        "days": len(both),
        "closes": int((both["close"] != both["market_close"]).sum()),
        "opens": int((both["open"] != both["market_open"]).sum()),
        "only left": int(table["market_open"].isna().sum()),
        "only right": int(table["open"].isna().sum()),
    }


cme = sessions("CMES", "CME_Equity")
seen = {"CME": count(cme), "NYSE": count(sessions("XNYS", "NYSE")), "LSE": count(sessions("XLON", "LSE"))}
for market, found in seen.items():
    print(market, found)
day = cme.loc["2025-11-25"].map(lambda at: at.tz_convert("America/Chicago"))
print("25 November 2025 in Chicago:", day["close"].time(), "and", day["market_close"].time())
fridays = [str(at.date()) for at in cme.index[cme["open"].isna()]]
print("sessions of pandas_market_calendars alone:", *fridays)
late = exchange_calendars.get_calendar("XNYS", start="2002-09-01", end="2002-09-30").schedule.loc["2002-09-11", "open"]
noon = pandas_market_calendars.get_calendar("NYSE").schedule("2002-09-11", "2002-09-11")["market_open"].iloc[0]
print("New York, 11 September 2002:", late.tz_convert("America/New_York").time(), "and", noon.tz_convert("America/New_York").time())

regular = cme.dropna()
regular = regular[(regular["close"].dt.tz_convert("America/Chicago").dt.hour == 17)]
assert (regular["close"] != regular["market_close"]).all(), "the regular closes agree now"
assert (str(day["close"].time()), str(day["market_close"].time())) == ("17:00:00", "16:00:00")
assert {"2012-04-06", "2015-04-03", "2021-04-02", "2023-04-07"} <= set(fridays), fridays
assert seen["CME"]["opens"] > 1_000 and seen["NYSE"]["closes"] <= 2 and seen["LSE"]["closes"] == 0, seen
assert late != noon and noon.tz_convert("America/New_York").hour == 12
print("as it was")
PYTHON
