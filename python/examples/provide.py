"""EMA's examples 100 of interactive and non-interactive providers: `provide.py listen HOST:PORT` or `provide.py server HOST:PORT` publishes two items that move, for some seconds."""

import itertools
import sys
import time

import quoteway as qw

side, place, seconds = sys.argv[1:]
with qw.Publisher("DIRECT_FEED", **{side: place}) as feed:
    print(feed.address or place, flush=True)
    until = time.monotonic() + float(seconds)
    for n in itertools.count():
        feed.publish("IBM.N", BID=39.90 + n % 10 / 100, ASK=40.00 + n % 10 / 100, BIDSIZE=9, ASKSIZE=19)
        feed.publish("TRI.N", BID=163.5 + n % 4 / 4, ASK=164.0 + n % 4 / 4)
        if time.monotonic() >= until:
            break
        time.sleep(0.01)
