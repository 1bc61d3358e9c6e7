"""The WebSocket side of a server against clients of another make: websocket-client, and lseg-data where it is installed.

QUOTEWAY_BIN names the binary. Each test begins a session of its own with `quoteway demo`; the last line counts them.
"""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import traceback

import websocket

BINARY = os.environ.get("QUOTEWAY_BIN", os.path.join(os.path.dirname(__file__), "../../target/release/quoteway"))
SECONDS = 20


class Server:
    """`quoteway demo`: a server with a source of its own."""

    items = ["IBM.N", "MSFT.O", "EUR="]

    def __init__(self):
        command = [BINARY, "demo", "--no-ui", "--rssl-port", "0", "--nip-port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.log = []
        for line in self.process.stdout:
            self.log.append(line)
            found = re.search(r"DIRECT_FEED on \S*:(\d+),", line)
            if found:
                self.port = int(found.group(1))
                break
        else:
            raise AssertionError("the server did not start:\n" + "".join(self.log))
        threading.Thread(target=lambda: self.log.extend(self.process.stdout), daemon=True).start()

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Client:
    """One JSON session."""

    def __init__(self, server, login=True, protocol="tr_json2"):
        url = f"ws://127.0.0.1:{server.port}/WebSocket"
        self.ws = websocket.create_connection(url, subprotocols=[protocol], timeout=SECONDS)
        self.left = []
        self.frames = 0
        if login:
            self.send({"ID": 2, "Domain": "Login", "Key": {"Name": "user", "Elements": {
                "ApplicationId": "256", "Position": "127.0.0.1/net"}}})
            self.login = self.next()
            assert self.login["Type"] == "Refresh" and self.login["State"]["Stream"] == "Open", self.login

    def send(self, message):
        self.ws.send(message if isinstance(message, str) else json.dumps(message))

    def frame(self):
        text = self.ws.recv()
        frame = json.loads(text)
        assert isinstance(frame, list), f"a frame is always an array: {text}"
        self.frames += 1
        return frame

    def next(self, **want):
        """The next message with these members; others are passed over."""
        while True:
            while not self.left:
                self.left = self.frame()
            message = self.left.pop(0)
            if all(message.get(name) == value for name, value in want.items()):
                return message

    def request(self, stream, name, **more):
        self.send({"ID": stream, "Key": {"Name": name, **more.pop("key", {})}, **more})

    def closed(self):
        """Reads to the end; the code of the close frame."""
        while True:
            opcode, frame = self.ws.recv_data()
            if opcode == websocket.ABNF.OPCODE_CLOSE:
                return int.from_bytes(frame[:2], "big")


def test_the_answer_to_a_login_is_the_first_frame_and_alone(server):
    client = Client(server, login=False)
    client.send([{"ID": 2, "Domain": "Login", "Key": {"Name": "user"}}, {"ID": 5, "Key": {"Name": "RTR.L"}}])
    first = client.frame()
    assert len(first) == 1 and first[0]["Domain"] == "Login" and first[0]["ID"] == 2, first
    assert first[0]["Elements"] == {"PingTimeout": 30, "MaxMsgSize": 61440}, first
    assert client.next(ID=5)["Type"] in ("Refresh", "Status")


def test_an_item_streams_from_the_default_service(server):
    client = Client(server)
    client.request(5, server.items[0])
    refresh = client.next(ID=5)
    assert refresh["Type"] == "Refresh" and refresh["State"]["Data"] == "Ok", refresh
    assert refresh["Key"] == {"Service": "DIRECT_FEED", "Name": server.items[0]}, refresh["Key"]
    assert refresh["Fields"], refresh
    update = client.next(ID=5, Type="Update")
    assert update["Fields"], update


def test_a_snapshot_ends_with_its_image(server):
    client = Client(server)
    client.request(5, server.items[0], Streaming=False)
    assert client.next(ID=5)["State"]["Stream"] == "NonStreaming"
    client.send({"ID": 5, "Type": "Close"})
    client.request(6, server.items[0])
    assert client.next(ID=6)["Type"] == "Refresh"


def test_a_view_is_kept(server):
    client = Client(server)
    client.request(5, server.items[0])
    some = sorted(client.next(ID=5)["Fields"])[:2]
    client.request(6, server.items[0], View=[*some, "NO_SUCH_FIELD_EVER"])
    assert sorted(client.next(ID=6)["Fields"]) == some


def test_a_batch_is_answered_by_a_status_and_its_items(server):
    client = Client(server)
    client.send({"ID": 10, "Key": {"Name": server.items[:3]}})
    status = client.next(ID=10)
    assert status["Type"] == "Status" and status["State"]["Stream"] == "Closed", status
    assert status["State"]["Text"] == "Processed 3 total items from Batch Request. 3 Ok.", status
    for at, name in enumerate(server.items[:3]):
        assert client.next(ID=11 + at, Type="Refresh")["Key"]["Name"] == name


def test_an_unknown_service_is_told_under_its_name(server):
    client = Client(server)
    client.request(5, "IBM.N", key={"Service": "NO_SUCH_SERVICE"})
    status = client.next(ID=5)
    assert status["Type"] == "Status" and status["State"]["Stream"] == "Closed", status
    assert status["State"]["Code"] == "SourceUnknown" and status["State"]["Data"] == "Suspect", status
    assert status.get("Key", {}).get("Service", "NO_SUCH_SERVICE") == "NO_SUCH_SERVICE", status


def test_a_ping_is_answered_once(server):
    client = Client(server)
    client.send({"Type": "Ping"})
    assert client.next() == {"Type": "Pong"}
    client.ws.ping("payload")
    opcode, frame = client.ws.recv_data(control_frame=True)
    assert (opcode, bytes(frame)) == (websocket.ABNF.OPCODE_PONG, b"payload")


def test_a_fault_in_one_message_does_not_stop_the_next(server):
    client = Client(server)
    client.send([{"ID": 7, "Key": 5}, {"ID": 8, "Key": {"Name": server.items[0]}}])
    error = client.next(ID=7)
    assert error["Type"] == "Error" and json.loads(error["Debug"]["Message"]) == {"ID": 7, "Key": 5}, error
    assert client.next(ID=8)["Type"] == "Refresh"
    client.send("this is no JSON")
    error = client.next(Type="Error")
    assert error["ID"] == 0 and error["Debug"]["Message"] == "this is no JSON", error


def test_the_dictionaries_come_in_one_message(server):
    client = Client(server)
    for stream, name in ((3, "RWFFld"), (4, "RWFEnum")):
        client.send({"ID": stream, "Domain": "Dictionary", "Streaming": False, "Key": {"Name": name, "Filter": 7}})
        refresh = client.next(ID=stream)
        assert refresh["Type"] == "Refresh" and refresh.get("Complete", True), str(refresh)[:200]
        assert len(refresh["Series"]["Entries"]) > 5


def test_the_directory_names_the_service(server):
    client = Client(server)
    client.send({"ID": 3, "Domain": "Source", "Key": {"Filter": 63}})
    refresh = client.next(ID=3)
    names = [part["Elements"]["Name"] for entry in refresh["Map"]["Entries"]
             for part in entry["FilterList"]["Entries"] if part["ID"] == 1]
    assert "DIRECT_FEED" in names, refresh


def test_closing_the_login_closes_the_session(server):
    client = Client(server)
    client.request(5, server.items[0])
    client.next(ID=5)
    client.send({"ID": 2, "Type": "Close"})
    assert client.closed() == 1000


def test_a_login_without_a_name_is_refused_for_good(server):
    client = Client(server, login=False)
    client.send({"ID": 2, "Domain": "Login", "Key": {"Name": ""}})
    status = client.next(ID=2)
    assert status["Type"] == "Status" and status["State"]["Stream"] == "Closed", status


def test_the_other_name_of_json_is_as_good(server):
    client = Client(server, protocol="rssl.json.v2")
    assert client.ws.getsubprotocol() == "rssl.json.v2"


def test_a_plain_http_request_is_told_what_the_port_is(server):
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), SECONDS)) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        answer = b""
        while part := plain.recv(4096):
            answer += part
    assert answer.startswith(b"HTTP/1.1 404 ") and b"/WebSocket" in answer, answer


