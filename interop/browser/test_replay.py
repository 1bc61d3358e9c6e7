"""The page's view of replays and recordings in headless Chromium, by what a person sees and does.

QUOTEWAY_BIN and QUOTEWAY_SCREENSHOTS as for test_page.py. The last line counts the tests. Without Chromium they are skipped, with that reason.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request

from test_page import BINARY, CHROMIUM, READY, SECONDS, SHOTS, SOURCE, Browser, Started

PORTS = ["--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0"]
STATE = "document.querySelector('.replay .badge').textContent"
WIDTHS = [(800, 700), (400, 760)]


class Played:
    """A recording with a gap, in a server that plays it and records itself."""

    def __init__(self):
        self.all, self.dir = [], tempfile.mkdtemp()
        try:
            at = self.start(r"is published on ([^;\s]+)", *SOURCE).at[0]
            rssl, _ = self.start(READY, "serve", *PORTS, "--route", at).at
            today = os.path.join(self.dir, "today")
            for _ in range(2):
                record = ["record", today, "--server", f"127.0.0.1:{rssl}", "--service", "DIRECT_FEED", "--item-list", "RDT{0..9}", "--seconds", "3", "--interval", "0"]
                subprocess.run([BINARY, *record], check=True, stderr=subprocess.DEVNULL)
            config = os.path.join(self.dir, "q.toml")
            with open(config, "w") as file:
                file.write(f'[replay.today]\nfolders = ["{today}"]\npaused = true\n[record]\nfolder = "{self.dir}/own"\nservices = ["DIRECT_FEED"]\nitems = ["RDT0"]\n')
            self.url = self.start(READY, "serve", *PORTS, "--config", config).at[1]
        except BaseException:
            self.stop()
            raise

    def start(self, pattern, *args):
        self.all.append(Started(pattern, *args))
        return self.all[-1]

    def replay(self):
        with urllib.request.urlopen(self.url + "api/v1/replays", timeout=SECONDS) as answer:
            return json.load(answer)[0]

    def stop(self):
        for one in reversed(self.all):
            one.stop()
        shutil.rmtree(self.dir, ignore_errors=True)


def press(page, text):
    page.value(f"[...document.querySelectorAll('.replay button')].find(b => b.textContent === {json.dumps(text)}).click()")


def test_the_bar_has_span_rate_and_gap(page, played):
    page.open(played.url + "#replay", *WIDTHS[0])
    page.wait(f"{STATE} === 'paused'", "the replay")
    page.wait("document.querySelector('.replay .area').getAttribute('d').length > 200", "its rate")
    page.wait("document.querySelectorAll('.replay .gaps i').length >= 1", "its gap")
    first = played.replay()["from"][11:19]
    page.wait(f"document.querySelector('.replay .bar-ends').innerText.includes({json.dumps(first)})", "when it begins")
    page.wait("document.querySelectorAll('.replay').length === 2 && document.body.innerText.includes('Recording')", "what is recorded here")


def test_it_goes_pauses_steps_and_has_another_speed(page, played):
    page.open(played.url + "#replay", *WIDTHS[0])
    page.wait(f"{STATE} === 'paused'", "the replay")
    before = played.replay()["time"]
    press(page, "Step 10")
    page.wait("document.querySelector('.bar-time').textContent.length > 20", "a time")
    wait(lambda: played.replay()["time"] != before, "ten messages")
    page.value("(s => { s.value = '0.1'; s.dispatchEvent(new Event('change')) })(document.querySelector('.replay select'))")
    wait(lambda: played.replay()["speed"] == "0.1", "another speed")
    press(page, "▶")
    page.wait(f"{STATE} === 'running'", "it runs")
    press(page, "❚❚")
    page.wait(f"{STATE} === 'paused'", "it stands still")
    press(page, "↻ Loop")
    wait(lambda: played.replay()["repeats"], "it begins anew at the end")


def test_a_time_is_chosen_on_the_bar_and_by_keys(page, played):
    page.open(played.url + "#replay", *WIDTHS[1])
    page.wait(f"{STATE} === 'paused'", "the replay")
    x, y, width = page.value("(b => [b.left, b.top + b.height / 2, b.width])(document.querySelector('.replay .bar').getBoundingClientRect())")
    for kind, at in [("mousePressed", 0.2), ("mouseMoved", 0.4), ("mouseMoved", 0.5), ("mouseReleased", 0.5)]:
        page.call("Input.dispatchMouseEvent", type=kind, x=x + at * width, y=y, button="left", buttons=1, clickCount=1)
    share = lambda: (lambda r: (r["time_ms"] - r["from_ms"]) / (r["to_ms"] - r["from_ms"]))(played.replay())
    wait(lambda: abs(share() - 0.5) < 0.02, "the middle")
    page.value("document.activeElement.blur()")
    page.key("ArrowRight")
    wait(lambda: share() > 0.51, "a skip")
    page.key("Home")
    wait(lambda: share() < 0.01, "the beginning")
    page.value("(i => { i.value = 'noon'; i.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' })) })(document.querySelector('.bar-goal'))")
    page.wait("document.querySelector('#toast').textContent.includes('write a time of UTC')", "what was wrong")


def test_the_market_has_it_in_a_line(page, played):
    page.open(played.url + "#market", *WIDTHS[0])
    page.wait("!document.querySelector('#strip').hidden && document.querySelector('#strip .bar-time').textContent.length > 20", "the line")
    page.open(played.url + "#system", *WIDTHS[0])
    page.wait("document.querySelector('#strip').hidden", "nowhere else")


def test_every_width_and_both_themes_look_right(page, played):
    for width, height in WIDTHS:
        for dark in [True, False]:
            for view in ["replay", "market"]:
                page.open(played.url + "#" + view, width, height, dark)
                page.wait(f"{STATE} === 'paused'" if view == "replay" else "document.querySelector('#strip .bar-time').textContent", view)
                wide = page.value("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)")
                assert wide <= width, f"{view} at {width} is {wide} wide"
                time.sleep(1.5 if SHOTS else 0)
                page.picture(f"{view}-{width}-{'dark' if dark else 'light'}")


def wait(holds, what):
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, f"{what}: not within {SECONDS} s"
        time.sleep(0.1)


def main():
    if CHROMIUM is None:
        print("skipped: Chromium is not installed (Debian: chromium)\ninterop: 0 passed, 0 failed, 1 skipped")
        return
    played, browser = Played(), Browser()
    passed, failed = 0, 0
    try:
        for name, test in list(globals().items()):
            if not name.startswith("test_") or len(sys.argv) > 1 and not any(arg in name for arg in sys.argv[1:]):
                continue
            try:
                test(browser, played)
                assert not browser.problems or name == "test_a_time_is_chosen_on_the_bar_and_by_keys", browser.problems
                passed += 1
                print(f"ok      {name[5:].replace('_', ' ')}")
            except Exception:
                failed += 1
                print(f"FAILED  {name[5:].replace('_', ' ')}\n{traceback.format_exc()}\n{browser.problems}")
    finally:
        browser.stop()
        played.stop()
    print(f"interop: {passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
