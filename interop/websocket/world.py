"""What the tests put around a server: the server itself, providers that speak JSON, and clients.

Every value that a provider publishes follows from the item's name and a sequence number, so that a consumer can tell which update
it has and that no field of it is another's.
"""

import base64
import contextlib
import json
import os
import queue
import re
import socket
import subprocess
import tempfile
import threading
import zlib

import websocket
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

BINARY = os.environ.get("QUOTEWAY_BIN", os.path.join(os.path.dirname(__file__), "../../target/release/quoteway"))
SECONDS = 30
SERVICE = "DIRECT_FEED"


def values(name, sequence):
    """The fields of an update as they are published."""
    n = zlib.crc32(f"{name} {sequence}".encode())
    return {
        "BID": (3990 + n % 1000) / 100,
        "ASK": -(3994 + n % 1000) / 100,
        "BIDSIZE": n % 100,
        "TRDTIM_1": f"{n % 24:02}:{n % 60:02}:{n % 59:02}",
        "TRDVOL_1": sequence,
    }


def image(name, sequence):
    """The fields of an image: each kind of value that such records have, one of them blank."""
    n = zlib.crc32(name.encode())
    return {
        "PROD_PERM": 62 + n % 100,
        "DSPLY_NAME": name,
        "CURRENCY": "USD",
        "NETCHNG_1": None,
        "TRADE_DATE": f"2024-{1 + n % 12:02}-{1 + n % 28:02}",
        **values(name, sequence),
    }


class Server:
    """`quoteway serve`, with ports of its own."""

    def __init__(self, config="", routes=()):
        text = "".join(f'\n[[route]]\nhost_list = ["127.0.0.1:{port}"]\nprotocol = "tr_json2"\n' for port in routes)
        defaults = "" if "[source_distributor]" in config else "[source_distributor]\nrecovery_interval_ms = 100\n"
        with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as file:
            file.write(config + defaults + text)
        self.config = file.name
        command = [BINARY, "serve", "--rssl-port", "0", "--nip-port", "0", "--config", self.config]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.log = []
        for line in self.process.stdout:
            self.log.append(line)
            found = re.search(r"^ready rssl=\S*:(\d+) nip=\S*:(\d+).* websocket=(ws://\S+)", line)
            if found:
                self.port, self.nip_port, self.url = int(found.group(1)), int(found.group(2)), found.group(3)
                break
        else:
            raise AssertionError("the server did not start:\n" + "".join(self.log))
        threading.Thread(target=lambda: self.log.extend(self.process.stdout), daemon=True).start()

    def stop(self):
        self.process.terminate()
        self.process.wait()
        os.unlink(self.config)


