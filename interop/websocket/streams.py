"""What clients do with open streams over JSON, as the provider and the client see it: private streams, pauses, generic messages."""

import contextlib
import queue

from world import SECONDS, Client, Provider, Server, image, values


class Attentive(Provider):
    """It says that it pauses, keeps what it is asked for, and sends generic messages back."""

    features = {"SupportOptimizedPauseResume": 1}

    def start(self):
        self.requests = queue.Queue()
        super().start()

    def answer(self, ws, message):
        kind = message.get("Type", "Request")
        if kind == "Generic":
            self.send(ws, {**message, "SeqNumber": message["SeqNumber"] + 100})
        elif kind == "Request" and message.get("Domain") not in ("Login", "Source"):
            self.requests.put(message)
            if message.get("Refresh", True):
                super().answer(ws, message)
        else:
            super().answer(ws, message)

    def header(self, name):
        return {"Private": True} if name.startswith("MINE") else {}

    def asked(self, name, **want):
        """The next request, which is for this item and says this."""
        request = self.requests.get(timeout=SECONDS)
        said = {what: request.get(what, False) for what in want}
        assert (request["Key"]["Name"], said) == (name, want), request
        return request


@contextlib.contextmanager
def attended(server):
    provider = Attentive()
    own = Server(routes=[provider.port])
    try:
        server.awake(own.port)
        yield provider, own
    finally:
        own.stop()
        provider.stop()


def test_a_private_stream_is_its_clients_own(server):
    with attended(server) as (provider, own):
        for client in (Client(own.port), Client(own.port)):
            client.request(5, "MINE", Private=True)
            provider.asked("MINE", Private=True)
            refresh = client.next(ID=5)
            assert refresh["Private"] and refresh["Fields"] == image("MINE", 0), refresh


def test_generic_messages_go_both_ways(server):
    with attended(server) as (provider, own):
        client = Client(own.port)
        client.request(5, "TALK")
        assert client.next(ID=5)["Type"] == "Refresh"
        for sequence in range(1, 11):
            client.send({"ID": 5, "Type": "Generic", "SeqNumber": sequence, "Elements": {"Text": f"hello {sequence}", "N": sequence}})
        for sequence in range(1, 11):
            answer = client.next(ID=5, Type="Generic")
            assert answer["SeqNumber"] == sequence + 100, answer
            assert answer["Elements"] == {"Text": f"hello {sequence}", "N": sequence}, answer


def test_items_rest_while_they_are_paused(server):
    with attended(server) as (provider, own):
        client = Client(own.port)
        names = ["REST.A", "REST.B"]
        for at, name in enumerate(names):
            client.request(5 + at, name)
            provider.asked(name, Pause=False)
            assert client.next(ID=5 + at)["Type"] == "Refresh"
        # One of them alone.
        client.request(5, "REST.A", Pause=True, Refresh=False)
        provider.asked("REST.A", Pause=True)
        provider.update(("REST.B", 1))
        assert client.next()["Fields"] == values("REST.B", 1)
        client.request(5, "REST.A")
        provider.asked("REST.A", Pause=False)
        assert client.next(ID=5)["Type"] == "Refresh"
        # All of them, by the login.
        login = {"ID": 2, "Domain": "Login", "Refresh": False, "Key": {"Name": "user"}}
        client.send({**login, "Pause": True})
        assert sorted(provider.requests.get(timeout=SECONDS)["Key"]["Name"] for _ in names) == names
        client.send({**login, "Pause": False})
        resumed = [provider.requests.get(timeout=SECONDS) for _ in names]
        assert sorted((request["Key"]["Name"], request.get("Pause", False)) for request in resumed) == [(name, False) for name in names]
        for name in names:
            provider.update((name, 7))
        updates = [client.next(Type="Update") for _ in names]
        assert sorted((update["ID"], update["SeqNumber"]) for update in updates) == [(5, 7), (6, 7)], updates
