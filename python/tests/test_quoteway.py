"""The module against publishers of its own, and its columns as pyarrow, pandas, polars and DuckDB read them. `scripts/python.sh test` runs it."""

import asyncio
import datetime as dt
import gc
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from decimal import Decimal

import quoteway as qw

PATIENCE = 30.0
EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


def connect(publisher, **more):
    return qw.connect(publisher.address, "tester", timeout=PATIENCE, **more)


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


class Watching(unittest.TestCase):
    def setUp(self):
        self.publisher = qw.Publisher("FEED", listen="127.0.0.1:0")
        self.publisher.publish("A", BID=1.25, ASK=1.5, DSPLY_NAME="ALPHA", TRADE_DATE=dt.date(2026, 11, 29))
        self.publisher.publish("B", {"BID": 2, "ASK": None})
        self.publisher.flush()
        self.session = connect(self.publisher)

    def tearDown(self):
        self.session.close()
        self.publisher.close()

    def test_the_snippet_of_the_readme(self):
        book = self.session.subscribe(["A", "B"], fields=["BID", "ASK"])
        seen = {}
        for tick in book.updates(timeout=PATIENCE):
            seen[tick.item] = (tick["BID"], tick["ASK"])
            if len(seen) == 2:
                break
        self.assertEqual(seen, {"A": (1.25, 1.5), "B": (2.0, None)})

    def test_a_book_rests_and_goes_on(self):
        book = self.session.subscribe("A", fields=["BID"])
        updates = book.updates(timeout=PATIENCE)
        next(updates)
        book.pause()
        self.publisher.publish("A", BID=7)
        self.publisher.flush()
        book.resume("A")
        tick = next(updates)
        self.assertEqual((tick.kind, tick.dict()), ("refresh", {"BID": 7.0}))
        self.assertTrue(book.set_priority("A", 2))
        with self.assertRaises(KeyError):
            book.pause("NONE")
        self.session.pause()
        self.session.resume()

    def test_a_tick_is_a_mapping(self):
        book = self.session.subscribe("A")
        tick = next(book.updates(timeout=PATIENCE))
        self.assertEqual((tick.item, tick.kind, tick.is_final), ("A", "refresh", False))
        self.assertEqual(tick.dict(), {"BID": 1.25, "ASK": 1.5, "DSPLY_NAME": "ALPHA", "TRADE_DATE": dt.date(2026, 11, 29)})
        self.assertEqual((list(tick), len(tick), "BID" in tick, "BIDD" in tick), (list(tick.dict()), 4, True, False))
        self.assertEqual((tick.get("BIDD", 7), tick.get("BID")), (7, 1.25))
        with self.assertRaises(KeyError):
            tick["OPEN_PRC"]
        self.assertAlmostEqual(tick.time_ns / 1e9, time.time(), delta=60)
        self.assertEqual(tick.state, "OPEN/OK/NONE")
        self.assertIn("BID=1.25", repr(tick))

    def test_images_are_as_they_are_now(self):
        book = self.session.subscribe(["A", "NONE"])
        self.assertTrue(book.wait(PATIENCE))
        self.publisher.publish("A", BID=9.75)
        until = time.monotonic() + PATIENCE
        while book["A"]["BID"] != 9.75:
            self.assertLess(time.monotonic(), until)
        self.assertEqual((book["A"]["ASK"], book["NONE"], len(book)), (1.5, None, 2))
        with self.assertRaises(KeyError):
            book["C"]
        self.assertIn("9.75", repr(book))
        self.assertIn("<td>9.75</td>", book._repr_html_())

    def test_snapshots(self):
        got = self.session.get(["A", "NONE", "B"], fields=["ASK"], timeout=PATIENCE)
        self.assertEqual({name: image and image["ASK"] for name, image in got.items() if name != "NONE"}, {"A": 1.5, "B": None})
        self.assertFalse(got["NONE"])

    def test_order_in_a_burst_and_no_other_task_starves(self):
        book = self.session.subscribe("A", fields=["BID"], slow="wait")
        self.assertTrue(book.wait(PATIENCE))
        count = 20_000
        turns = 0

        async def others():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async def main():
            other = asyncio.create_task(others())
            got = []
            async for tick in book.updates(timeout=PATIENCE):
                got.append(tick["BID"])
                if len(got) == count:
                    break
            other.cancel()
            return got

        sender = threading.Thread(target=lambda: [self.publisher.publish("A", BID=n) for n in range(count)])
        sender.start()
        got = asyncio.run(main())
        sender.join()
        self.assertEqual(got, [float(n) for n in range(count)])
        self.assertGreater(turns, 10)

    def test_a_burst_of_images_leaves_the_loop_to_other_tasks(self):
        names = [f"I{n}" for n in range(100_000)]
        for name in names:
            self.publisher.publish(name, BID=1)
        self.publisher.flush()
        book = self.session.subscribe(names, fields=["BID"], slow="wait")
        # All images wait when the iteration begins.
        until = time.monotonic() + PATIENCE
        while book.counts()["queued"] < len(names):
            self.assertLess(time.monotonic(), until)
        longest = turns = 0

        async def others():
            nonlocal longest, turns
            while True:
                begin = time.thread_time()
                try:
                    await asyncio.sleep(0)
                finally:
                    longest, turns = max(longest, time.thread_time() - begin), turns + 1

        async def main():
            other = asyncio.create_task(others())
            await asyncio.sleep(0)
            got = set()
            async for tick in book.updates(timeout=PATIENCE):
                got.add(tick.item)
                if len(got) == len(names):
                    break
            other.cancel()
            return len(got)

        self.assertEqual(asyncio.run(main()), len(names))
        print(f"{turns} turns, the longest of {longest * 1e3:.1f} ms")
        # Time that the thread had of a processor: what else the machine does is nothing that the iteration could help.
        self.assertLess(longest, 0.02)
        self.assertGreater(turns, 5)

    def test_an_async_iteration_ends_after_its_timeout(self):
        book = self.session.subscribe("NONE")

        async def main():
            return [tick.kind async for tick in book.updates(timeout=0.5)]

        self.assertEqual(asyncio.run(main()), ["status"])

    def test_a_slow_program_gets_the_latest(self):
        book = self.session.subscribe("A", slow="latest", limit_bytes=2_000)
        self.assertTrue(book.wait(PATIENCE))
        for n in range(5_000):
            self.publisher.publish("A", BID=n)
        self.publisher.flush()
        last, taken = None, 0
        for tick in book.updates(timeout=PATIENCE):
            last, taken = tick.get("BID", last), taken + 1
            if last == 4_999:
                break
        self.assertLess(taken, 2_500)
        self.assertGreater(book.counts()["merged"], 2_500)

    def test_errors_say_what_to_do(self):
        with self.assertRaisesRegex(ValueError, "no field BIDD"):
            self.publisher.publish("A", BIDD=1)
        with self.assertRaisesRegex(ValueError, "BID is of type"):
            self.publisher.publish("A", BID="high")
        with self.assertRaisesRegex(ValueError, "no field BIDD"):
            self.session.subscribe("A", fields=["BIDD"])
        with self.assertRaisesRegex(ValueError, "HOST:PORT"):
            qw.connect("a:b")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with self.assertRaisesRegex(ConnectionError, "not connected yet"):
            qw.connect(f"127.0.0.1:{port}", timeout=0.3)
        book = self.session.subscribe("A")
        with self.assertRaisesRegex(qw.QuotewayError, "fields="):
            book.frame()
        book.close()
        with self.assertRaisesRegex(qw.QuotewayError, "closed"):
            book.counts()

    def test_a_server_that_is_back_has_its_items_again(self):
        book = self.session.subscribe(["A"], fields=["BID"])
        self.assertTrue(book.wait(PATIENCE))
        address = self.publisher.address
        self.publisher.close()
        kinds = []
        for tick in book.updates(timeout=PATIENCE):
            kinds.append((tick.kind, "SUSPECT" in (tick.state or "")))
            break
        self.assertEqual(kinds, [("status", True)])
        self.publisher = qw.Publisher("FEED", listen=address)
        self.publisher.publish("A", BID=77)
        tick = next(book.updates(timeout=PATIENCE))
        self.assertEqual((tick.kind, tick["BID"]), ("refresh", 77.0))

    def test_sessions_leave_nothing_behind(self):
        def cycle():
            with connect(self.publisher) as session:
                book = session.subscribe(["A", "B"], fields=["BID"])
                self.assertTrue(book.wait(PATIENCE))

        cycle()
        gc.collect()
        held = lambda: (open_descriptors(), threading.active_count(), len(os.listdir("/proc/self/task")))
        before = held()
        for _ in range(int(os.environ.get("QUOTEWAY_CYCLES", "30"))):
            cycle()
        gc.collect()
        # Fewer are no fault: a thread of a test before may have ended meanwhile.
        self.assertTrue(all(now <= then for now, then in zip(held(), before)), f"{held()} after, {before} before")