class Provider:
    """An interactive provider over tr_json2, made of the package `websockets`: what it is asked for it answers with `image`."""

    # What its login says beside the usual.
    features = {}

    def __init__(self, service=SERVICE):
        self.service = service
        self.port = 0
        self.generation = 0
        self.start()

    def start(self):
        self.sessions = []
        self.items = {}
        self.opened = queue.Queue()
        self.posts = queue.Queue()
        self.server = serve(self.session, "127.0.0.1", self.port, subprotocols=["tr_json2"], max_size=None)
        self.port = self.server.socket.getsockname()[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        """Without a word, as when it is killed."""
        self.server.shutdown()
        for session in self.sessions:
            with contextlib.suppress(OSError):
                session.socket.shutdown(socket.SHUT_RDWR)
        self.generation += 1000

    def session(self, ws):
        self.sessions.append(ws)
        with contextlib.suppress(ConnectionClosed):
            for text in ws:
                messages = json.loads(text)
                for message in messages if isinstance(messages, list) else [messages]:
                    self.answer(ws, message)

    @staticmethod
    def send(ws, *messages):
        ws.send(json.dumps(messages))

    def answer(self, ws, message):
        kind, stream = message.get("Type", "Request"), message.get("ID")
        ok = {"Stream": "Open", "Data": "Ok", "Text": "all is well"}
        if kind == "Ping":
            self.send(ws, {"Type": "Pong"})
        elif kind == "Post":
            self.posts.put(message)
            if message.get("Ack"):
                self.send(ws, {"ID": stream, "Type": "Ack", "AckID": message["PostID"]})
        elif kind == "Close":
            self.items = {name: at for name, at in self.items.items() if at != (ws, stream)}
        elif kind != "Request":
            pass
        elif message.get("Domain") == "Login":
            self.send(ws, {"ID": stream, "Type": "Refresh", "Domain": "Login", "State": ok, "Key": {
                "Name": message["Key"]["Name"], "Elements": {"SupportOMMPost": 1, "SupportViewRequests": 0, **self.features}},
                "Elements": {"PingTimeout": 30, "MaxMsgSize": 61440}})
        elif message.get("Domain") == "Source":
            info = {"Name": self.service, "Capabilities": {"Type": "Array", "Data": {"Type": "UInt", "Data": [6, 7, 10]}}}
            state = {"ServiceState": 1, "AcceptingRequests": 1}
            self.send(ws, {"ID": stream, "Type": "Refresh", "Domain": "Source", "State": ok, "Key": {"Filter": 63}, "Map": {
                "KeyType": "UInt", "Entries": [{"Action": "Add", "Key": 1, "FilterList": {"Entries": [
                    {"ID": 1, "Action": "Set", "Elements": info}, {"ID": 2, "Action": "Set", "Elements": state}]}}]}})
        else:
            self.item(ws, stream, message, ok)

    def item(self, ws, stream, message, ok):
        key = message["Key"]
        name, domain = key["Name"], message.get("Domain", "MarketPrice")
        if name.startswith("NONE"):
            state = {"Stream": "Closed", "Data": "Suspect", "Code": "NotFound", "Text": "The record could not be found"}
            return self.send(ws, {"ID": stream, "Type": "Status", "Domain": domain, "State": state})
        if not message.get("Streaming", True):
            ok = {**ok, "Stream": "NonStreaming"}
        else:
            self.items[name] = (ws, stream)
        # A provider may name its service or number it.
        refresh = {"ID": stream, "Type": "Refresh", "Domain": domain, "Key": {"Name": name, "Service": self.service}, "State": ok,
                   **self.header(name)}
        if domain == "MarketByOrder":
            refresh["Map"] = {"KeyType": "AsciiString", "Summary": {"Fields": {"CURRENCY": "USD"}}, "Entries": [
                {"Action": "Add", "Key": f"order {at}", "Fields": order(name, at)} for at in range(40)]}
        elif domain == "SymbolList":
            refresh["Map"] = {"KeyType": "Buffer", "Entries": [symbol("Add", f"{name}.{at}") for at in range(3)]}
        else:
            refresh["Fields"] = image(name, self.generation)
        self.send(ws, refresh)
        self.opened.put(name)

    def header(self, name):
        """What an image of an item has in its header beside the usual."""
        return {}

    def update(self, *pairs):
        """Updates of items, several of one session in one frame."""
        frames = {}
        for name, sequence in pairs:
            ws, stream = self.items[name]
            update = {"ID": stream, "Type": "Update", "UpdateType": "Quote", "SeqNumber": sequence, "Fields": values(name, sequence)}
            frames.setdefault(ws, []).append(update)
        for ws, messages in frames.items():
            self.send(ws, *messages)

    def change_list(self, name, *entries):
        """An update of a symbol list: actions and names."""
        ws, stream = self.items[name]
        entries = [symbol(action, of) for action, of in entries]
        self.send(ws, {"ID": stream, "Type": "Update", "Domain": "SymbolList", "Map": {"KeyType": "Buffer", "Entries": entries}})

    def await_opened(self, *names):
        missing = set(names)
        while missing:
            missing.discard(self.opened.get(timeout=SECONDS))


def symbol(action, name):
    """An entry of a symbol list as an ADS writes it: the name is a buffer."""
    return {"Action": action, "Key": base64.b64encode(name.encode()).decode()}


def order(name, at):
    n = zlib.crc32(f"{name} {at}".encode())
    return {"ORDER_PRC": (1000 + n % 9000) / 100, "ORDER_SIDE": "BID" if n % 2 else "ASK", "ORDER_SIZE": n % 5000}


class Client:
    """One JSON session of the package `websocket-client`, consumer or non-interactive provider."""

    def __init__(self, port, login=True, protocol="tr_json2", role=None, stream=2, ca=None, user="user", **options):
        url = f"{'wss' if ca else 'ws'}://127.0.0.1:{port}/WebSocket"
        if ca:
            options["sslopt"] = {"ca_certs": ca}
        self.ws = websocket.create_connection(url, subprotocols=[protocol], timeout=SECONDS, **options)
        self.left = []
        self.frames = 0
        if login:
            elements = {"ApplicationId": "256", "Position": "127.0.0.1/net", **({"Role": role} if role is not None else {})}
            self.send({"ID": stream, "Domain": "Login", "Key": {"Name": user, "Elements": elements}})
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
            if message == {"Type": "Ping"}:
                self.send({"Type": "Pong"})
            elif all(message.get(name) == value for name, value in want.items()):
                return message

    def request(self, stream, name, **more):
        self.send({"ID": stream, "Key": {"Name": name, **more.pop("key", {})}, **more})

    def closed(self):
        """Reads to the end; the code of the close frame."""
        while True:
            opcode, frame = self.ws.recv_data()
            if opcode == websocket.ABNF.OPCODE_CLOSE:
                return int.from_bytes(frame[:2], "big")


class Publisher:
    """A non-interactive provider over tr_json2."""

    def __init__(self, server, service="PUBLISHED", **options):
        self.client = Client(server.nip_port, role=1, stream=1, **options)
        info = {"Name": service, "Capabilities": {"Type": "Array", "Data": {"Type": "UInt", "Data": [6]}}}
        self.service = service
        self.streams = {}
        self.client.send({"ID": -1, "Type": "Refresh", "Domain": "Source", "State": {"Stream": "Open", "Data": "Ok"},
                          "Solicited": False, "Key": {"Filter": 3}, "Map": {"KeyType": "UInt", "Entries": [
                              {"Action": "Add", "Key": 7, "FilterList": {"Entries": [
                                  {"ID": 1, "Action": "Set", "Elements": info},
                                  {"ID": 2, "Action": "Set", "Elements": {"ServiceState": 1, "AcceptingRequests": 1}}]}}]}})

    def image(self, name, sequence):
        stream = self.streams.setdefault(name, -2 - len(self.streams))
        self.client.send({"ID": stream, "Type": "Refresh", "Solicited": False, "Key": {"Name": name, "Service": self.service},
                          "State": {"Stream": "Open", "Data": "Ok"}, "Fields": image(name, sequence)})

    def update(self, name, sequence):
        self.client.send({"ID": self.streams[name], "Type": "Update", "Fields": values(name, sequence)})

    def kill(self):
        self.client.ws.sock.shutdown(socket.SHUT_RDWR)


class Proxy:
    """A forward proxy that knows CONNECT only."""

    def __init__(self):
        self.tunnels = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.tunnel, args=(client,), daemon=True).start()

    def tunnel(self, client):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += client.recv(1)
        method, target, _ = head.split(b" ", 2)
        assert method == b"CONNECT", head
        host, port = target.decode().rsplit(":", 1)
        server = socket.create_connection((host, int(port)))
        self.tunnels += 1
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        threading.Thread(target=self.pump, args=(client, server), daemon=True).start()
        self.pump(server, client)

    @staticmethod
    def pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
