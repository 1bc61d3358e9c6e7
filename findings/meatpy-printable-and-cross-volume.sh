#!/usr/bin/env bash
# Guess: the executions that meatpy's trade recorder writes add up to what the tape counts. Nasdaq's specification says of an execution with
#   price (C) that is marked non-printable that a cross trade message (Q) tells of it again, so C with N would be left out and Q be there.
# Behaviour: the other way round. C is written whether it is printable or not, without the mark, and Q is not written at all. A day with 100
#   shares executed, 200 executed in a cross of 1,000 shares adds up to 300 where the tape has 1,100: who takes volume from this recorder must
#   read the messages P, Q, E and C with Y themselves.
# Runs without the product: installs meatpy 0.5.0 from PyPI in a temporary folder. Exit 1: it behaves otherwise by now.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check meatpy==0.5.0
"$folder/venv/bin/python" - "$folder/day" <<'PYTHON'
import datetime, importlib.metadata, struct, sys
from meatpy.itch50 import ITCH50ExecTradeRecorder, ITCH50MarketProcessor, ITCH50MessageReader

NINE = 34_200_000_000_000

def message(code, locate, at, *fields):
    body = code + struct.pack(">HH", locate, 0) + (NINE + at).to_bytes(6, "big") + b"".join(fields)
    return struct.pack(">H", len(body)) + body

u32 = lambda n: struct.pack(">I", n)
u64 = lambda n: struct.pack(">Q", n)
STOCK = b"ZVZZT   "
day = b"".join([
    message(b"S", 0, 0, b"O"),
    message(b"H", 1, 1, STOCK, b"T", b" ", b"    "),
    message(b"S", 0, 2, b"Q"),
    message(b"A", 1, 3, u64(7), b"S", u32(500), STOCK, u32(1_000_000)),
    message(b"E", 1, 4, u64(7), u32(100), u64(1)),
    # 200 shares of the order take part in a cross of 1,000, at the cross's price: not printable, since Q prints them.
    message(b"C", 1, 5, u64(7), u32(200), u64(2), b"N", u32(1_000_500)),
    message(b"Q", 1, 6, u64(1_000), STOCK, u32(1_000_500), u64(2), b"I"),
    message(b"S", 0, 7, b"M"),
])
with open(sys.argv[1], "wb") as file:
    file.write(day)

recorder = ITCH50ExecTradeRecorder()
processor = ITCH50MarketProcessor("ZVZZT", datetime.datetime(2026, 11, 27))
processor.handlers.append(recorder)
messages = 0
for item in ITCH50MessageReader().read_file(sys.argv[1]):
    processor.process_message(item)
    messages += 1
rows = [(row["MessageType"], row["Volume"]) for _, row in recorder.records]
print("meatpy", importlib.metadata.version("meatpy"), messages, "messages, recorded:", rows)
print("sum", sum(volume for _, volume in rows), "where the tape has 1100")
sys.exit(0 if rows == [("Exec", 100), ("ExecPrice", 200)] else 1)
PYTHON
