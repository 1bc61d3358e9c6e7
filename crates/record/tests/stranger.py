"""A reader of recordings that was written from docs/wire/recording.md alone.

stranger.py FOLDER prints a line for each record: sequence number, time, kind, item, wall, monotonic and source time, message in hexadecimal digits.
"""

import os
import struct
import sys
import zlib

import zstandard

MASK = (1 << 64) - 1


def signed(value):
    value &= MASK
    return value - (1 << 64) if value >> 63 else value


class Input:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        piece = self.data[self.at : self.at + count]
        assert len(piece) == count, "cut"
        self.at += count
        return piece

    def u(self, size):
        return int.from_bytes(self.take(size), "little")

    def varint(self):
        value = shift = 0
        while True:
            byte = self.u(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def zigzag(self):
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def counted(self):
        return self.take(self.varint())

    def rest(self):
        return self.at < len(self.data)


def unpack(data, size):
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)


def frames(data, at):
    while len(data) - at >= 16:
        kind, flags, _, length, check, head_check = struct.unpack_from("<BBHIII", data, at)
        payload = data[at + 16 : at + 16 + length]
        if zlib.crc32(data[at : at + 12]) != head_check or len(payload) < length:
            return
        assert zlib.crc32(payload) == check
        if flags & 1:
            payload = unpack(payload[4:], int.from_bytes(payload[:4], "little"))
        yield kind, payload
        at += 16 + length


def read_items(data, items):
    data = Input(data)
    first, count = data.varint(), data.varint()
    for number in range(first, first + count):
        service, domain, name = data.counted().decode(), data.u(1), data.counted().decode()
        items[number] = (service, domain, name)


def minimal(value, is_signed):
    for size in range(1, 9):
        try:
            return value.to_bytes(size, "big", signed=is_signed)
        except OverflowError:
            pass


