"""A minute of updates as a Parquet file, by polars: `columns.py HOST:PORT SERVICE FILE SECONDS ITEM...`."""

import sys
import time

import polars
import quoteway as qw

server, service, file, seconds, *items = sys.argv[1:]
until = time.monotonic() + float(seconds)
with qw.connect(server) as session:
    book = session.subscribe(items, service=service, fields=["BID", "ASK", "BIDSIZE", "ASKSIZE"])
    frames = []
    for batch in book.batches(10_000, timeout=float(seconds)):
        frames.append(polars.DataFrame(batch))
        if time.monotonic() >= until:
            break
polars.concat(frames).write_parquet(file)
print(sum(map(len, frames)), "rows")
