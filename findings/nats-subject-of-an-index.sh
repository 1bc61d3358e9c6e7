#!/usr/bin/env bash
# nats-server 2.12.2, given updates whose subject is `prices.` and the name of an item, as a bridge from OMM to NATS would make it.
#
# Guess: `.DJI` makes the subject `prices..DJI`, which has an empty token: the server refuses it with -ERR, and a bridge hears of it.
# Seen: outside of pedantic mode the server answers +OK and gives the message to nobody: neither to a subscription of `prices.>` nor to one
# of `>`, nor to a JetStream stream of `prices.>`. Only a request with a reply subject is told that nobody answers (status 503). So every index (their
# names begin with a dot) and every name that ends with one is lost without an error. In pedantic mode -ERR comes, and a message whose
# subject is a wildcard is delivered all the same. A chain's `0#.DJI` and names with `=` are no trouble, but fall into two tokens at the dot.
# What follows: names of items need an encoding for NATS, or an account of what was acknowledged by the stream.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; wait 2>/dev/null || true; chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
GOPATH="$folder/go" GOBIN="$folder" GOFLAGS=-modcacherw go install github.com/nats-io/nats-server/v2@v2.12.2
"$folder/nats-server" --version
"$folder/nats-server" -a 127.0.0.1 -p -1 -js -sd "$folder/js" --ports_file_dir "$folder" -l "$folder/log" &
server=$!
python3 - "$folder" <<'PYTHON'
import glob
import json
import socket
import sys
import time

end = time.monotonic() + 20
while not (found := glob.glob(sys.argv[1] + "/nats-server_*.ports")):
    assert time.monotonic() < end, "the server does not start"
    time.sleep(0.05)
with open(found[0], encoding="utf-8") as file:
    port = int(json.load(file)["nats"][0].rsplit(":", 1)[1])


class Client:
    def __init__(self, pedantic):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.lines = self.socket.makefile("rb")
        self.lines.readline()
        options = {"verbose": False, "pedantic": pedantic, "headers": True, "no_responders": True, "lang": "python", "version": "0"}
        self.say(f"CONNECT {json.dumps(options)}")

    def say(self, line, payload=None):
        body = b"" if payload is None else payload.encode() + b"\r\n"
        self.socket.sendall(line.encode() + b"\r\n" + body)

    def heard(self):
        """What has come when the server answers a ping."""
        self.say("PING")
        lines = []
        while (line := self.lines.readline().strip()) != b"PONG":
            assert line or self.lines.peek(1), "closed"
            if line == b"PING":
                self.say("PONG")
            else:
                lines.append(line.decode())
        return lines


def delivered(client, subject):
    client.say(f"PUB {subject} 1", "x")
    heard = client.heard()
    return sum(line.startswith("MSG ") for line in heard), [line for line in heard if line.startswith("-ERR")]


NAMES = ["IBM.N", ".DJI", "VOD.L.", "0#.DJI", "EUR=", "*"]
seen = {}
for pedantic in (False, True):
    client = Client(pedantic)
    for number, subject in enumerate(("prices.>", ">")):
        client.say(f"SUB {subject} {number}")
    assert not client.heard()
    for name in NAMES:
        seen[pedantic, name] = delivered(client, f"prices.{name}")
        print("pedantic" if pedantic else "usual   ", f"{name:7}", "subscriptions that had it:", seen[pedantic, name][0], *seen[pedantic, name][1])

client = Client(False)
client.say("SUB answers.> 9")
request = json.dumps({"name": "P", "subjects": ["prices.>"], "storage": "memory"})
client.say(f"PUB $JS.API.STREAM.CREATE.P answers.1 {len(request)}", request)


def answer(client):
    end = time.monotonic() + 20
    heard = []
    while not any(line.startswith(("{", "NATS/1.0")) for line in heard):
        assert time.monotonic() < end, heard
        heard += client.heard()
    return next(line for line in heard if line.startswith(("{", "NATS/1.0")))


assert "error" not in json.loads(answer(client))
stream = {}
for name in ("IBM.N", ".DJI"):
    client.say(f"PUB prices.{name} answers.2 1", "x")
    stream[name] = answer(client)
    print("JetStream", name, stream[name])

for name in ("IBM.N", "0#.DJI", "EUR="):
    assert seen[False, name] == seen[True, name] == (2, []), (name, seen)
for name in (".DJI", "VOD.L."):
    assert seen[False, name] == (0, []), (name, seen)
    assert seen[True, name][0] == 0 and seen[True, name][1], (name, seen)
assert seen[False, "*"] == (2, []) and seen[True, "*"][0] == 2 and seen[True, "*"][1], seen
assert json.loads(stream["IBM.N"])["seq"] == 1 and stream[".DJI"].startswith("NATS/1.0 503"), stream
print("as it was")
PYTHON