def test_lseg_data_streams_prices(server):
    import lseg.data as ld

    session = ld.session.platform.Definition(
        app_key="key", deployed_platform_host=f"127.0.0.1:{server.port}",
        deployed_platform_username="user", dacs_application_id="256", dacs_position="127.0.0.1").get_session()
    session.open()
    ld.session.set_default(session)
    stream = ld.content.pricing.Definition(server.items[:2]).get_stream()
    updated = threading.Event()
    stream.on_update(lambda *_: updated.set())
    stream.open()
    frame = stream.get_snapshot()
    assert len(frame) == 2 and len(frame.columns) > 3, frame
    assert updated.wait(SECONDS), "no update came"
    stream.close()
    session.close()


def main():
    server = Server()
    passed, failed, skipped = 0, 0, 0
    try:
        for name, test in list(globals().items()):
            if not name.startswith("test_") or len(sys.argv) > 1 and not any(arg in name for arg in sys.argv[1:]):
                continue
            try:
                test(server)
                passed += 1
                print(f"ok      {name[5:].replace('_', ' ')}")
            except Exception:
                failed += 1
                print(f"FAILED  {name[5:].replace('_', ' ')}\n{traceback.format_exc()}")
    finally:
        server.stop()
        if failed:
            print("".join(server.log[-40:]))
    print(f"interop: {passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
