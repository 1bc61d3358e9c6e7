"""The scenarios of `quoteway scenario` with a JSON consumer on websocket-client (scenario_consumer.py) as what is under test."""

import os
import subprocess
import sys

from world import BINARY

# A JSON consumer need not ask for the directory or for dictionaries, and this one has no token and connects to one server: these judge nothing.
NOT_JUDGED = {"standby-dies", "standby-services", "standby-takes-over", "standby-values", "dictionary-refused", "dictionary-unanswered", "dictionary-wrong", "directory-late", "token-expires", "token-refused"}


def test_a_json_consumer_passes_the_scenarios(_):
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scenario_consumer.py")
    run = subprocess.run(
        [BINARY, "scenario", "run", "--all", "--jobs", "8", "--quiet", "--", sys.executable, program, "IBM.N", "TRI.N"],
        capture_output=True, text=True, timeout=170, check=False)
    lines = run.stdout.splitlines()
    failed = {line.split()[1] for line in lines if line.startswith("FAILED ")}
    not_judged = {line.split()[2] for line in lines if line.startswith("not judged ")}
    passed = {line.split()[1] for line in lines if line.startswith("passed ")}
    assert not failed and not_judged == NOT_JUDGED and len(passed) > 50, run.stdout + run.stderr
