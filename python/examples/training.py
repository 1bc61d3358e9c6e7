"""What EMA's training examples for consumers show, under their numbers: `training.py NUMBER HOST:PORT SERVICE ITEM...` prints what comes, and ends when
all that the example is about has come. docs/operating/ema-training.md has the list."""

import asyncio
import sys
import threading

import quoteway as qw

PATIENCE = 20.0


def watch(servers, service, items, enough=lambda kinds: {"refresh", "update"} <= kinds, connect=None, **more):
    """Items, until an image and an update have come, or what else is enough."""
    with qw.connect(servers, "training", timeout=PATIENCE, **(connect or {})) as session:
        book = session.subscribe(items, service=service, **more)
        kinds = set()
        for tick in book.updates(timeout=PATIENCE):
            print(tick)
            kinds.add(tick.kind)
            if enough(kinds):
                return session, book
    sys.exit("nothing more comes")


def imaged(kinds):
    return "refresh" in kinds


def snapshots(servers, service, items):
    with qw.connect(servers, "training", timeout=PATIENCE) as session:
        for item, image in session.get(items, service=service, timeout=PATIENCE).items():
            print(item, image)


def walk(servers, service, items):
    with qw.connect(servers, "training", timeout=PATIENCE) as session:
        tick = next(session.subscribe(items, service=service).updates(timeout=PATIENCE))
        for name, value in tick.dict().items():
            print("field", name, type(value).__name__, value)


def dispatch(servers, service, items):
    """In an event loop of the program's own."""

    async def main(session):
        async for tick in session.subscribe(items, service=service).updates(timeout=PATIENCE):
            print(tick)
            if tick.kind == "update":
                return

    with qw.connect(servers, "training", timeout=PATIENCE) as session:
        asyncio.run(main(session))


def channel(servers, service, items):
    with qw.connect(servers, "training", timeout=PATIENCE) as session:
        print("server", session.server, "lost", session.connections_lost)


def members(servers, service, items, kind):
    with qw.connect(servers, "training", timeout=PATIENCE) as session:
        followed = session.follow(items[0], kind=kind, service=service)
        for what, name, tick in followed.events(timeout=PATIENCE):
            print(what, name, tick or "")
            if tick and followed.is_complete:
                return
    sys.exit("nothing more comes")


def count(servers, service, items):
    with qw.connect(servers, "training", timeout=PATIENCE) as session:
        book = session.subscribe(items, service=service, fields=["BID", "ASK"])
        print("messages", sum(len(batch) for _, batch in zip(range(3), book.batches(1000, timeout=PATIENCE))))


def close_and_open(servers, service, items):
    for _ in range(2):
        watch(servers, service, items, imaged)
        print("closed")


def priority(servers, service, items):
    with qw.connect(servers, "training", timeout=PATIENCE) as session:
        book = session.subscribe(items, service=service)
        updates = book.updates(timeout=PATIENCE)
        print(next(updates))
        print("changed", book.set_priority(items[0], 5))
        print(next(updates))


def pause_all(servers, service, items):
    with qw.connect(servers, "training", timeout=PATIENCE) as session:
        book = session.subscribe(items, service=service)
        print(next(book.updates(timeout=PATIENCE)))
        session.pause()
        for tick in book.updates(timeout=1.0):
            print("before the pause", tick)
        session.resume()
        print(next(book.updates(timeout=PATIENCE)))


def notices(servers, service, items):
    with qw.connect(servers, "training", timeout=PATIENCE) as session:
        print(*session.notices(), sep="\n")


def directory(servers, service, items):
    with qw.connect(servers, "training", timeout=PATIENCE) as session:
        print("service", *session.services)


def batch(servers, service, items):
    with qw.connect(servers, "training", timeout=PATIENCE) as session:
        book = session.subscribe(items, service=service)
        if not book.wait(PATIENCE):
            sys.exit("not all have come")
        print(book)


def two_sessions(servers, service, items):
    threads = [threading.Thread(target=watch, args=(servers, service, items)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def preferred(servers, service, items):
    last = servers.split(",")[-1]
    with qw.connect(servers, "training", timeout=PATIENCE, preferred=last, fall_back=60.0) as session:
        print("server", session.server, "left", session.fall_back())


EXAMPLES = {
    "100": watch,
    "102": snapshots,
    "120": walk,
    "130": dispatch,
    "140": lambda *of: watch(*of, imaged, domain="MarketByOrder"),
    "170": channel,
    "180": lambda *of: watch(*of, imaged, {"websocket": True}),
    "200": watch,
    "210": lambda *of: watch(*of, imaged, domain="MarketByOrder"),
    "270": lambda *of: members(*of, "list"),
    "280": count,
    "300": close_and_open,
    "301": priority,
    "330": notices,
    "331": directory,
    "350": pause_all,
    "360": lambda *of: watch(*of, imaged, fields=["BID", "ASK"]),
    "370": batch,
    "410": two_sessions,
    "470": lambda *of: watch(*of, connect={"standby": "login"}),
    "500": preferred,
    "510": watch,
    "chain": lambda *of: members(*of, "chain"),
}

if __name__ == "__main__":
    number, servers, service, *items = sys.argv[1:]
    EXAMPLES[number](servers, service, items)
