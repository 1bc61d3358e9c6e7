"""The programs for Python that the documentation prints: run as they are, but for ports and places of files."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import tomllib

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from snippets import printed, replaced  # noqa: E402
from world import SECONDS, SERVICE, Provider, Server, image, values  # noqa: E402

PORT = "localhost:14002"


@contextlib.contextmanager
def running(text):
    """A program of its own; gives the frames that it prints. One that hangs is ended, which ends what it prints."""
    with subprocess.Popen([sys.executable, "-u", "-c", text], stdout=subprocess.PIPE, text=True) as program:
        patience = threading.Timer(SECONDS, program.kill)
        patience.start()
        try:
            yield (json.loads(line) for line in program.stdout)
        finally:
            patience.cancel()
            program.kill()


def test_the_documentations_lines_for_python_stream(server):
    text = printed("websocket.md", "From Python", "python")
    with running(replaced(text, (PORT, f"localhost:{server.port}"))) as messages:
        login = next(messages)
        assert (login["ID"], login["Domain"], login["State"]["Stream"], login["Key"]["Name"]) == (1, "Login", "Open", "me"), login
        refresh = next(messages)
        assert (refresh["ID"], refresh["Key"]) == (5, {"Service": SERVICE, "Name": "IBM.N"}), refresh
        assert refresh["Fields"] == image("IBM.N", server.provider.generation), refresh
        for sequence in range(1, 11):
            server.provider.update(("IBM.N", sequence))
            update = next(messages)
            assert (update["ID"], update["Fields"]) == (5, values("IBM.N", sequence)), update


def test_the_documentations_lines_for_python_live_on(_):
    """Both programs that print what comes answer pings: they are still there after several times the silence that closes."""
    silence = 3
    provider = Provider()
    config = f"[p2ps]\nwebsocket_ping_timeout_s = {silence}\n"
    server = Server(config, routes=[provider.port])
    try:
        for page, heading in [("websocket.md", "From Python"), ("../../README.md", "Try it")]:
            text = replaced(printed(page, heading, "python"), (PORT, f"localhost:{server.port}"))
            with running(text) as messages:
                for message in messages:
                    if message["Type"] == "Refresh" and message["ID"] == 5:
                        break
                # Nothing is sent to it but pings, which it does not print; then an update comes as the next message.
                time.sleep(3 * silence)
                provider.update(("IBM.N", 1))
                update = next(messages, None)
                assert update and update["Type"] == "Update", f"{page}: {update}"
    finally:
        server.stop()
        provider.stop()


def test_the_documentations_token_logs_in(server):
    """The settings and the program that makes a key and a token."""
    settings, program = (printed("websocket.md", "Tokens", language) for language in ("toml", "python"))
    place = tomllib.loads(settings)["p2ps"]["token_keys_file"]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as keys:
        # What the file holds before the program writes its key: somebody else's.
        json.dump({"keys": [{"kty": "EC", "crv": "P-256", "kid": "other", "x": 43 * "A", "y": 43 * "A"}]}, keys)
        keys.flush()
        guard = Server(replaced(settings, (place, keys.name)), routes=[server.provider.port])
        try:
            with running(replaced(program, (place, keys.name), (PORT, f"localhost:{guard.port}"))) as frames:
                [login] = next(frames)
                assert (login["Type"], login["State"]["Stream"], login["Key"]["Name"]) == ("Refresh", "Open", "me"), login
                assert "AuthenticationTTReissue" in login["Key"]["Elements"], login
        finally:
            guard.stop()
