#!/usr/bin/env bash
# iex-parser 1.7.0: prices, times and flags of messages of IEX's DEEP 1.0, read from a capture that is made here after the specification.
#
# Guess: each price is a Decimal in dollars, times keep their nanoseconds or cut them, and a field has one type wherever it stands.
# Seen: ten fields of prices are Decimals in dollars, and the eleventh, the directory's close of the day before (adjusted_poc_close), is an int of
# ten-thousandths: a change on the day made of the two is off by the factor 10,000, with no error, since a Decimal takes an int. Times go through a double and
# are rounded to microseconds: a trade 400 ns before 09:30 is one at 09:30, in regular hours. The flags of a trade are an int and those of its break are
# bytes, so the break of a trade of the extended hours, 0x40, does not equal the trade it breaks, and `flags & 0x40` is a TypeError.
# Consequence: whoever takes the close of the day before from it divides by 10,000; the session of a trade is taken from its flags, not from the time.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install iex-parser==1.7.0 scapy==2.8.0
"$folder/venv/bin/python" - "$folder/deep.pcap" <<'PYTHON'
import struct
import sys
from datetime import datetime, timezone
from decimal import Decimal

from iex_parser import DEEP_1_0, Parser

OPENING = 1_704_205_800 * 10**9  # 2 January 2024, 09:30 in New York
AT = OPENING - 400
SYMBOL = b"ZIEXT   "
PRICE = 990_500  # 99.05
CLOSING_AUCTION_S = 1_704_229_200
EXTENDED_HOURS = 0x40


def segment(*messages):
    """A segment of IEX-TP with its messages, which are counted from 1."""
    body = b"".join(struct.pack("<H", len(message)) + message for message in messages)
    return struct.pack("<BxHIIHHqqq", 1, 0x8004, 1, 1, len(body), len(messages), 0, 1, AT) + body


def capture(payload):
    udp = struct.pack(">HHHH", 10378, 10378, 8 + len(payload), 0) + payload
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + bytes([10, 0, 0, 1, 233, 215, 21, 4]) + udp
    frame = bytes.fromhex("01005e571504020000000001") + b"\x08\x00" + ip
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    return header + struct.pack("<IIII", AT // 10**9, AT % 10**9 // 1000, len(frame), len(frame)) + frame


trade = struct.pack("<Bq8sLqq", EXTENDED_HOURS, AT, SYMBOL, 100, PRICE, 429_974)
with open(sys.argv[1], "wb") as file:
    file.write(capture(segment(
        b"D" + struct.pack("<Bq8sLqB", 0x80, AT, SYMBOL, 100, PRICE, 1),
        b"8" + struct.pack("<Bq8sLq", 1, AT, SYMBOL, 100, PRICE),
        b"T" + trade,
        b"B" + trade,
        b"X" + struct.pack("<cq8sq", b"Q", AT, SYMBOL, PRICE),
        b"A" + struct.pack("<cq8sLqqLcBLqqqq", b"C", AT, SYMBOL, 100, PRICE, PRICE, 0, b"N", 0, CLOSING_AUCTION_S, PRICE, PRICE, PRICE, PRICE),
    )))

with Parser(sys.argv[1], DEEP_1_0) as reader:
    messages = {message["type"]: message for message in reader}
prices = {(kind, name): value for kind, message in messages.items() for name, value in message.items() if name.endswith(("price", "close"))}
for (kind, name), value in prices.items():
    print(f"{kind}.{name}: {value!r}")
directory, traded, broken = (messages[kind] for kind in ("security_directive", "trade_report", "trade_break"))
change = traded["price"] - directory["adjusted_poc_close"]
print("change since the close of the day before:", change)
print("trade", traded["timestamp"], "flags", traded["flags"], "| break flags", broken["flags"])

assert prices.pop(("security_directive", "adjusted_poc_close")) == PRICE and isinstance(directory["adjusted_poc_close"], int)
assert len(prices) == 10 and set(prices.values()) == {Decimal("99.05")} and all(isinstance(value, Decimal) for value in prices.values()), prices
assert change == Decimal("99.05") - PRICE
assert traded["timestamp"] == datetime(2024, 1, 2, 14, 30, tzinfo=timezone.utc)
assert (traded["flags"], broken["flags"]) == (EXTENDED_HOURS, b"@")
print("as it was")
PYTHON
