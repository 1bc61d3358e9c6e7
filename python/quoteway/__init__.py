"""Market data: watch it and publish it, at Quoteway or any RTDS.

    import quoteway as qw

    with qw.connect("localhost:14002") as s:
        book = s.subscribe(["IBM.N", "MSFT.O"], fields=["BID", "ASK"])
        for tick in book.updates():
            print(tick.item, tick["BID"])

A session reads in a thread of its own, goes through its list of servers, logs in again and asks again for what is lost. All waits leave the
interpreter to other threads.
"""

from __future__ import annotations

import asyncio
import getpass
import html
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

from ._native import Batch, NativeBook, NativeFollowed, NativePublisher, NativeSession, QuotewayError, Tick

__all__ = ["Batch", "Book", "Members", "Publisher", "QuotewayError", "Session", "Tick", "connect"]

#: Ticks after which an asynchronous iteration looks at the clock, and the seconds after which it lets other tasks run, though more are there.
_LOOK = 100
_TURN = 0.002
#: Fields that a book shows of each item.
_SHOWN = 8


def connect(
    servers: str | Iterable[str | Iterable[str]],
    user: str | None = None,
    *,
    timeout: float = 10.0,
    application: str | None = None,
    password: str | None = None,
    dictionary: tuple[str, str] | None = None,
    tls: bool = False,
    roots: str | None = None,
    websocket: bool = False,
    standby: str | None = None,
    preferred: str | None = None,
    fall_back: float | None = None,
    fall_back_at: str | None = None,
) -> Session:
    """Connects, logs in, and waits for a service and the dictionary.

    ``servers`` is ``HOST:PORT``, or several, tried in turn now and after each loss. A list of such lists (``[["a:1", "b:1"], ["c:1"]]``, or the text
    ``"a:1,b:1 | c:1"``) is connections that are held at the same time, one out of each: each item is open at one of them, or, with ``standby``
    ``"login"`` or ``"service"``, one serves (all services, or each its own) and the others stand by. ``preferred`` is a server that is tried first after
    every loss and, with ``fall_back``, gone back to after so many seconds elsewhere, or, with ``fall_back_at``, at
    times of day and week by the clock of this place, written as for cron (``"30 6 * * MON-FRI"``). ``dictionary`` is the paths of an RDMFieldDictionary and an
    enumtype.def; without it the dictionary is downloaded. ``roots`` is a PEM file of certificates to trust (and means ``tls``).

    Raises ConnectionError when nobody has answered in ``timeout`` seconds, or the login is refused.
    """
    native = NativeSession(
        _servers(servers),
        user or getpass.getuser(),
        application,
        password,
        dictionary,
        tls,
        roots,
        websocket,
        standby,
        preferred,
        fall_back,
        fall_back_at,
    )
    try:
        native.wait_ready(timeout)
    except BaseException:
        native.close()
        raise
    return Session(native)


def _servers(servers: str | Iterable[str | Iterable[str]]) -> str:
    if isinstance(servers, str):
        return servers
    lists = list(servers)
    if all(isinstance(entry, str) for entry in lists):
        return ",".join(entry for entry in lists if isinstance(entry, str))
    return "|".join(entry if isinstance(entry, str) else ",".join(entry) for entry in lists)


