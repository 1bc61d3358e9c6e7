#!/usr/bin/env bash
# lseg-data 2.1.1: what a session of a deployed platform says of a login that is refused, and of a server that is not there.
#
# Guess: `session.open()` logs in, as its state Opened says; a refused login is an exception with the server's text, or the state Closed.
# Seen: `open()` connects nowhere: it returns Opened where nothing listens, and where the server will refuse the login. The login is the first stream's; when it
# is refused, `stream.open()` raises a ConnectionError that describes a connection and has no word of the server's code and text, and the session
# stays Opened. Each further stream makes a connection and a login of its own, refused again. The text comes only to a program that has registered
# `session.on_event`, as StreamAuthenticationFailed.
# What follows: a program does not take Opened for a login and registers `on_event` before it opens; a server logs whom it refuses and why, since
# the user does not see it, and counts on one refused login for each stream that such a program opens.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q install --no-compile lseg-data==2.1.1 websockets==17.4 pandas==2.3.3 numpy==2.4.6
venv/bin/python - <<'PYTHON'
import json
import socket
import threading

import lseg.data
from lseg.data.content import pricing
from websockets.sync.server import serve

TEXT = "user is not known here"
logins, connections = [], []


def refuse(connection):
    """A server of the WebSocket API that refuses each login by a Status, and leaves the connection as it is."""
    connections.append(connection)
    for text in connection:
        request = json.loads(text)
        if request.get("Domain") == "Login" and request.get("Type", "Request") == "Request":
            logins.append(request)
            state = {"Stream": "Closed", "Data": "Suspect", "Code": "NotEntitled", "Text": TEXT}
            connection.send(json.dumps([{"ID": request["ID"], "Type": "Status", "Domain": "Login", "Key": {"Name": "user"}, "State": state}]))


def session_of(port):
    return lseg.data.session.platform.Definition(
        app_key="key", deployed_platform_host=f"127.0.0.1:{port}", deployed_platform_username="user",
        dacs_application_id="256", dacs_position="127.0.0.1").get_session()


with socket.socket() as closed:
    closed.bind(("127.0.0.1", 0))  # bound and not listening: who connects is refused
    session = session_of(closed.getsockname()[1])
    nobody = str(session.open())
    session.close()
print("nothing listens:", nobody)
assert nobody == "OpenState.Opened"

with serve(refuse, "127.0.0.1", 0, subprotocols=["tr_json2"]) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    events = []
    session = session_of(server.socket.getsockname()[1])
    session.on_event(lambda code, message, session: events.append((code, message)))
    opened = str(session.open())
    print("before the login:", opened, len(connections), "connections")
    assert opened == "OpenState.Opened" and not connections
    lseg.data.session.set_default(session)
    for number in (1, 2):
        try:
            pricing.Definition(["IBM.N"], fields=["BID"], service="S").get_stream().open()
            raise AssertionError("the stream is open")
        except ConnectionError as error:
            told = str(error)
        print(f"stream {number}: ConnectionError, with the server's text: {TEXT in told}; session {session.open_state}, {len(logins)} logins")
        assert TEXT not in told and "NotEntitled" not in told and "name" in told, told
        assert str(session.open_state) == "OpenState.Opened"
        assert (len(connections), len(logins)) == (number, number)
    names = [code.name for code, message in events if TEXT in str(message)]
    print("events with the text:", names)
    assert names == ["StreamAuthenticationFailed"] * 2, events
    session.close()
    server.shutdown()
print("as it was")
PYTHON
