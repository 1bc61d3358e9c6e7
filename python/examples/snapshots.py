"""EMA's examples 102 and 370 (snapshots, batches): `snapshots.py HOST:PORT SERVICE ITEM...` prints the fields of each item once."""

import sys

import quoteway as qw

server, service, *items = sys.argv[1:]
with qw.connect(server) as session:
    for item, image in session.get(items, service=service).items():
        print(item, "not there" if image is None else image)