class Session:
    """A session; :func:`connect` makes one. As a context it is closed at the end."""

    def __init__(self, native: NativeSession) -> None:
        self._native = native

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def services(self) -> list[str]:
        """Services that can be used now."""
        return self._native.services()

    @property
    def server(self) -> str | None:
        """Host and port of the server that serves, while there is a connection."""
        return self._native.status()[1]

    @property
    def links(self) -> list[tuple[str | None, bool, bool]]:
        """Of each connection that is held at a time: the server, whether it is logged in, and whether it serves in a warm standby."""
        return self._native.links()

    def fall_back(self) -> int:
        """Leaves servers for the preferred one; how many were left."""
        return self._native.fall_back()

    def pause(self) -> None:
        """Pauses all that is open, with one message to each server. A server that cannot goes on sending."""
        self._native.pause(True)

    def resume(self) -> None:
        """Goes on after :meth:`pause`: images come of what has changed."""
        self._native.pause(False)

    @property
    def is_logged_in(self) -> bool:
        """Whether the login is accepted."""
        return self._native.status()[0]

    @property
    def connections_lost(self) -> int:
        """Connections that were lost or could not be made."""
        return self._native.status()[2]

    def subscribe(
        self,
        items: str | Iterable[str],
        *,
        fields: Iterable[str] | None = None,
        service: str | None = None,
        domain: str = "MarketPrice",
        snapshot: bool = False,
        slow: str | None = None,
        limit_bytes: int = 64 << 20,
    ) -> Book:
        """Watches items: all fields, or those named. Without ``service`` there must be one only.

        ``slow`` says what becomes of a program that is slower than its data, once ``limit_bytes`` wait: ``"wait"`` (nothing is lost here, and the server sees a slow client),
        ``"latest"`` (what has no room becomes the item's image) or ``"cut"`` (the book ends). By default ``latest`` until somebody iterates, and ``wait`` from then on.
        """
        names = [items] if isinstance(items, str) else list(items)
        wanted = None if fields is None else ([fields] if isinstance(fields, str) else list(fields))
        chosen = service or self._only_service()
        return Book(self._native.subscribe(chosen, names, wanted, domain, snapshot, slow, limit_bytes), chosen, wanted)

    def get(
        self, items: str | Iterable[str], *, fields: Iterable[str] | None = None, service: str | None = None, timeout: float = 15.0
    ) -> dict[str, dict[str, Any] | None]:
        """Snapshots: the fields of each item by its name; ``None`` for one that was refused or has not come in time."""
        with self.subscribe(items, fields=fields, service=service, snapshot=True, slow="wait") as book:
            images: dict[str, dict[str, Any] | None] = dict.fromkeys(book.items)
            left = set(images)
            until = time.monotonic() + timeout
            while left and (rest := until - time.monotonic()) > 0:
                tick = book._native.next(rest)
                if tick is None:
                    break
                if tick.kind == "refresh":
                    images[tick.item] = {**(images[tick.item] or {}), **tick.dict()}
                if tick.is_final:
                    left.discard(tick.item)
            return {name: None if name in left else image for name, image in images.items()}

    def follow(
        self,
        name: str,
        *,
        kind: str = "chain",
        fields: Iterable[str] | None = None,
        service: str | None = None,
        limit_bytes: int = 64 << 20,
    ) -> Members:
        """Follows a chain, or with ``kind="list"`` a symbol list: its members are watched, and as they come and go."""
        if kind not in ("chain", "list"):
            raise ValueError(f'kind={kind!r}: give "chain" or "list"')
        wanted = None if fields is None else ([fields] if isinstance(fields, str) else list(fields))
        return Members(self._native.follow(service or self._only_service(), name, kind == "list", wanted, limit_bytes))

    def notices(self, timeout: float = 0.0) -> Iterator[str]:
        """What has happened to connection, login and services, as text, until nothing happens for ``timeout`` seconds."""
        while (notice := self._native.next_notice(timeout)) is not None:
            yield notice

    def renew_login(self, *, token: str | None = None, password: str | None = None) -> None:
        """Renews the token or password of the login, here and at the server."""
        self._native.renew_login(token, password)

    def close(self) -> None:
        """Logs out; books end."""
        self._native.close()

    def _only_service(self) -> str:
        services = self.services
        if len(services) == 1:
            return services[0]
        known = ", ".join(services) or "none"
        raise ValueError(f"service: say which; there are {known}")

    def __repr__(self) -> str:
        try:
            logged_in, server, lost, why = self._native.status()
        except QuotewayError:
            return "<quoteway.Session closed>"
        state = f"at {server}" if logged_in else f"not connected ({why})"
        return f"<quoteway.Session {state}, services {', '.join(self.services) or 'none'}, {lost} connections lost>"