class Following(unittest.TestCase):
    def test_a_chain_is_followed_as_it_changes(self):
        with qw.Publisher("FEED", listen="127.0.0.1:0", wait_for_unpublished=True) as publisher, connect(publisher) as session:
            for name in "ABC":
                publisher.publish(name, BID=1)
            publisher.publish("0#X", LINK_1="A", LINK_2="B", NEXT_LR="")
            with self.assertRaises(ValueError):
                session.follow("0#X", kind="lists")
            with session.follow("0#X", fields=["BID"]) as members:
                seen, imaged = set(), set()
                for kind, name, tick in members.events(timeout=PATIENCE):
                    if kind == "joined":
                        seen.add(name)
                    elif kind == "left":
                        seen.discard(name)
                        imaged.discard(name)
                    elif tick is not None and tick.kind == "refresh":
                        self.assertEqual((tick.item, tick["BID"]), (name, 1.0))
                        imaged.add(name)
                    if imaged == {"A", "B"} and "A" in seen:
                        self.assertEqual((members.names, members.is_complete), (["A", "B"], True))
                        publisher.publish("0#X", LINK_1="C")
                    if imaged == seen == {"B", "C"}:
                        break
                self.assertEqual(members.names, ["C", "B"])


class SeveralServers(unittest.TestCase):
    def setUp(self):
        self.publishers = [qw.Publisher("FEED", listen="127.0.0.1:0") for _ in range(2)]
        for publisher in self.publishers:
            publisher.publish("A", BID=1)
            publisher.flush()
        self.addresses = [publisher.address for publisher in self.publishers]

    def tearDown(self):
        for publisher in self.publishers:
            publisher.close()

    def test_a_standby_takes_over(self):
        with qw.connect([[address] for address in self.addresses], "tester", timeout=PATIENCE, standby="login") as session:
            self.assertEqual(session.server, self.addresses[0])
            book = session.subscribe("A", fields=["BID"])
            self.assertTrue(book.wait(PATIENCE))
            self.publishers[0].close()
            self.publishers[1].publish("A", BID=2)
            for tick in book.updates(timeout=PATIENCE):
                if tick.get("BID") == 2.0:
                    break
            self.assertEqual(session.server, self.addresses[1])
            self.assertEqual([serves for _, _, serves in session.links], [False, True])
            self.assertIn("connection 2 serves all services", list(session.notices()))

    def test_items_are_routed_and_a_preferred_server_is_gone_back_to(self):
        with qw.connect(" | ".join(self.addresses), "tester", timeout=PATIENCE) as session:
            self.assertEqual(next(session.subscribe("A").updates(timeout=PATIENCE))["BID"], 1.0)
        with qw.connect(["127.0.0.1:1", self.addresses[1]], "tester", timeout=PATIENCE, preferred=self.addresses[1]) as session:
            self.assertEqual((session.server, session.fall_back()), (self.addresses[1], 0))
        for wrong in ({"standby": "both"}, {"preferred": "elsewhere:1"}, {"fall_back": 1.0}, {"preferred": self.addresses[0], "fall_back_at": "noon"}):
            with self.assertRaises(ValueError):
                qw.connect(self.addresses, "tester", **wrong)


