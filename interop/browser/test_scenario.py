"""The page of the test stand (`quoteway scenario serve`) in headless Chromium: a client stays connected, scenarios are chosen, steps are seen.

QUOTEWAY_BIN and QUOTEWAY_SCREENSHOTS as for test_page.py. The last line counts the tests. Without Chromium they are skipped, with that reason.
"""

import json
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request

from test_page import BINARY, CHROMIUM, READY, SECONDS, SHOTS, Browser, Started

STATE = "(document.querySelector('.scenario-run .badge') ?? {}).textContent"
WIDTHS = [(1280, 800), (420, 860)]


class Stand:
    """A test stand, and the test client as the client that stays connected."""

    def __init__(self):
        self.all, self.client = [], None
        try:
            rssl, self.url = self.start(READY, "scenario", "serve", "--listen", "127.0.0.1:0", "--http-port", "0").at
            client = [BINARY, "test-client", "-h", "127.0.0.1", "-p", rssl, "-S", "DIRECT_FEED", "-il", "IBM.N"]
            self.client = subprocess.Popen(client, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except BaseException:
            self.stop()
            raise

    def start(self, pattern, *args):
        self.all.append(Started(pattern, *args))
        return self.all[-1]

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + "api/v1/" + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.load(answer)

    def stop(self):
        if self.client:
            self.client.kill()
            self.client.wait()
        for one in reversed(self.all):
            one.stop()


def run(page, name):
    page.value(f"document.querySelector('[aria-label=\"Run {name}\"]').click()")
    page.wait(f"document.querySelector('.scenario-run h2').textContent === '{name}'", "the run")


def test_a_scenario_is_chosen_and_its_steps_are_seen_as_they_happen(page, stand):
    page.open(stand.url, *WIDTHS[0])
    page.wait("document.querySelector('.scenario-stand .badge').textContent === '1 connected'", "the client")
    assert page.value("document.querySelectorAll('.scenario-row').length") > 70
    run(page, "item-suspect")
    page.wait("document.querySelector('.step.doing code').textContent.includes('for 3 s')", "the step that takes three seconds")
    assert page.value("document.querySelectorAll('.step.done').length") >= 2
    page.wait(f"{STATE} === 'passed'", "the verdict")
    page.wait("document.querySelectorAll('.step').length === document.querySelectorAll('.step.done').length", "all steps done")
    page.value("document.querySelector('.scenario-run summary').click()")
    page.wait("document.querySelectorAll('.scenario-message').length > 10 && document.querySelector('.scenario-message pre').innerText.length > 20", "the last messages")


def test_what_was_wrong_is_shown_with_rule_and_source(page, stand):
    page.open(stand.url + "#scenario", *WIDTHS[0])
    page.wait("document.querySelectorAll('.scenario-row').length > 70", "the scenarios")
    run(page, "post-refused")
    page.wait(f"{STATE} === 'not judged'", "a client that posts nothing is not judged")
    page.wait("document.querySelector('.scenario-findings').textContent.includes('Not judged: line')", "why")


def test_a_run_is_stopped_and_begun_again(page, stand):
    page.open(stand.url + "#scenario", *WIDTHS[0])
    page.wait("document.querySelectorAll('.scenario-row').length > 70", "the scenarios")
    run(page, "server-away")
    press = "[...document.querySelectorAll('.scenario-run button')].find(b => b.textContent === '{}').click()"
    page.value(press.format("Stop"))
    page.wait(f"{STATE} === 'not judged'", "its end")
    page.value(press.format("Run again"))
    page.wait(f"{STATE} === 'playing'", "the run")
    page.value(press.format("Stop"))
    page.wait(f"{STATE} === 'not judged'", "its end")


def test_scenarios_are_found_by_a_word(page, stand):
    page.open(stand.url + "#scenario", *WIDTHS[0])
    page.wait("document.querySelectorAll('.scenario-row').length > 70", "the scenarios")
    page.value("(s => { s.value = 'clear-cache'; s.dispatchEvent(new Event('input')) })(document.querySelector('.scenarios .search'))")
    assert page.value("document.querySelectorAll('.scenario-row').length") < 10
    assert "image-clear-cache" in page.value("document.querySelector('.scenario-list').textContent")


def test_orders_that_cannot_be_followed_are_answered_with_why(page, stand):
    for body, why in [({"scenario": "item-suspct"}, "did you mean item-suspect?"), ({"scenario": "provider-view"}, "judges a provider"), ({"scenario": "standby-dies"}, "two servers"), ({"scenario": "item-suspect", "seed": "x"}, "no seed")]:
        try:
            stand.ask("scenarios/run", body)
        except urllib.error.HTTPError as error:
            said = json.load(error)["error"]
            assert why in said, said
        else:
            raise AssertionError(f"{body} was followed")


def test_every_width_and_both_themes_look_right(page, stand):
    for width, height in WIDTHS:
        for dark in [True, False]:
            page.open(stand.url + "#scenario", width, height, dark)
            page.wait("document.querySelectorAll('.scenario-row').length > 70", "the scenarios")
            run(page, "item-closed-recover")
            page.wait("document.querySelectorAll('.step.done').length >= 1", "its first step")
            wide = page.value("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)")
            assert wide <= width, f"at {width} it is {wide} wide"
            if SHOTS:
                time.sleep(1)
                page.picture(f"scenario-{width}-{'dark' if dark else 'light'}")


def main():
    if CHROMIUM is None:
        print("skipped: Chromium is not installed (Debian: chromium)\ninterop: 0 passed, 0 failed, 1 skipped")
        return
    stand, browser = Stand(), Browser()
    passed, failed = 0, 0
    try:
        for name, test in list(globals().items()):
            if not name.startswith("test_") or len(sys.argv) > 1 and not any(arg in name for arg in sys.argv[1:]):
                continue
            try:
                test(browser, stand)
                assert not browser.problems, browser.problems
                passed += 1
                print(f"ok      {name[5:].replace('_', ' ')}")
            except Exception:
                failed += 1
                print(f"FAILED  {name[5:].replace('_', ' ')}\n{traceback.format_exc()}\n{browser.problems}")
    finally:
        browser.stop()
        stand.stop()
    print(f"interop: {passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
