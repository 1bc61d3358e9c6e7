#!/usr/bin/env bash
# Times of ticks with nine digits, as JSON and MessagePack carry them, read to Python's datetime by msgspec 0.22.0 beside msgpack 1.2.4, polars 2.1.0 and
# Python itself.
#
# Guess: datetime has microseconds; readers that take nine digits at all cut the last three off, as Python's own `fromisoformat` does.
# Seen: msgspec rounds half up, in JSON, in MessagePack and in `convert`: 23:59:59.9999995 of 2 January is midnight of 3 January. Python, msgpack and polars
# cut. Of two times of one message, read by two of them, the later can come out earlier: a time of receipt that was cut is a microsecond before the time of
# the source that was rounded, where the receipt was 300 ns behind it.
# What follows: a program that takes differences of times or cuts days keeps one reader for all of them, or the integer of nanoseconds beside the text.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install msgspec==0.22.0 msgpack==1.2.4 polars==2.1.0
"$folder/venv/bin/python" - <<'PYTHON'
import json
import re
from datetime import datetime

import msgpack
import msgspec
import polars

SECOND = 1_704_239_999  # 2024-01-02T23:59:59Z
NANOSECONDS = (999_999_499, 999_999_500)


def text_of(ns):
    return f"2024-01-02T23:59:59.{ns:09}Z"


def packed(ns):
    """The timestamp of MessagePack with nanoseconds: 30 bits of them before 34 of seconds."""
    return bytes((0xD7, 0xFF)) + (ns << 34 | SECOND).to_bytes(8, "big")


READERS = {
    "msgspec JSON": lambda ns: msgspec.json.decode(json.dumps(text_of(ns)), type=datetime),
    "msgspec convert": lambda ns: msgspec.convert(text_of(ns), datetime),
    "msgspec MessagePack": lambda ns: msgspec.msgpack.decode(packed(ns)),
    "msgpack": lambda ns: msgpack.unpackb(packed(ns), timestamp=3),
    "polars": lambda ns: polars.Series([text_of(ns)]).str.to_datetime(time_unit="us")[0],
    "Python": lambda ns: datetime.fromisoformat(re.sub("Z$", "+00:00", text_of(ns))),
}
CUT, ROUNDED = "02 23:59:59.999999", "03 00:00:00.000000"
for name, read in READERS.items():
    found = [read(ns).strftime("%d %H:%M:%S.%f") for ns in NANOSECONDS]
    print(name, found)
    assert found == [CUT, ROUNDED if name.startswith("msgspec") else CUT], (name, found)
source, receipt = READERS["msgspec JSON"](999_999_600), READERS["Python"](999_999_900)
print("300 ns after the source, by two readers:", receipt - source)
assert receipt < source
print("as it was")
PYTHON