class Columns(unittest.TestCase):
    """The same rows, as four readers have them."""

    def setUp(self):
        self.publisher = qw.Publisher("FEED", listen="127.0.0.1:0")
        self.publisher.publish("A", BID=1.25, ACVOL_1=10, DSPLY_NAME="ALPHA", TRADE_DATE=dt.date(2024, 2, 29), TRDTIM_1=dt.time(9, 30, 1), PRCTCK_1=1)
        self.session = connect(self.publisher)
        fields = ["BID", "ACVOL_1", "DSPLY_NAME", "TRADE_DATE", "TRDTIM_1", "PRCTCK_1"]
        self.book = self.session.subscribe(["B", "A"], fields=fields)
        self.assertTrue(self.book.wait(PATIENCE))
        for n in range(100):
            self.publisher.publish("A", BID=n / 4)

    def tearDown(self):
        self.session.close()
        self.publisher.close()

    def rows(self, **more):
        batches, count = [], 0
        for batch in self.book.batches(30, timeout=PATIENCE, **more):
            self.assertLessEqual(len(batch), 30)
            batches.append(batch)
            count += len(batch)
            if count == 100:
                return batches
        self.fail(f"{count} rows")

    def test_batches_in_pyarrow(self):
        import pyarrow as pa

        table = pa.concat_tables(pa.table(batch) for batch in self.rows())
        self.assertEqual(table["BID"].to_pylist(), [n / 4 for n in range(100)])
        self.assertEqual(table["ACVOL_1"].null_count, 100)
        self.assertEqual(set(table["item"].to_pylist()), {"A"})
        self.assertEqual(set(table["kind"].to_pylist()), {"update"})
        seq = table["seq"].to_pylist()
        self.assertEqual(seq, list(range(seq[0], seq[0] + 100)))
        self.assertEqual(table.schema.field("time").type, pa.timestamp("ns", tz="UTC"))

    def test_decimals_are_exact(self):
        import pyarrow as pa

        table = pa.concat_tables(pa.table(batch) for batch in self.rows(decimals=True))
        self.assertEqual(table.schema.field("BID").type, pa.decimal128(38, 14))
        self.assertEqual(table["BID"].to_pylist(), [Decimal(n) / 4 for n in range(100)])

    def test_frames_in_pandas_polars_and_duckdb(self):
        import duckdb
        import pandas
        import polars

        self.rows()
        frame = self.book.frame()
        expected = {"BID": 24.75, "DSPLY_NAME": "ALPHA", "TRADE_DATE": dt.date(2024, 2, 29)}
        of_polars = polars.DataFrame(frame).row(0, named=True)
        of_pandas = pandas.DataFrame.from_arrow(frame).iloc[0].to_dict()
        relation = duckdb.sql("select * from frame")
        of_duckdb = dict(zip(relation.columns, relation.fetchall()[0]))
        for row in (of_polars, of_pandas, of_duckdb):
            self.assertEqual({name: row[name] for name in expected}, expected)
            self.assertEqual((row["item"], row["TRDTIM_1"]), ("A", (9 * 3600 + 30 * 60 + 1) * 1_000_000_000))
            self.assertEqual(row["PRCTCK_1"], 1)
        self.assertEqual(len(frame), 1)


