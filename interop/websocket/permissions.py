"""Who may see what over JSON: what EMA is shown at a site with permissions, WebSocket clients are shown as well.

An item's lock follows from its name: "A2" is of the permission entity 2, "A" has none.
"""

import base64
import contextlib
import os
import tempfile
import time

from world import SECONDS, SERVICE, Client, Provider, Server, image, values

DENIED = "Access Denied: User req to PE(2)"
TWO = f"[users.one.grants]\n{SERVICE} = [1]\n[users.both.grants]\n{SERVICE} = [1, 2]\n"


def lock(entity):
    return base64.b64encode(bytes([3, 0, 1, entity << 4 | 0xC])).decode()


class LockedProvider(Provider):
    def header(self, name):
        return {"PermData": lock(int(name[-1]))} if name[-1].isdigit() else {}

    def relock(self, name, entity):
        ws, stream = self.items[name]
        state = {"Stream": "Open", "Data": "Ok", "Text": "another lock"}
        self.send(ws, {"ID": stream, "Type": "Status", "State": state, "PermData": lock(entity)})


class Site:
    """A rights file, a server that reads it, and its audit."""

    def __init__(self, folder, provider, rights):
        self.rights, self.audit = os.path.join(folder, "rights.toml"), os.path.join(folder, "audit.jsonl")
        self.write(rights)
        self.server = Server(f'[permissions]\nmode = "on"\nrights_file = "{self.rights}"\naudit_file = "{self.audit}"\n', [provider.port])

    def write(self, rights):
        """Replaces the rights as an editor does: at once."""
        with open(self.rights + ".next", "w") as file:
            file.write(f'version = "1"\n[services.{SERVICE}]\nid = 1\n{rights}')
        os.replace(file.name, self.rights)

    def await_audit(self, *parts):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            with open(self.audit) as file:
                if any(all(part in line for part in parts) for line in file):
                    return
        raise AssertionError(f"no audit line with {parts}")

    def client(self, user):
        """Logged in, with the service there."""
        client = Client(self.server.port, user=user)
        client.send({"ID": 3, "Domain": "Source", "Key": {"Filter": 63}})
        while SERVICE not in str(client.next(ID=3)):
            pass
        return client


@contextlib.contextmanager
def site(rights):
    provider = LockedProvider()
    with tempfile.TemporaryDirectory() as folder:
        place = Site(folder, provider, rights)
        try:
            yield place, provider
        finally:
            place.server.stop()
            provider.stop()


def denied(client, stream, text=DENIED):
    status = client.next(ID=stream)
    state = status["State"]
    assert (status["Type"], state["Stream"], state["Data"]) == ("Status", "Closed", "Suspect"), status
    assert (state["Code"], state["Text"]) == ("NotEntitled", text), status


def seen(client, stream):
    refresh = client.next(ID=stream)
    assert refresh["Type"] == "Refresh" and refresh["State"]["Data"] == "Ok", refresh
    return refresh


def test_denied_items_among_granted_ones(_):
    with site(TWO) as (place, provider):
        one, both = place.client("one"), place.client("both")
        one.send({"ID": 10, "Key": {"Name": ["A1", "A2", "A"]}})
        assert one.next(ID=10)["State"]["Text"] == "Processed 3 total items from Batch Request. 3 Ok."
        answers = {}
        while len(answers) < 3:
            answer = one.next()
            answers[answer["ID"]] = answer["Type"]
        assert answers == {11: "Refresh", 12: "Status", 13: "Refresh"}, answers
        both.request(5, "A2")
        assert seen(both, 5)["Fields"] == image("A2", provider.generation)
        # Late joiner, snapshot, view: whatever the way, the item is denied.
        for stream, more in ((20, {}), (21, {"Streaming": False}), (22, {"View": ["BID"]})):
            one.request(stream, "A2", **more)
            denied(one, stream)
        provider.update(("A2", 7), ("A1", 7))
        assert both.next(ID=5)["Fields"] == values("A2", 7)
        update = one.next(Type="Update")
        assert (update["ID"], update["Fields"]) == (11, values("A1", 7)), update
        place.await_audit('"event":"denied"', '"user":"one"', '"item":"A2"', '"lock":"1: 2"')
        place.await_audit('"event":"start_watch"', '"user":"both"', '"item":"A2"', '"verdict":"granted"')


def test_locks_and_rights_change_while_streams_are_open(_):
    with site(TWO) as (place, provider):
        one, both = place.client("one"), place.client("both")
        for client in (both, one):
            client.request(5, "A1")
            seen(client, 5)
        provider.relock("A1", 2)
        denied(one, 5)
        assert both.next(ID=5)["Type"] == "Status"
        provider.update(("A1", 3))
        assert both.next(ID=5)["Fields"] == values("A1", 3)
        place.write(f"[users.both.grants]\n{SERVICE} = [1]\n[users.one.grants]\n{SERVICE} = [1]\n")
        denied(both, 5)
        # New rights open nothing by themselves, and what is asked for under them is answered.
        place.write(TWO)
        end, stream = time.monotonic() + SECONDS, 6
        while True:
            both.request(stream, "A2")
            if both.next(ID=stream)["Type"] == "Refresh":
                break
            stream += 1
            assert time.monotonic() < end, "the right is not back"
        provider.update(("A2", 4))
        assert both.next(Type="Update")["ID"] == stream


def test_a_user_is_forced_out_and_comes_back(_):
    with site(TWO) as (place, provider):
        one, both = place.client("one"), place.client("both")
        for client in (one, both):
            client.request(5, "A1")
            seen(client, 5)
        place.write(f"[users.both.grants]\n{SERVICE} = [1, 2]\n")
        status = one.next(ID=2, Type="Status")
        assert (status["State"]["Stream"], status["State"]["Text"]) == ("Closed", "Force Logout from DACS."), status
        provider.update(("A1", 9))
        assert both.next(ID=5)["Fields"] == values("A1", 9)
        refused = Client(place.server.port, login=False)
        refused.send({"ID": 2, "Domain": "Login", "Key": {"Name": "one", "Elements": {"ApplicationId": "256", "Position": "127.0.0.1/net"}}})
        state = refused.next(ID=2)["State"]
        assert state["Stream"] == "Closed" and "User unknown to permissioning system" in state["Text"], state
        place.write(TWO)
        end = time.monotonic() + SECONDS
        while True:
            try:
                back = place.client("one")
                break
            except AssertionError:
                assert time.monotonic() < end, "the user is not back"
        back.request(5, "A1")
        seen(back, 5)
