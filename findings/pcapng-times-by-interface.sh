#!/usr/bin/env bash
# Captures in pcapng whose interfaces count time in different units, as a card with nanoseconds beside a card of the machine, or two captures one behind the
# other in one file, have them: read by dpkt 1.9.8, scapy 2.8.0, python-pcapng 2.1.1 (PyPI) and gopacket 1.4.0 (Go).
#
# Guess: resolution (if_tsresol) and offset (if_tsoffset) belong to an interface of a section; every reader applies them, at most the last digits are lost.
# Seen: each reader has its own files that it reads wrongly, without a word. dpkt applies the first interface's to all packets: behind one with nanoseconds,
# 09:30 in 2024 with microseconds is 20 January 1970, and the other way round a day near the year 56,000. scapy does the same where a second section begins in
# the file, and with one section it has each interface right, to the last digit. scapy and python-pcapng leave the offset out: a packet of 2024 is one of 2
# January 1970. gopacket has offsets, interfaces and sections right, but of units that are powers of two it takes the fraction for nanoseconds (.123456789
# becomes .132560717), and a unit of a whole second for a thousandth. dpkt and python-pcapng give doubles, which hold a quarter of a microsecond.
# Consequence: whoever merges captures converts them to one unit and one section first; a reader of captures is tried with such files before its times are
# believed.
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q install dpkt==1.9.8 scapy==2.8.0 python-pcapng==2.1.1
mkdir gopacket
cat > gopacket/main.go <<'GO'
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/gopacket/gopacket/pcapgo"
)

func main() {
	file, err := os.Open(os.Args[1])
	check(err)
	reader, err := pcapgo.NewNgReader(file, pcapgo.DefaultNgReaderOptions)
	check(err)
	for {
		_, about, err := reader.ReadPacketData()
		if err == io.EOF {
			return
		}
		check(err)
		fmt.Println(about.Timestamp.UnixNano())
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
GO
(cd gopacket && export GOPATH="$folder/go" GOFLAGS=-modcacherw && go mod init finding && go get github.com/gopacket/gopacket/pcapgo@v1.4.0 && go build -o ../reader .) \
    2> log || { cat log; exit 1; }
venv/bin/python - <<'PYTHON'
import decimal
import io
import logging
import struct
import subprocess

logging.disable(logging.CRITICAL)

import dpkt
import pcapng
from scapy.utils import PcapNgReader

AT = 1_704_205_800_123_456_789  # 2 January 2024, 14:30 UTC: New York's opening
MIDNIGHT = 1_704_067_200
FRAME = bytes.fromhex("01005e000001") + bytes.fromhex("020000000001") + b"\x08\x00" + bytes(46)
RESOLUTION, OFFSET = 9, 14


def block(kind, body):
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size


def section():
    return block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(**options):
    """An Ethernet interface; without a resolution it counts microseconds."""
    body = struct.pack("<HHI", 1, 0, 0)
    if "resolution" in options:
        body += struct.pack("<HHB3x", RESOLUTION, 1, options["resolution"])
    if "offset" in options:
        body += struct.pack("<HHq", OFFSET, 8, options["offset"])
    return block(1, body + bytes(4))


def packet(number, units):
    body = struct.pack("<IIIII", number, units >> 32, units & 0xFFFFFFFF, len(FRAME), len(FRAME)) + FRAME
    return block(6, body + bytes(-len(body) % 4))


MICRO, NANO, BINARY = AT // 1000, AT, (AT << 30) // 10**9
FILES = {
    "microseconds": section() + interface() + packet(0, MICRO),
    "nanoseconds": section() + interface(resolution=9) + packet(0, NANO),
    "nanoseconds, then microseconds": section() + interface(resolution=9) + interface() + packet(0, NANO) + packet(1, MICRO),
    "microseconds, then nanoseconds": section() + interface() + interface(resolution=9) + packet(0, MICRO) + packet(1, NANO),
    "two sections": section() + interface(resolution=9) + packet(0, NANO) + section() + interface() + packet(0, MICRO),
    "offset of a day's midnight": section() + interface(resolution=9, offset=MIDNIGHT) + packet(0, AT - MIDNIGHT * 10**9),
    "a power of two": section() + interface(resolution=0x80 | 30) + packet(0, BINARY),
    "seconds": section() + interface(resolution=0) + packet(0, AT // 10**9),
}


def gopacket(data):
    with open("capture.pcapng", "wb") as file:
        file.write(data)
    lines = subprocess.run(["./reader", "capture.pcapng"], check=True, capture_output=True, text=True).stdout.split()
    return [decimal.Decimal(line).scaleb(-9) for line in lines]


READERS = {
    "dpkt": lambda data: [at for at, _ in dpkt.pcapng.Reader(io.BytesIO(data))],
    "scapy": lambda data: [packet.time for packet in PcapNgReader(io.BytesIO(data))],
    "python-pcapng": lambda data: [part.timestamp for part in pcapng.FileScanner(io.BytesIO(data)) if hasattr(part, "timestamp")],
    "gopacket": gopacket,
}
true, wrong = decimal.Decimal(AT).scaleb(-9), {}
for name, data in FILES.items():
    for reader, read in READERS.items():
        times = [decimal.Decimal(at) for at in read(data)]
        about = 1 if name == "seconds" else decimal.Decimal("0.000002")
        off = [f"{at:.9f}" for at in times if abs(at - true) > about]
        print(f"{name}: {reader} {' '.join(f'{at:.9f}' for at in times)}{' (wrong)' if off else ''}")
        assert len(times) == data.count(FRAME), (name, reader)
        if off:
            wrong[name, reader] = off

LATE, EARLY, TODAY = "1704205800123.456787109", "1704205.800123456", "138600.123456789"
assert wrong == {
    ("nanoseconds, then microseconds", "dpkt"): [EARLY],
    ("microseconds, then nanoseconds", "dpkt"): [LATE],
    ("two sections", "dpkt"): [EARLY],
    ("two sections", "scapy"): [EARLY],
    ("offset of a day's midnight", "scapy"): [TODAY],
    ("offset of a day's midnight", "python-pcapng"): [TODAY],
    ("a power of two", "gopacket"): ["1704205800.132560717"],
    ("seconds", "gopacket"): ["1704.205800000"],
}, wrong
print("as it was")
PYTHON