class Book(Mapping[str, "dict[str, Any] | None"]):
    """Items that are watched. As a mapping it has the image of each item by name, as it is now: a ``dict`` of its fields, ``None`` before there is one."""

    def __init__(self, native: NativeBook, service: str, fields: list[str] | None) -> None:
        self._native = native
        self._service = service
        self._fields = fields

    def __enter__(self) -> Book:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def items(self) -> list[str]:  # type: ignore[override]
        """Names of the items."""
        return self._native.items

    def __getitem__(self, item: str) -> dict[str, Any] | None:
        return self._native.image(item)

    def __iter__(self) -> Iterator[str]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def state(self, item: str) -> str | None:
        """State of an item's image, with the reason; ``None`` before there is one."""
        return self._native.state(item)

    def updates(self, timeout: float | None = None) -> Updates:
        """All messages in order, images and states too; for ``for`` and ``async for``. Ends when nothing has come for ``timeout`` seconds."""
        return Updates(self._native, timeout)

    def batches(self, rows: int = 1000, *, timeout: float | None = None, decimals: bool = False) -> Iterator[Batch]:
        """Messages as Arrow columns, up to ``rows`` at a time, as soon as there is one. Ends when nothing has come for ``timeout`` seconds.

        ``decimals`` gives REAL fields as decimal128(38, 14), exact, in place of doubles.
        """
        while (batch := self._native.next_batch(rows, timeout, decimals)) is not None:
            yield batch

    def frame(self, *, decimals: bool = False) -> Batch:
        """The images of all items as they are now, a row each: for ``polars.DataFrame``, ``pandas.DataFrame.from_arrow``, ``pyarrow.table``, DuckDB."""
        return self._native.frame(decimals)

    def wait(self, timeout: float = 10.0) -> bool:
        """Waits until each item has its image or was refused; whether that is so. Iterations begin behind what was taken for it."""
        left = set(self.items)
        until = time.monotonic() + timeout
        while left and (rest := until - time.monotonic()) > 0:
            tick = self._native.next(rest)
            if tick is not None and (tick.kind == "refresh" or tick.is_final):
                left.discard(tick.item)
        return not left

    def pause(self, *items: str) -> None:
        """Pauses these items, or all: no updates come of them; images and states do. A server that can hears of it, when nobody else in this session
        watches the item."""
        self._native.pause(list(items) or None, True)

    def resume(self, *items: str) -> None:
        """Goes on with these items, or all: their images come."""
        self._native.pause(list(items) or None, False)

    def set_priority(self, item: str, priority_class: int, count: int = 1) -> bool:
        """Asks for another priority of an item; false if it has ended."""
        return self._native.set_priority(item, priority_class, count)

    def counts(self) -> dict[str, int]:
        """Messages queued, merged into images, dropped; how often the queue was full; 1 if the book was cut."""
        return self._native.counts()

    def close(self) -> None:
        """Closes the items."""
        self._native.close()

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        images = {item: self[item] for item in self.items[:50]}
        names = self._fields or list(dict.fromkeys(name for image in images.values() for name in image or {}))
        names = names[:_SHOWN]
        cell = lambda value: "" if value is None else str(value)  # noqa: E731
        return names, [[item, *(cell((image or {}).get(name)) for name in names)] for item, image in images.items()]

    def __repr__(self) -> str:
        names, rows = self._rows()
        table = [["item", *names], *rows]
        widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
        lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in table]
        more = [f"... {len(self) - len(rows)} more items"] if len(self) > len(rows) else []
        return "\n".join([f"<quoteway.Book {len(self)} items of {self._service}>", *lines, *more])

    def _repr_html_(self) -> str:
        names, rows = self._rows()
        row = lambda cells, tag: "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"  # noqa: E731
        return "<table>" + row(["item", *names], "th") + "".join(row(cells, "td") for cells in rows) + "</table>"


class Members:
    """The members of a chain or symbol list; :meth:`Session.follow` makes them."""

    def __init__(self, native: NativeFollowed) -> None:
        self._native = native

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def names(self) -> list[str]:
        """Names of the members now, in order."""
        return self._native.members()[0]

    @property
    def is_complete(self) -> bool:
        """Whether the whole chain or list is known, and its members told."""
        return self._native.members()[1]

    def events(self, timeout: float | None = None) -> Iterator[tuple[str, str, Tick | None]]:
        """What happens, in order: ``("joined", name, None)``, ``("message", name, tick)``, ``("left", name, None)``, and ``("broken", name, None)`` when a
        record of the chain, or the list, has ended. Ends when nothing has come for ``timeout`` seconds."""
        while (event := self._native.next(timeout)) is not None:
            yield event

    def close(self) -> None:
        """Closes all."""
        self._native.close()


