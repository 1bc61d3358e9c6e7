#!/usr/bin/env bash
# lseg-data 2.1.1: the order in which a pricing stream takes the updates of an item that come faster than the program's callback is done with one.
#
# Guess: messages wait in a queue and are taken in the order in which they were sent, so the last update is the item's value in the end; at most
# a refresh, which the library counts as more urgent, is taken before the updates that wait.
# Seen: the queue is ordered by urgency alone, and equally urgent messages leave it in another order than they came. Of fifty updates that wait, BID 1 to 50, in
# a frame each or in one frame, 1, 3, 7, 15, 31, 50, 49 are the first and 4 is the last: the item's BID is 4 in the callback, in the record and in
# get_snapshot() until its next update. None is missing. A refresh behind fifty updates is taken before them, and older values stand in the end. With
# three that wait the order is right, of four the third is taken before the second. (Pings of WebSocket itself, by which the run waits, are answered and
# logged as errors.)
# What follows: a server conflates per client, so that an item has no second update on the way while one is; a program does nothing in the callback but put
# the fields into a queue of its own, and does not take the last value of a burst for the price.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q install --no-compile lseg-data==2.1.1 websockets==17.4 pandas==2.3.3 numpy==2.4.6
venv/bin/python - <<'PYTHON'
import json
import threading

import lseg.data
from lseg.data.content import pricing
from websockets.sync.server import serve

OPEN = {"Stream": "Open", "Data": "Ok"}
client = {}


def answer(connection):
    """A server of the WebSocket API that grants each login and has an image for each item."""
    for text in connection:
        request = json.loads(text)
        if request.get("Type", "Request") != "Request":
            continue
        client.update(connection=connection, stream=request["ID"])
        if request["Domain"] == "Login":
            message = {"Domain": "Login", "Key": {"Name": "user", "Elements": {}}, "Elements": {}}
        else:
            message = {"Key": {"Name": request["Key"]["Name"], "Service": "S"}, "Fields": {"BID": 0}}
        connection.send(json.dumps([message | {"ID": request["ID"], "Type": "Refresh", "State": OPEN}]))


def update_of(bid):
    return {"ID": client["stream"], "Type": "Update", "UpdateType": "Quote", "Fields": {"BID": bid}}


def refresh_of(bid):
    key = {"Name": "IBM.N", "Service": "S"}
    return {"ID": client["stream"], "Type": "Refresh", "Key": key, "Solicited": False, "State": OPEN, "Fields": {"BID": bid}}


def taken(frames, number):
    """Bids of a stream's callbacks in their order, behind a first one that is busy until the library has received all that was sent."""
    bids, busy, received, done = [], threading.Event(), threading.Event(), threading.Event()

    def on_message(fields, name, stream):
        bids.append(fields["BID"])
        busy.set()
        assert received.wait(20)
        if len(bids) == 1 + number:
            done.set()

    stream = pricing.Definition(["IBM.N"], fields=["BID"], service="S").get_stream()
    stream.open()
    stream.on_update(on_message)
    stream.on_refresh(on_message)
    connection = client["connection"]
    connection.send(json.dumps([update_of(0)]))
    assert busy.wait(20)
    for frame in frames():
        connection.send(json.dumps(frame))
    assert connection.ping().wait(20), "the library reads no more"  # a pong tells that all before it was read
    received.set()
    assert done.wait(20), bids
    stands = (stream["IBM.N"]["BID"], int(stream.get_snapshot()["BID"][0]))
    stream.close()
    return bids[1:], stands


with serve(answer, "127.0.0.1", 0, subprotocols=["tr_json2"]) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    session = lseg.data.session.platform.Definition(
        app_key="key", deployed_platform_host=f"127.0.0.1:{server.socket.getsockname()[1]}", deployed_platform_username="user",
        dacs_application_id="256", dacs_position="127.0.0.1").get_session()
    session.open()
    lseg.data.session.set_default(session)
    fifty = range(1, 51)
    each = taken(lambda: [[update_of(bid)] for bid in fifty], 50)
    together = taken(lambda: [[update_of(bid) for bid in fifty]], 50)
    refresh = taken(lambda: [[update_of(bid) for bid in fifty] + [refresh_of(51)]], 51)
    three = taken(lambda: [[update_of(bid)] for bid in (1, 2, 3)], 3)
    four = taken(lambda: [[update_of(bid)] for bid in (1, 2, 3, 4)], 4)
    for name, (bids, stands) in {"a frame each": each, "one frame": together, "refresh behind": refresh, "three": three, "four": four}.items():
        print(f"{name}: {bids[:7]} ... {bids[-3:]}, then BID of record and snapshot {stands}")
    session.close()
    server.shutdown()

assert each == together and each[0][:7] == [1, 3, 7, 15, 31, 50, 49] and each[0][-1] == 4 and each[1] == (4, 4), each
assert sorted(each[0]) == list(fifty)
assert refresh[0][0] == 51 and refresh[0][-1] == refresh[1][0] == 4, refresh
assert three == ([1, 2, 3], (3, 3)), three
assert four == ([1, 3, 2, 4], (4, 4)), four
print("as it was")
PYTHON