class Publishing(unittest.TestCase):
    def test_a_data_frame_becomes_a_service(self):
        import pandas

        frame = pandas.DataFrame({"item": ["X", "Y", "X"], "BID": [1.5, 2.5, float("nan")], "ASK": [3.0, 4.0, 5.0]})
        with qw.Publisher("MINE", listen="127.0.0.1:0") as publisher:
            self.assertEqual(publisher.publish_frame(frame), 3)
            publisher.flush()
            with connect(publisher) as session:
                self.assertEqual(session.services, ["MINE"])
                got = session.get(["X", "Y"], timeout=PATIENCE)
        self.assertEqual(got, {"X": {"BID": None, "ASK": 5.0}, "Y": {"BID": 2.5, "ASK": 4.0}})

    def test_wishes_are_told(self):
        with qw.Publisher("MINE", listen="127.0.0.1:0", wait_for_unpublished=True) as publisher, connect(publisher) as session:
            book = session.subscribe("LATER", fields=["BID"])
            self.assertEqual(next(publisher.events(PATIENCE)), ("wanted", "LATER"))
            publisher.publish("LATER", BID=3)
            self.assertEqual(next(book.updates(timeout=PATIENCE))["BID"], 3.0)
            book.close()
            self.assertEqual(next(publisher.events(PATIENCE)), ("unwanted", "LATER"))

    def test_both_sides_encrypt(self):
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = (os.path.join(folder, name) for name in ("certificate.pem", "key.pem"))
            words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
            subprocess.run(["openssl", *words.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
            with qw.Publisher("MINE", listen="127.0.0.1:0", certificate=(certificate, key)) as publisher:
                publisher.publish("A", BID=3)
                publisher.flush()
                for websocket in (False, True):
                    with connect(publisher, roots=certificate, websocket=websocket) as session:
                        self.assertEqual(session.get(["A"], timeout=PATIENCE)["A"], {"BID": 3.0})
                    # A publisher that dials logs in wherever a login is taken.
                    with qw.Publisher("OTHER", server=publisher.address, roots=certificate, websocket=websocket) as dialling:
                        self.assertEqual(next(dialling.events(PATIENCE)), ("ready", ""))
                with self.assertRaises(ConnectionError):
                    qw.connect(publisher.address, "tester", timeout=0.5)
                for wrong in ({"listen": "127.0.0.1:0", "tls": True}, {"server": publisher.address, "certificate": (certificate, key)}):
                    with self.assertRaises(ValueError):
                        qw.Publisher("OTHER", **wrong)
                with self.assertRaises(qw.QuotewayError):
                    qw.Publisher("OTHER", server=publisher.address, roots=key)


class Examples(unittest.TestCase):
    """Each runs as it is printed, against another one of them."""

    def run_example(self, name, *args):
        done = subprocess.run([sys.executable, EXAMPLES / name, *args], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_they_work_with_each_other(self):
        with subprocess.Popen(
            [sys.executable, EXAMPLES / "provide.py", "listen", "127.0.0.1:0", "100"], stdout=subprocess.PIPE, text=True
        ) as provider, tempfile.TemporaryDirectory() as folder:
            try:
                server = provider.stdout.readline().strip()
                watched = self.run_example("watch.py", server, "DIRECT_FEED", "BID,ASK", "IBM.N", "NONE")
                self.assertRegex(watched, r"<IBM.N refresh BID=\d+\.?\d* ASK=\d+")
                self.assertIn("<quoteway.Book 2 items of DIRECT_FEED>", watched)
                got = self.run_example("snapshots.py", server, "DIRECT_FEED", "TRI.N", "NONE")
                self.assertRegex(got, r"TRI.N \{'BID': 16[34]")
                self.assertIn("NONE not there", got)
                file = str(pathlib.Path(folder, "ticks.parquet"))
                rows = self.run_example("columns.py", server, "DIRECT_FEED", file, "1", "IBM.N", "TRI.N")
                import polars

                frame = polars.read_parquet(file)
                self.assertEqual(f"{len(frame)} rows\n", rows)
                self.assertEqual(set(frame["item"]), {"IBM.N", "TRI.N"})
                self.assertTrue((frame["seq"].diff().drop_nulls() == 1).all())
            finally:
                provider.kill()

    def test_those_of_the_training_series(self):
        sys.path.insert(0, str(EXAMPLES))
        import training

        providers = [qw.Publisher("FEED", listen="127.0.0.1:0") for _ in range(2)]
        over = threading.Event()

        def move():
            n = 0
            while not over.wait(0.02):
                n += 1
                for provider in providers:
                    provider.publish("A", BID=n, ASK=n + 1)
                    provider.publish("B", BID=n)

        mover = threading.Thread(target=move)
        mover.start()
        first, second = (provider.address for provider in providers)
        servers = {"470": f"{first}|{second}", "500": f"127.0.0.1:1,{second}", "510": f"{first}|{second}"}
        try:
            # A publisher of Python has market prices alone, and no WebSocket: those examples run at a server.
            providers[0].publish("0#X", LINK_1="A", NEXT_LR="")
            for number in sorted(set(training.EXAMPLES) - {"140", "180", "210", "270"}):
                items = ["0#X"] if number == "chain" else ["A", "B"]
                with self.subTest(number):
                    self.assertTrue(self.run_example("training.py", number, servers.get(number, first), "FEED", *items))
        finally:
            over.set()
            mover.join()
            for provider in providers:
                provider.close()


if __name__ == "__main__":
    result = unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    failed = len(result.failures) + len(result.errors)
    # As `scripts/test.sh` counts.
    print(f"interop: {result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(not result.wasSuccessful())
