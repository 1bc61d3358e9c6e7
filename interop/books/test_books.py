"""The same book after every message as meatpy has it: TotalView-ITCH order by order, IEX DEEP by price.

The day of ITCH is generated; DEEP is the recorded sample of QUOTEWAY_DATA, of which meatpy reads the packets, so that what is compared is books
and not how packets are read. QUOTEWAY_BOOK_LINES names the program that prints ours (`cargo build -p venue --example book_lines`). The last line
counts the tests.
"""

import datetime
import os
import struct
import subprocess
import sys
import tempfile
import traceback

from meatpy.iex_deep import IEXDEEPMarketProcessor, IEXDEEPMessageReader
from meatpy.iex_deep.iex_deep_market_message import PriceLevelUpdateMessage
from meatpy.itch50 import ITCH50MarketProcessor
from meatpy.itch50.itch50_market_message import ITCH50MarketMessage

LINES = os.environ.get("QUOTEWAY_BOOK_LINES", "target/debug/examples/book_lines")
DATA = os.environ.get("QUOTEWAY_DATA", "../shared/data")
DATE = datetime.datetime(2026, 11, 30)
MESSAGES, STOCKS = 12_000, 6


def ours(*words):
    with subprocess.Popen([LINES, *words], stdout=subprocess.PIPE, text=True) as program:
        yield from (line.rstrip("\n") for line in program.stdout)
    assert program.returncode == 0, f"{LINES} {' '.join(words)} ended with {program.returncode}"


def messages_of(path):
    with open(path, "rb") as file:
        while length := file.read(2):
            yield file.read(struct.unpack(">H", length)[0])


def side_of(levels):
    made = []
    for level in levels:
        orders = ",".join(f"{order.order_id}*{order.volume}" for order in level.queue)
        made.append(f"{level.price}:{orders};")
    return "".join(made)


def itch_books_order_by_order(folder):
    path = os.path.join(folder, "day.itch")
    subprocess.run([LINES, "write-itch", path, str(MESSAGES), str(STOCKS)], check=True)
    processors, theirs, kinds = {}, [], {}
    for raw in messages_of(path):
        kind, locate = chr(raw[0]), struct.unpack(">H", raw[1:3])[0]
        kinds[kind] = kinds.get(kind, 0) + 1
        if kind == "R":
            processors[locate] = ITCH50MarketProcessor(raw[11:19].decode(), DATE)
        if kind not in "AFECXDU":
            continue
        processor = processors[locate]
        processor.process_message(ITCH50MarketMessage.from_bytes(raw))
        lob = processor.current_lob
        theirs.append(f"{locate}|{side_of(lob.bid_levels)}|{side_of(lob.ask_levels)}")
    assert all(kinds.get(kind, 0) > 5 for kind in "AFECXDU"), f"too few of a kind: {kinds}"
    return compare(ours("itch", path), theirs)


def deep_books_by_price(folder):
    path = os.path.join(folder, "messages.deep")
    processors, theirs = {}, []
    with open(path, "wb") as out:
        reader = IEXDEEPMessageReader().read_file(os.path.join(DATA, "iex", "DEEP10.pcap.gz"))
        for message in reader:
            raw = message.to_bytes()
            out.write(struct.pack(">H", len(raw)) + raw)
            if not isinstance(message, PriceLevelUpdateMessage):
                continue
            symbol = message.symbol
            processor = processors.get(symbol)
            if processor is None:
                processor = processors[symbol] = IEXDEEPMarketProcessor(symbol, DATE)
            processor.process_message(message)
            bids = sorted(processor._bid_levels.items(), reverse=True)
            asks = sorted(processor._ask_levels.items())
            text = "|".join("".join(f"{price}:{size};" for price, size in side) for side in (bids, asks))
            theirs.append(f"{symbol.decode().rstrip()}|{text}")
    assert len(theirs) > 20_000 and len(processors) > 5, f"{len(theirs)} levels of {len(processors)} symbols"
    return compare(ours("deep", path), theirs)


def compare(mine, theirs):
    count = 0
    for count, (line, other) in enumerate(zip(mine, theirs, strict=True), 1):
        assert line == other, f"after message {count} of books\n  ours   {line[:2_000]}\n  meatpy {other[:2_000]}"
    return f"{count} books"


def main():
    passed, failed = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for test in (itch_books_order_by_order, deep_books_by_price):
            try:
                print(f"ok   {test.__name__}: {test(folder)}")
                passed += 1
            except Exception:
                print(f"FAIL: {test.__name__}")
                traceback.print_exc(file=sys.stdout)
                failed += 1
    print(f"interop: {passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


main()
