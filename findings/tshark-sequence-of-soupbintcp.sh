#!/usr/bin/env bash
# tshark 4.0.17 (Debian's tshark 4.0.17-0+deb12u3) on a capture of SoupBinTCP: the number of each sequenced packet, which is not on the wire but counted.
#
# Guess: `soupbintcp.seq_num` is that number wherever the field is asked for, as the text of the details has it, so that packets can be listed and found by
# it.
# Seen: only texts have the number, "100 (Calculated)" in the details. The field's value is the letter X for every packet: in `-T fields`, in `-T json` and
# for display filters, where `soupbintcp.seq_num == "X"` finds every packet and "101" none. So is the login's next number, which is on the wire: its text is
# 100, its value X. With two passes (`-2`) it is the same.
# Consequence: gaps in a capture are looked for in the text of `-V`, or by a program of one's own; a filter by number that finds nothing says nothing.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
version=4.0.17-0+deb12u3
mkdir -p archives/partial root
if [ "$(id -u)" = 0 ]; then apt-get update -qq; fi
apt-get install -qq -y --download-only --reinstall -o Debug::NoLocking=1 -o Dir::Cache::archives="$folder/archives" \
    tshark=$version wireshark-common=$version libwireshark16=$version libwiretap13=$version libwsutil14=$version > log 2>&1 || { cat log; exit 1; }
for archive in archives/*.deb; do dpkg -x "$archive" root; done
shark() { LD_LIBRARY_PATH=$(echo root/usr/lib/*-linux-gnu) HOME=$folder root/usr/bin/tshark -r soup.pcap -d tcp.port==5000,soupbintcp "$@" 2>> log; }
python3 - <<'PYTHON'
import struct


def packet(kind, body=b""):
    return struct.pack(">H", 1 + len(body)) + kind + body


segments = [packet(b"A", b"SESSION001" + b"%20d" % 100)] + [packet(b"S", b"message %d" % number) for number in range(3)]
with open("soup.pcap", "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    sent = 1
    for number, segment in enumerate(segments):
        tcp = struct.pack(">HHIIBBHHH", 5000, 40000, sent, 1, 0x50, 0x18, 65535, 0, 0) + segment
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), number, 0, 64, 6, 0) + bytes([10, 0, 0, 1, 10, 0, 0, 2]) + tcp
        frame = bytes.fromhex("020000000002020000000001") + b"\x08\x00" + ip
        file.write(struct.pack("<IIII", 1_704_205_800, number, len(frame), len(frame)) + frame)
        sent += len(segment)
PYTHON
shark --version | head -1
shark -V | grep 'equence number:' | tee details
shark -T fields -e soupbintcp.packet_type -e soupbintcp.seq_num -e soupbintcp.next_seq_num | tee fields
shark -2 -T fields -e soupbintcp.packet_type -e soupbintcp.seq_num -e soupbintcp.next_seq_num > again
shark -T json > packets.json
for number in X 100 101 102; do shark -Y "soupbintcp.seq_num == \"$number\"" -T fields -e frame.number | paste -sd ' ' > "found-$number"; done
echo "found by X: $(cat found-X); by 101: $(cat found-101)"
python3 - <<'PYTHON'
import json

read = lambda name: open(name, encoding="utf-8").read()
texts = [line.strip() for line in read("details").splitlines()]
assert texts == ["Next sequence number: 100"] + [f"Sequence number: {number} (Calculated)" for number in (100, 101, 102)], texts
assert read("fields") == read("again") == "'A'\t\tX\n" + "'S'\tX\t\n" * 3, read("fields")
values = [packet["_source"]["layers"]["soupbintcp"].get("soupbintcp.seq_num") for packet in json.loads(read("packets.json"))]
assert values == [None, "X", "X", "X"], values
assert read("found-X").split() == ["2", "3", "4"]
assert not any(read(f"found-{number}").split() for number in (100, 101, 102))
PYTHON
echo "as it was"
