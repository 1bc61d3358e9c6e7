"""The same fields of every message, and the same book after it, as programs of others have them: TotalView-ITCH by meatpy and itchfeed, IEX by
meatpy and iex-parser.

The day of ITCH is generated; IEX is the recorded samples of QUOTEWAY_DATA. meatpy has books of its own; itchfeed and iex-parser decode messages, and
of what they decode the plainest book is made here. QUOTEWAY_BOOK_LINES names the program that prints ours (`cargo build -p venue --example
book_lines`). The last line counts the tests.
"""

import datetime
import decimal
import gzip
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import traceback

from iex_parser.messages import DEEP_1_0, TOPS_1_6, decode_message
from itch.messages import messages as itchfeed_messages
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


def value_of(text):
    """A value as Rust shows it."""
    if text.startswith('"'):
        return text[1:-1]
    return {"Bid": ord("B"), "Ask": ord("S")}.get(text) or int(text)


def fields_of(line):
    """The values of a message as Rust shows it, in the order of its layout."""
    return [value_of(text) for text in re.findall(r': ("[^"]*"|-?\w+)', line)]


def plain(value):
    """A value of another program's: letters are their codes, texts have no blanks at the end, prices are whole numbers of four decimals."""
    if isinstance(value, bytes):
        return ord(value or b" ") if len(value) < 2 else value.decode().rstrip()
    if isinstance(value, decimal.Decimal):
        return int(value * 10_000)
    return value


def itchfeed_fields(raw):
    message = vars(itchfeed_messages[raw[:1]](raw))
    heads = ("stock_locate", "tracking_number", "timestamp")
    return [plain(message[name]) for name in heads] + [plain(v) for name, v in message.items() if name not in heads]


def any_message(kind, draw):
    """Bytes of a message of this kind with any values that it can have."""
    layout = itchfeed_messages[kind].message_format
    values = []
    for count, letter in re.findall(r"(\d*)([a-zA-Z])", layout):
        if letter == "c":
            values.append(draw.choice([b"B", b"S"]) if kind in b"AF" else bytes([draw.randrange(65, 91)]))
        elif letter == "s":
            text = "".join(draw.choice("ABCXYZ.") for _ in range(draw.randint(2, int(count))))
            values.append(text.ljust(int(count)).encode())
        else:
            values += [draw.getrandbits(8 * struct.calcsize("!" + letter)) for _ in range(int(count or 1))]
    return kind + struct.pack(layout, *values)


def itch_fields_of_every_kind(folder):
    path, draw = os.path.join(folder, "kinds.itch"), random.Random(37)
    every = [any_message(kind, draw) for kind in itchfeed_messages for _ in range(200)]
    draw.shuffle(every)
    write(path, every)
    assert len(itchfeed_messages) == 23
    return compare(map(fields_of, ours("itch-fields", path)), map(itchfeed_fields, every))


class PlainBook:
    """Orders in the order in which they came, and what a message does to them, by the names that itchfeed has."""

    def __init__(self):
        self.orders = {}

    def take(self, message):
        kind, number = message.message_type, message.order_reference_number
        if kind in b"AF":
            self.orders[number] = [message.buy_sell_indicator, message.price, message.shares]
        elif kind == b"U":
            side, *_ = self.orders.pop(number)
            self.orders[message.new_order_reference_number] = [side, message.price, message.shares]
        elif kind == b"D":
            del self.orders[number]
        else:
            order = self.orders[number]
            order[2] -= message.cancelled_shares if kind == b"X" else message.executed_shares
            assert order[2] >= 0
            if order[2] == 0:
                del self.orders[number]

    def side(self, letter):
        levels = {}
        for number, (side, price, shares) in self.orders.items():
            if side == letter:
                levels.setdefault(price, []).append(f"{number}*{shares}")
        best_first = sorted(levels.items(), reverse=letter == b"B")
        return "".join(f"{price}:{','.join(queue)};" for price, queue in best_first)


