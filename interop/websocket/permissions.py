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

    def __init__(self, folder, provider, rights, config):
        self.rights, self.audit = os.path.join(folder, "rights.toml"), os.path.join(folder, "audit.jsonl")
        self.write(rights)
        files = f'rights_file = "{self.rights}"\naudit_file = "{self.audit}"\n'
        self.server = Server(f'[permissions]\nmode = "on"\n{files}{config}', [provider.port])

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

    def login(self, user, position="127.0.0.1/net"):
        """The answer to a login, and the client."""
        client = Client(self.server.port, login=False)
        client.send({"ID": 2, "Domain": "Login", "Key": {"Name": user, "Elements": {"ApplicationId": "256", "Position": position}}})
        return client.next(ID=2), client

    def client(self, user):
        """Logged in, with the service there."""
        client = Client(self.server.port, user=user)
        client.send({"ID": 3, "Domain": "Source", "Key": {"Filter": 63}})
        while SERVICE not in str(client.next(ID=3)):
            pass
        return client


@contextlib.contextmanager
def site(rights, config=""):
    provider = LockedProvider()
    with tempfile.TemporaryDirectory() as folder:
        place = Site(folder, provider, rights, config)
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
        state = place.login("one")[0]["State"]
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


def test_positions_are_counted(_):
    with site(f"[users.one]\nmax_positions = 1\n[users.one.grants]\n{SERVICE} = [1]\n") as (place, _provider):
        # The clients are kept: who is no longer on has no position.
        here, _first = place.login("one", "10.0.0.1/here")
        again, _second = place.login("one", "10.0.0.1/here")
        there, _third = place.login("one", "10.0.0.2/there")
        assert (here["Type"], again["Type"], there["Type"]) == ("Refresh", "Refresh", "Status"), there
        state = there["State"]
        assert (state["Stream"], state["Data"], state["Code"]) == ("Closed", "Suspect", "MaxLoginsReached"), state
        assert state["Text"] == "Maximum of 1 simultaneous positions reached", state
        place.await_audit('"event":"login_denied"', '"position":"10.0.0.2/there"')


def test_the_source_of_rights_is_lost_and_back(_):
    with site(TWO, 'fail = "closed"\n') as (place, provider):
        one = place.client("one")
        one.request(5, "A1")
        seen(one, 5)
        os.unlink(place.rights)
        end = time.monotonic() + SECONDS
        while (answer := place.login("both")[0])["Type"] == "Refresh":
            assert time.monotonic() < end, "logins are refused without rights"
        state = answer["State"]
        assert (state["Stream"], state["Data"], state["Code"]) == ("ClosedRecover", "Suspect", "DacsDown"), state
        assert state["Text"] == "Permissioning system is not available", state
        # Who is on stays on.
        provider.update(("A1", 5))
        assert one.next(ID=5, Type="Update")["Fields"] == values("A1", 5)
        place.write(TWO)
        while place.login("both")[0]["Type"] != "Refresh":
            assert time.monotonic() < end, "logins are taken with rights"


def test_posts_need_a_right(_):
    with site(f'{TWO}[users.both.post]\n{SERVICE} = ["A1"]\n') as (place, provider):
        post = {"ID": 5, "Type": "Post", "PostID": 1, "Ack": True, "Message": {"ID": 0, "Type": "Update", "Fields": {"BID": 1.25}}}
        acks = []
        for user in ("one", "both"):
            client = place.client(user)
            client.request(5, "A1")
            seen(client, 5)
            client.send(post)
            acks.append(client.next(ID=5, Type="Ack"))
        denied_ack, taken = acks
        assert denied_ack["NakCode"] == "AccessDenied", denied_ack
        assert denied_ack["Text"] == "Access Denied: User not permissioned to post to this item", denied_ack
        assert "NakCode" not in taken, taken
        assert provider.posts.get(timeout=SECONDS)["Message"]["Fields"] == {"BID": 1.25} and provider.posts.empty()
        place.await_audit('"event":"post_denied"', '"user":"one"')
        place.await_audit('"event":"post"', '"user":"both"')


def test_late_joiners_from_a_cache_are_checked(_):
    with site(TWO, "[p2ps]\nenable_cache = true\n") as (place, provider):
        both = place.client("both")
        both.request(5, "A2")
        seen(both, 5)
        provider.update(("A2", 3))
        assert both.next(ID=5)["Fields"] == values("A2", 3)
        one, late = place.client("one"), place.client("both")
        one.request(5, "A2")
        denied(one, 5)
        late.request(5, "A2")
        assert seen(late, 5)["Fields"] == {**image("A2", provider.generation), **values("A2", 3)}
        assert provider.opened.get(timeout=SECONDS) == "A2" and provider.opened.empty(), "the cache answers"
