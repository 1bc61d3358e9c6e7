"""A JSON consumer for `quoteway scenario`, on the package `websocket-client`: `python3 scenario_consumer.py ITEM..`, of the server that
QUOTEWAY_PORT names.

It logs in, opens its items, asks again for what it lost, with pauses, writes what it uses of its items, and posts once a second.
"""

import json
import os
import sys
import threading
import time

import websocket

PAUSE = 1.0


class Consumer:
    """One session after the other, with the same items."""

    def __init__(self, address, items):
        self.address = address
        self.items = list(items)
        self.fields = {item: set() for item in items}
        self.good = dict.fromkeys(items, False)
        self.streams = {}
        self.next_stream = 2
        self.post = 0
        self.socket = None
        self.logged_in = False
        self.lock = threading.Lock()

    def send(self, message):
        self.socket.send(json.dumps(message))

    def open(self, item):
        stream, self.next_stream = self.next_stream, self.next_stream + 1
        self.streams[stream] = item
        self.send({"ID": stream, "Key": {"Name": item}})

    def later(self, item):
        """Asks again after a pause, if the session is still the same."""
        session = self.socket

        def again():
            with self.lock:
                if self.socket is session and self.logged_in:
                    self.open(item)

        timer = threading.Timer(PAUSE, again)
        timer.daemon = True
        timer.start()

    def login(self, message):
        state = message.get("State", {"Stream": "Open", "Data": "Ok"})
        if state["Stream"] != "Open":
            # Closed takes all streams with it: the session has nothing more to say.
            self.logged_in = False
            self.good = dict.fromkeys(self.good, False)
            self.socket.close()
        elif message["Type"] == "Refresh" and not self.logged_in:
            self.logged_in = True
            for item in self.items:
                self.open(item)

    def item(self, item, message):
        kind = message["Type"]
        if kind == "Refresh":
            if message.get("ClearCache", True):
                self.fields[item].clear()
        if kind in ("Refresh", "Update"):
            self.fields[item].update(message.get("Fields", {}))
        state = message.get("State")
        if state is None:
            return
        self.good[item] = state["Data"] == "Ok" and state["Stream"] in ("Open", "NonStreaming")
        if state["Stream"] == "ClosedRecover":
            self.streams.pop(message["ID"])
            self.later(item)
        elif state["Stream"] == "Redirected":
            self.streams.pop(message["ID"])
            name = message["Key"]["Name"]
            self.fields[name], self.good[name] = set(), False
            self.items[self.items.index(item)] = name
            self.open(name)
        elif state["Stream"] == "Closed":
            self.streams.pop(message["ID"])
            self.items.remove(item)

    def message(self, message):
        if message["Type"] == "Ping":
            self.send({"Type": "Pong"})
        elif message.get("Domain") == "Login":
            self.login(message)
        elif message.get("ID") in self.streams:
            self.item(self.streams[message["ID"]], message)

    def session(self):
        """One connection, from its beginning to its end."""
        self.socket = websocket.create_connection(
            f"ws://{self.address}/WebSocket", subprotocols=["tr_json2"], timeout=5)
        # Who hears nothing for the ping timeout, 30 s where the server says nothing else, ends the session.
        timeout = 30
        self.send({"ID": 1, "Domain": "Login", "Key": {"Name": "user", "Elements": {"ApplicationId": "256", "Position": "127.0.0.1"}}})
        self.socket.settimeout(1)
        heard = pinged = time.monotonic()
        while True:
            try:
                messages = json.loads(self.socket.recv())
                heard = time.monotonic()
            except websocket.WebSocketTimeoutException:
                messages = []
            with self.lock:
                for message in messages if isinstance(messages, list) else [messages]:
                    timeout = message.get("Elements", {}).get("PingTimeout", timeout)
                    self.message(message)
                now = time.monotonic()
                if now > heard + timeout:
                    raise OSError("nothing was heard for the ping timeout")
                if now > pinged + timeout / 3:
                    pinged = now
                    self.send({"Type": "Ping"})

    def posts(self):
        stream = next((stream for stream, item in self.streams.items() if self.good.get(item)), None)
        if self.logged_in and stream is not None:
            self.post += 1
            message = {"ID": stream, "Type": "Update", "Fields": {"BID": self.post}}
            self.send({"ID": stream, "Type": "Post", "Domain": "MarketPrice", "Ack": True, "PostID": self.post, "Message": message})

    def report(self):
        while True:
            time.sleep(0.3)
            with self.lock:
                for item in self.items:
                    fields = self.fields[item] if self.good[item] else ()
                    print("uses", item, *(f"{NUMBERS[field]}=1" for field in fields if field in NUMBERS) if fields else ("nothing",), flush=True)
                if time.monotonic() > self.posted + 1:
                    self.posted = time.monotonic()
                    try:
                        self.posts()
                    except (OSError, websocket.WebSocketException):
                        pass

    def run(self):
        self.posted = time.monotonic()
        threading.Thread(target=self.report, daemon=True).start()
        while True:
            try:
                self.session()
            except (OSError, websocket.WebSocketException, ValueError) as error:
                print(f"the session is over: {error}", file=sys.stderr)
            with self.lock:
                self.logged_in = False
                self.streams.clear()
                self.good = dict.fromkeys(self.good, False)
                if self.socket is not None:
                    # At once: a server that says nothing does not answer a close either.
                    self.socket.shutdown()
            time.sleep(PAUSE)


NUMBERS = {"TIMACT": 5, "TRADE_DATE": 16, "TRDPRC_1": 6, "BID": 22, "ASK": 25, "BIDSIZE": 30, "ASKSIZE": 31}

if __name__ == "__main__":
    Consumer(f"127.0.0.1:{os.environ['QUOTEWAY_PORT']}", sys.argv[1:]).run()
