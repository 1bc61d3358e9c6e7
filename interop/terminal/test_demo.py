#!/usr/bin/env python3
"""The demo as people see it: in a terminal, by its keys, at the sizes that terminals have.

A terminal of the system's own (pty) shows what pyte, an emulator, makes of the bytes. QUOTEWAY_BIN names the binary; with SHOW=1 each screen
that is looked at is printed.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pyte

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BINARY = os.environ.get("QUOTEWAY_BIN", os.path.join(ROOT, "target/debug/quoteway"))
# How long a machine that does other things may take for what is waited for.
SECONDS = 60
PORTS = ["--rssl-port", "0", "--nip-port", "0", "--http-port", "0"]


class Terminal:
    """A program in a terminal of so many columns and rows."""

    def __init__(self, columns, rows, *args):
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.side, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            [BINARY, "demo", *PORTS, *args], stdin=other, stdout=other, stderr=other, env=environment, start_new_session=True
        )
        os.close(other)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        os.close(self.side)

    def read(self, seconds):
        """Takes what has been written, for so long at most."""
        if select.select([self.side], [], [], seconds)[0]:
            try:
                self.stream.feed(os.read(self.side, 1 << 16))
            except OSError:  # the program has ended
                pass

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def press(self, key):
        os.write(self.side, key.encode())

    def wait(self, what, is_there):
        """Waits until the screen shows something; the screen's lines."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            self.read(0.2)
            if is_there(self.lines()):
                if os.environ.get("SHOW"):
                    print(f"--- {what}", *self.lines(), sep="\n")
                return self.lines()
        raise AssertionError(f"the screen does not show that {what}:\n" + "\n".join(self.lines()))


QUOTE = re.compile(r"│([A-Z0-9.=]+)( +)[\d,.]+ +[\d.]+ +[\d.]+ +")


def quotes(lines):
    """The names that have prices, and the blanks between name and first number."""
    return {found[1]: len(found[2]) for line in lines if (found := QUOTE.match(line))}


def has(text):
    return lambda lines: any(text in line for line in lines)


def lacks(text):
    return lambda lines: not any(text in line for line in lines)


def live(names):
    """All of them have prices, nothing is suspect, and updates come."""

    def is_there(lines):
        rate = next((int(found[1].replace(",", "")) for line in lines if (found := re.match(r"┌ ([\d,]+) updates/s", line))), 0)
        return len(quotes(lines)) >= names and lacks("suspect")(lines) and has("connected")(lines[:1]) and rate > 0

    return is_there


def faults_are_shown_and_end_at_80x24():
    with Terminal(80, 24) as terminal:
        terminal.wait("ten of twelve items have prices", live(10))
        terminal.press("d")
        lines = terminal.wait("the service is down", lambda lines: has("service down")(lines[:1]) and has("12 suspect")(lines))
        assert has("the service is down: d brings it back")(lines), "what the key has done is said"
        assert len(quotes(lines)) == 10, "what was known stays"
        terminal.press("d")
        terminal.wait("all are good again", lambda lines: live(10)(lines) and has("the service is back")(lines))
        terminal.press("u")
        terminal.wait("all are suspect", lambda lines: has("12 suspect")(lines) and has("all items are suspect: u makes them good")(lines))
        terminal.press("u")
        terminal.wait("all are good again", live(10))
        terminal.press("x")
        terminal.wait("what the key has done is said", has("the source's connection was cut: it is dialled again"))
        terminal.wait("the source is back", live(10))
        terminal.press("q")
        end = time.monotonic() + SECONDS
        while terminal.process.poll() is None and time.monotonic() < end:
            terminal.read(0.2)
        assert terminal.process.poll() == 0, f"q ends it, {terminal.process.poll()}"


def keys_are_explained_at_80x24():
    with Terminal(80, 24) as terminal:
        terminal.wait("ten of twelve items have prices", live(10))
        terminal.press("?")
        explained = ("d", "takes its service down"), ("u", "all items are suspect"), ("x", "connection is cut off")
        said = lambda key, what: lambda lines: any(re.search(rf"(^|\W){key}\W", line) and what in line for line in lines)
        lines = terminal.wait("the keys are explained", lambda lines: all(said(*one)(lines) for one in explained))
        assert all(len(line) <= 80 for line in lines)


def names_stand_by_their_numbers_at(columns, rows):
    with Terminal(columns, rows) as terminal:
        lines = terminal.wait("all items have prices", live(10))
        shown = quotes(lines)
        assert max(shown.values()) <= 30, f"blanks between names and numbers: {shown}"
        frames = [line for line in lines if line.startswith("┌") or line.startswith("└")]
        assert all(len(line) == columns for line in frames), f"frames as wide as the terminal: {[len(line) for line in frames]}"


TESTS = {
    "faults are shown and end at 80x24": faults_are_shown_and_end_at_80x24,
    "keys are explained at 80x24": keys_are_explained_at_80x24,
    "names stand by their numbers at 160x45": lambda: names_stand_by_their_numbers_at(160, 45),
    "names stand by their numbers at 100x28": lambda: names_stand_by_their_numbers_at(100, 28),
}


def main():
    passed = failed = 0
    for name, test in TESTS.items():
        if sys.argv[1:] and not any(part in name for part in sys.argv[1:]):
            continue
        try:
            test()
            passed += 1
            print(f"ok      {name}", flush=True)
        except AssertionError as e:
            failed += 1
            print(f"FAILED  {name}: {e}", flush=True)
    print(f"interop: {passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