class Updates(Iterator[Tick], AsyncIterator[Tick]):
    """Messages of a book."""

    def __init__(self, native: NativeBook, timeout: float | None) -> None:
        self._native = native
        self._timeout = timeout
        self._descriptor = -1

    def __iter__(self) -> Updates:
        return self

    def __next__(self) -> Tick:
        tick = self._native.next(self._timeout)
        if tick is None:
            raise StopIteration
        return tick

    def __aiter__(self) -> AsyncIterator[Tick]:
        # A generator is resumed in half the time that a coroutine for each tick takes.
        return self._ticks()

    async def __anext__(self) -> Tick:
        async for tick in self._ticks():
            return tick
        raise StopAsyncIteration

    async def _ticks(self) -> AsyncIterator[Tick]:
        ready, left, until = self._native.next_ready, _LOOK, time.monotonic() + _TURN
        while True:
            while (tick := ready()) is not None:
                yield tick
                left -= 1
                if not left:
                    left = _LOOK
                    if time.monotonic() >= until:
                        await asyncio.sleep(0)
                        until = time.monotonic() + _TURN
            if self._descriptor < 0:
                # Only from now on does a look that finds nothing have the descriptor written to.
                self._descriptor = self._native.wake_descriptor()
            elif not await self._wait():
                return

    async def _wait(self) -> bool:
        """Until the descriptor is readable, for as long as the timeout says."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._descriptor, ready.set)
        try:
            await asyncio.wait_for(ready.wait(), self._timeout)
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self._descriptor)
        self._native.clear_wake()
        return True


class Publisher:
    """A service of your own.

    ``listen="0.0.0.0:14010"``: consumers and servers dial you, as an interactive provider. ``server="host:14003"``: you log in at a server and publish there. Images are held: whoever
    comes later gets them, and so does a server that is back.

    ``certificate=("cert.pem", "key.pem")`` listens with TLS and takes nothing else. ``tls``, ``roots`` and ``websocket`` are for who dials, as in :func:`connect`.
    """

    def __init__(
        self,
        service: str,
        *,
        listen: str | None = None,
        server: str | None = None,
        user: str | None = None,
        service_id: int = 1,
        dictionary: tuple[str, str] | None = None,
        wait_for_unpublished: bool = False,
        certificate: tuple[str, str] | None = None,
        tls: bool = False,
        roots: str | None = None,
        websocket: bool = False,
    ) -> None:
        name = user or getpass.getuser()
        self._native = NativePublisher(service, listen, server, name, service_id, dictionary, wait_for_unpublished, certificate, tls, roots, websocket)
        self._service = service

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str | None:
        """Where it listens."""
        return self._native.address

    def publish(self, item: str, fields: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Publishes fields of an item: the first time they are its image, then an update of it."""
        self._native.publish(item, {**(fields or {}), **more})

    def publish_frame(self, frame: Any, *, item: str = "item") -> int:
        """Publishes the rows of a data frame (pandas, polars), in order: column ``item`` has the names, the others are fields. Gives how many rows."""
        names = [str(name) for name in frame[item].to_list()]
        fields = [str(column) for column in frame.columns if column != item]
        columns = [frame[field].to_list() for field in fields]
        for name, *values in zip(names, *columns):
            self._native.publish(name, dict(zip(fields, values)))
        return len(names)

    def end(self, item: str, text: str = "") -> None:
        """Ends an item: consumers are told that it is closed."""
        self._native.end(item, text)

    def flush(self) -> None:
        """Waits until all that was published is on its way."""
        self._native.flush()

    def events(self, timeout: float = 0.0) -> Iterator[tuple[str, str]]:
        """What has happened, as (``wanted``, item), (``unwanted``, item), (``ready``, ``""``)..., until nothing happens for ``timeout`` seconds."""
        while (event := self._native.next_event(timeout)) is not None:
            yield event

    def close(self) -> None:
        """Ends the service."""
        self._native.close()

    def __repr__(self) -> str:
        try:
            connections, ready, refused, lost = self._native.status()
        except QuotewayError:
            return f"<quoteway.Publisher {self._service} closed>"
        where = f"at {self.address}, {connections} connections" if self.address else ("at its server" if ready else f"not connected ({lost})")
        return f"<quoteway.Publisher {self._service} {where}, {refused} refused>"
