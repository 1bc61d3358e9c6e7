"""EMA's examples 100 and 360 (streaming market prices, views): `watch.py HOST:PORT SERVICE FIELD,FIELD ITEM...` prints what comes for ten seconds."""

import sys

import quoteway as qw

server, service, fields, *items = sys.argv[1:]
with qw.connect(server) as session:
    book = session.subscribe(items, service=service, fields=fields.split(","))
    for tick in book.updates(timeout=10.0):
        print(tick)
        if all(book.state(item) or tick.is_final for item in items):
            break
    print(book)
