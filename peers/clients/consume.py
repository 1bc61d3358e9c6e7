"""What updates cost a program in Python: consume.py MODE HOST:PORT ITEMS WARMUP SECONDS; see README.md.

MODE is arrow (columns of all fields), arrow2 (of two), objects, dicts, callback or async with quoteway, or lseg (callbacks of lseg-data). Those of quoteway count what comes in the time behind
the last image and the warm-up.
"""

import asyncio
import itertools
import sys
import threading
import time

SERVICE = "DIRECT_FEED"
#: All that an update of the SDK's performance tools has.
FIELDS = "QUOTIM QUOTIM_MS BID_TICK_1 GV1_TEXT BID BID_NET_CH BIDSIZE ASK ASKSIZE BID_MMID1 BIDXID ASK_MMID1 ASKXID".split()


class Times:
    """The measured time; what is counted lies in ``updates``."""

    def __init__(self, warmup, seconds):
        self.updates = 0
        self.warmup = warmup
        self.seconds = seconds
        self.begin = None
        self.begins_at = time.monotonic() + warmup
        self.ends_at = None

    def is_over(self):
        now = time.monotonic()
        if self.begin is None:
            if now >= self.begins_at:
                self.begin = (now, time.process_time(), time.thread_time(), self.updates)
                self.ends_at = now + self.seconds
            return False
        if now < self.ends_at:
            return False
        at, process, thread, before = self.begin
        updates = self.updates - before
        of_process, of_thread = time.process_time() - process, time.thread_time() - thread
        print(f"{updates / (now - at):.0f} updates a second, {updates / of_process:.0f} for a second of the processor, {updates / of_thread:.0f} for one of the thread")
        return True


def ours(mode, server, items, warmup, seconds):
    import quoteway as qw

    with qw.connect(server, "user", timeout=30) as session:
        fields = ["BID", "ASK"] if mode == "arrow2" else FIELDS
        book = session.subscribe([f"RDT{item}" for item in range(items)], fields=fields)
        if not book.wait(60):
            sys.exit("not all images have come in 60 s")
        times = Times(warmup, seconds)
        {"arrow": arrow, "arrow2": arrow, "objects": objects, "dicts": dicts, "callback": callback, "async": coroutine}[mode](book, times)


def arrow(book, times):
    for batch in book.batches(10_000):
        # The method by which pyarrow, polars, pandas and DuckDB take it.
        batch.__arrow_c_stream__()
        times.updates += len(batch)
        if times.is_over():
            return


def objects(book, times):
    updates = book.updates()
    while not times.is_over():
        for tick in itertools.islice(updates, 1_000):
            tick["BID"]
        times.updates += 1_000


def dicts(book, times):
    updates = book.updates()
    while not times.is_over():
        for tick in itertools.islice(updates, 1_000):
            tick.dict()
        times.updates += 1_000


class Counter:
    """An application that is called with each tick."""

    def __init__(self, times):
        self.times = times
        self.left = 1_000

    def on_tick(self, tick):
        tick["BID"]
        self.left -= 1
        if self.left:
            return False
        self.left = 1_000
        self.times.updates += 1_000
        return self.times.is_over()


def callback(book, times):
    on_tick = Counter(times).on_tick
    for tick in book.updates():
        if on_tick(tick):
            return


def coroutine(book, times):
    async def main():
        on_tick = Counter(times).on_tick
        async for tick in book.updates():
            if on_tick(tick):
                return

    asyncio.run(main())


def lseg(server, items, warmup, seconds):
    import lseg.data as ld
    from lseg.data.content import pricing

    session = ld.session.platform.Definition(
        app_key="key", deployed_platform_host=server, deployed_platform_username="user", dacs_application_id="256", dacs_position="127.0.0.1"
    ).get_session()
    session.open()
    ld.session.set_default(session)
    refreshed, all_images = set(), threading.Event()

    def on_refresh(fields, name, _):
        refreshed.add(name)
        if len(refreshed) == items:
            all_images.set()

    updates = itertools.count()

    def on_update(fields, name, _):
        fields["BID"]
        next(updates)

    stream = pricing.Definition([f"RDT{item}" for item in range(items)], fields=FIELDS, service=SERVICE).get_stream()
    stream.on_refresh(on_refresh)
    stream.on_update(on_update)
    threading.Thread(target=stream.open, daemon=True).start()
    if not all_images.wait(120):
        sys.exit(f"{len(refreshed)} images of {items} in 120 s")
    times = Times(warmup, seconds)
    over = False
    while not over:
        time.sleep(0.1)
        # A look takes one of the numbers.
        times.updates = next(updates)
        over = times.is_over()
    import os

    os._exit(0)


if __name__ == "__main__":
    mode, server, *numbers = sys.argv[1:]
    items, warmup, seconds = map(int, numbers)
    if mode == "lseg":
        lseg(server, items, warmup, seconds)
    else:
        ours(mode, server, items, warmup, seconds)