def itch_books_of_what_itchfeed_decodes(folder):
    path = os.path.join(folder, "plain.itch")
    subprocess.run([LINES, "write-itch", path, str(MESSAGES), str(STOCKS)], check=True)
    books, theirs = {}, []
    for raw in messages_of(path):
        if raw[:1] in b"AFECXDU":
            message = itchfeed_messages[raw[:1]](raw)
            book = books.setdefault(message.stock_locate, PlainBook())
            book.take(message)
            theirs.append(f"{message.stock_locate}|{book.side(b'B')}|{book.side(b'S')}")
    return compare(ours("itch", path), theirs)


def write(path, every):
    with open(path, "wb") as out:
        for raw in every:
            out.write(struct.pack(">H", len(raw)) + raw)


def recorded(name):
    """The messages of a capture of IEX-TP over UDP, Ethernet and IPv4; of a packet that was cut those that are whole."""
    with gzip.open(os.path.join(DATA, "iex", name)) as file:
        assert struct.unpack("<I", file.read(24)[:4]) == (0xA1B2C3D4,), "a classic capture"
        while record := file.read(16):
            packet = file.read(struct.unpack("<8xI4x", record)[0])
            at, count = 42 + 40, struct.unpack("<H", packet[56:58])[0]
            for _ in range(count):
                end = at + 2 + int.from_bytes(packet[at : at + 2], "little")
                if end > len(packet) or at + 2 > len(packet):
                    break
                yield packet[at + 2 : end]
                at = end


def iex_parser_fields(version, raw):
    """By iex-parser, in the order of the layout; its times have whole microseconds at best, being floating point on the way."""
    message = dict(decode_message(version, raw[0], raw[1:]))
    del message["type"]
    message.pop("side", None)
    if "ask_size" in message:
        message["ask_size"] = message.pop("ask_size")
    at = list(message).index("timestamp")
    values = [plain(v.timestamp() if isinstance(v, datetime.datetime) else v) for v in message.values()]
    return [round(v * 1e6) if n == at else v for n, v in enumerate(values)]


def texts_alike(values):
    """Texts of one letter or none are letters to iex-parser and texts here."""
    return [ord(v or " ") if isinstance(v, str) and len(v) < 2 else v for v in values]


def iex_fields_and_levels(folder):
    said = []
    for name, version in (("DEEP10.pcap.gz", DEEP_1_0), ("TOPS16.pcapng.gz", TOPS_1_6)):
        path, every = os.path.join(folder, name), list(recorded(name))
        write(path, every)
        count, books, theirs = 0, {}, []
        for raw, line in zip(every, ours("iex-fields", path), strict=True):
            mine, other = texts_alike(fields_of(line)), iex_parser_fields(version, raw)
            # A microsecond is as near as their times come.
            assert abs(mine[1] // 1_000 - other[1]) <= 1, f"{line}: {other}"
            assert mine[:1] + mine[2:] == other[:1] + other[2:], f"{line}: {other}"
            count += 1
            if raw[:1] in b"85":
                _, _, symbol, size, price = other
                sides = books.setdefault(symbol, ({}, {}))
                side = sides[raw[:1] == b"5"]
                side.pop(price, None)
                side.update({price: size} if size else {})
                bids, asks = sorted(sides[0].items(), reverse=True), sorted(sides[1].items())
                text = "|".join("".join(f"{price}:{size};" for price, size in side) for side in (bids, asks))
                theirs.append(f"{symbol if isinstance(symbol, str) else chr(symbol)}|{text}")
        assert count > 50_000, f"{count} messages of {name}"
        said.append(f"{count} messages of {name}, {compare(ours('deep', path), theirs)}")
    return "; ".join(said)


def compare(mine, theirs):
    count = 0
    for count, (line, other) in enumerate(zip(mine, theirs, strict=True), 1):
        assert line == other, f"at message {count}\n  ours   {line[:2_000]}\n  theirs {other[:2_000]}"
    return f"{count} compared"


TESTS = (
    itch_books_order_by_order,
    itch_fields_of_every_kind,
    itch_books_of_what_itchfeed_decodes,
    deep_books_by_price,
    iex_fields_and_levels,
)


def main():
    passed, failed = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for test in TESTS:
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