def as_bytes(form, width, mark, v, listed):
    if form == 1:
        return (v & ((1 << 8 * width) - 1)).to_bytes(width, "big")
    if form == 2:
        return bytes([mark]) + minimal(v, True)
    if form == 3:
        seconds, milli = divmod(v, 1000) if width == 5 else (v, None)
        text = bytes([seconds // 3600, seconds // 60 % 60, seconds % 60])
        return text if milli is None else text + milli.to_bytes(2, "big")
    if form == 4:
        return minimal(v & MASK, False)
    return listed[v]


def column(head, tokens, marks, rows, items, walls, done):
    """The values of a column, and its numbers by row."""
    form, width, predictor, a, b = head.u(1), head.u(1), head.u(1), head.varint(), head.varint()
    tokens, last = Input(tokens), {}
    values, by_row = [], {}
    if form == 0:
        marks = Input(marks)
        for row in rows:
            token = tokens.varint()
            if token:
                last[items[row]] = marks.take(token - 1)
            values.append(last.get(items[row], b""))
        return values, {}
    divisor = head.varint()
    each = None if head.u(1) else head.u(1)
    listed = [head.counted() for _ in range(head.varint())] if form == 5 else []
    distance, beside = {}, {}
    for place, row in enumerate(rows):
        mark = marks[place] if each is None else each
        if mark == 255:
            values.append(b"")
            continue
        item = items[row]
        before = last.get(item, 0)
        if predictor in (6, 7):
            other = walls[row] // (1_000_000 if predictor == 6 else 1_000_000_000)
        else:
            other = done[a].get(row) if predictor in (2, 3, 4, 5) else None
        guess = before
        if predictor == 0:
            guess = 0
        elif other is None:
            pass
        elif predictor == 2:
            guess = before + other
        elif predictor in (3, 6, 7):
            guess = other + distance.get(item, 0)
        elif predictor == 4:
            guess = beside.get((item, other), before)
        elif predictor == 5 and row in done[b]:
            guess = before + other * done[b][row]
        v = signed(guess + divisor * tokens.zigzag())
        last[item] = by_row[row] = v
        if other is not None:
            distance[item] = v - other
            beside[item, other] = v
        values.append(as_bytes(form, width, mark, v, listed))
    assert not tokens.rest()
    return values, by_row


def section(packing, piece, size):
    if packing == 2:
        assert len(piece) == 1
        return piece * size
    return unpack(piece, size) if packing else piece


def read_sliced(data):
    """The records of a block whose slices have them by items."""
    first, count, raw, before, end, _, _, slices, flags = struct.unpack_from("<QIIQQQQIB", data, 0)
    at = 64 + 16 * slices
    assert zlib.crc32(data[:60] + data[64:at]) == int.from_bytes(data[60:64], "little")
    rows = [None] * count
    least = -1
    for n in range(slices):
        first_item, records, length, check = struct.unpack_from("<IIII", data, 64 + 16 * n)
        piece = data[at : at + length]
        assert zlib.crc32(piece) == check and first_item > least
        at, least = at + length, first_item
        last_item = struct.unpack_from("<I", data, 64 + 16 * (n + 1))[0] if n + 1 < slices else 1 << 32
        found = list(read_block(piece, first))
        assert len(found) == records and all(first_item <= record[3] < last_item for record in found)
        for record in found:
            assert rows[record[0] - first] is None
            rows[record[0] - first] = record
    assert at == len(data)
    time, total, ascends = before, 0, True
    for sequence, _, kind, item, wall, mono, source, message in rows:
        ascends &= wall >= time
        time, total = max(time, wall), total + len(message)
        yield sequence, time, kind, item, wall, mono, source, message
    assert (time, total) == (end, raw) and ascends == bool(flags & 1)


def read_block(data, sliced_from=None):
    first, count, raw, before, end, wall, mono, how_many = struct.unpack_from("<QIIQQQQI", data, 0)
    directory, at = [struct.unpack_from("<HBBII", data, 64 + 12 * n) for n in range(how_many)], 64 + 12 * how_many
    sections = {}
    for number, packing, _, size, kept in directory:
        piece = data[at : at + kept]
        sections[number] = section(packing, piece, size)
        at += kept
    assert at == len(data)

    def numbers(section, how_many, leading=0):
        if section not in sections:
            return b"", [0] * how_many
        data = Input(sections[section])
        lead, divisor = data.take(leading), data.varint()
        return lead, [divisor * data.zigzag() for _ in range(how_many)]

    def varints(section):
        data = Input(sections[section])
        return [data.varint() for _ in range(count)]

    sequences, following = [], 0
    for row in range(count) if sliced_from is None else varints(9):
        following = following + row if sliced_from is not None else row
        sequences.append(following + (first if sliced_from is None else sliced_from))
        following += 1
    assert sequences[0] == first

    items, shape_of = varints(1), varints(6)
    walls, monos = [], []
    for step, more in zip(numbers(2, count)[1], numbers(3, count)[1]):
        wall, mono = (wall + step) & MASK, (mono + step + more) & MASK
        walls.append(wall)
        monos.append(mono)
    has = sections.get(5, b"\1" * count) if 4 in sections else b"\0" * count
    sources, known = [], 0
    lead, steps = numbers(4, sum(1 for has in has if has), 1)
    steps = iter(steps)
    for row in range(count):
        if has[row]:
            known = ((walls[row] if lead == b"\1" else known) + next(steps)) & MASK
        sources.append(known if has[row] else None)

    table = Input(sections[7])
    shapes = []
    for _ in range(table.varint()):
        kind, slots = table.u(1), table.varint()
        parts = [(table.counted(), table.u(1), table.varint()) for _ in range(slots)]
        shapes.append((kind, parts, table.counted()))
    heads = Input(sections[8])
    columns = heads.varint()
    rows = [[] for _ in range(columns)]
    for row, shape in enumerate(shape_of):
        for _, _, number in shapes[shape][1]:
            rows[number].append(row)
    done, values = [], []
    for c in range(columns):
        tokens, marks = sections.get(16 + 2 * c, b""), sections.get(17 + 2 * c, b"")
        given, by_row = column(heads, tokens, marks, rows[c], items, walls, done)
        values.append(iter(given))
        done.append(by_row)
    time, total = before, 0
    for row, shape in enumerate(shape_of):
        kind, parts, tail = shapes[shape]
        message = b""
        for literal, how, number in parts:
            value = next(values[number])
            message += literal + (bytes([len(value)]) if how == 0 else b"") + value
        message += tail
        time, total = max(time, walls[row]), total + len(message)
        yield sequences[row], time, kind, items[row], walls[row], monos[row], sources[row], message
    assert (time, total) == (end, raw)


def read_rows(payload):
    data = Input(payload)
    sequence, wall, mono = data.u(8), 0, 0
    while data.rest():
        kind, item = data.u(1), data.varint()
        if kind & 0x80:
            step = data.zigzag()
            wall, mono = wall + step & MASK, mono + step + data.zigzag() & MASK
            source = wall + data.zigzag() & MASK if kind & 0x40 else None
        else:
            wall, mono, has, source = data.u(8), data.u(8), data.u(1), data.u(8)
            source = source if has else None
        yield sequence, kind & 0x3F, item, wall, mono, source, data.counted()
        sequence += 1


def read_raw(payload):
    time = int.from_bytes(payload[8:16], "little")
    for sequence, kind, item, wall, mono, source, message in read_rows(payload[:8] + payload[16:]):
        time = max(time, wall)
        yield sequence, time, kind, item, wall, mono, source, message


def read_index(payload, version):
    """Of each block where it is and which items it has, and of each checkpoint likewise."""
    items = {}
    data = Input(payload)
    _, count = data.varint(), data.varint()
    for number in range(count):
        items[number + 1] = (data.counted().decode(), data.u(1), data.counted().decode())

    def numbers():
        found = []
        following = 0
        for _ in range(data.varint()):
            if version < 3:
                following += data.varint()
                found.append(following)
            else:
                first = following + data.varint()
                following = first + data.varint() + 1
                found.extend(range(first, following))
        return found

    blocks = []
    for _ in range(data.varint()):
        offset, _, first, count, *_ = (data.varint() for _ in range(7))
        blocks.append((offset, first, count, numbers()))
    for _ in range(data.varint()):
        _, _, _, has = data.varint(), data.varint(), data.varint(), numbers()
        assert set(has) <= set(items)
    return blocks


def read_segment(path):
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x89QWREC\r\n" and data[8:10] in (b"\1\0", b"\2\0", b"\3\0", b"\4\0", b"\5\0") and zlib.crc32(data[:60]) == int.from_bytes(data[60:64], "little")
    items, following = {}, int.from_bytes(data[32:40], "little")
    time = int.from_bytes(data[48:56], "little")
    is_finished = False
    blocks = []
    for kind, payload in frames(data, 64):
        if kind in (1, 7, 9):
            begin, has = following, set()
            for record in {1: read_block, 7: read_sliced, 9: read_raw}[kind](payload):
                following, time = record[0] + 1, record[1]
                has.add(record[3])
                yield record, items
            blocks.append((begin, following - begin, sorted(has)))
        elif kind == 4:
            assert [block[1:] for block in read_index(payload, data[8])] == blocks
        elif kind == 2:
            read_items(payload, items)
        is_finished = kind == 5
    tail = path.removesuffix(".qwr") + ".tail"
    if is_finished or not os.path.exists(tail):
        return
    with open(tail, "rb") as file:
        data = file.read()
    for kind, payload in frames(data, 0):
        if kind == 2:
            read_items(payload, items)
        elif kind == 6:
            for sequence, kind, item, wall, mono, source, message in read_rows(payload):
                if sequence == following:
                    following, time = following + 1, max(time, wall)
                    yield (sequence, time, kind, item, wall, mono, source, message), items


def main():
    folder = sys.argv[1]
    for name in sorted(name for name in os.listdir(folder) if name.endswith(".qwr")):
        for (sequence, time, kind, item, wall, mono, source, message), items in read_segment(os.path.join(folder, name)):
            print(sequence, time, kind, items[item][2] if item else "-", wall, mono, "-" if source is None else source, message.hex() or "-")


main()
