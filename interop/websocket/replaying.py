"""What lseg-data and refinitiv-data have of a time that was recorded: a replay behind a server, opened in the middle."""

import contextlib
import datetime
import queue
import re
import subprocess
import tempfile
import threading
import time

from libraries import LIBRARIES, library, plain
from world import BINARY, SECONDS, SERVICE, Server, image, values


class Tool:
    """A `quoteway` of which a line of standard error says that it is ready."""

    def __init__(self, sign, *arguments):
        self.process = subprocess.Popen([BINARY, *arguments], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            self.ready = re.search(sign, line)
            if self.ready:
                break
        else:
            raise AssertionError(f"{arguments[0]} has ended:\n" + "".join(lines))
        self.lines = queue.Queue()
        threading.Thread(target=lambda: [self.lines.put(line) for line in self.process.stderr], daemon=True).start()

    def tell(self, order):
        """Has a replay do something, and waits until it has."""
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        while "the replay is at" not in self.lines.get(timeout=SECONDS):
            pass

    def end(self):
        self.process.terminate()
        assert self.process.wait(SECONDS) == 0


def await_recorded(folder, updates):
    end = time.monotonic() + SECONDS
    while True:
        info = subprocess.run([BINARY, "record", "info", folder, "--json"], capture_output=True, text=True)
        found = re.search(r'"update":\{"bytes":\d+,"records":(\d+)', info.stdout)
        if found and int(found.group(1)) >= updates:
            return
        assert time.monotonic() < end, f"{updates} updates are not recorded: {info.stdout}{info.stderr}"
        time.sleep(0.02)


@contextlib.contextmanager
def replayed(server, item):
    """A server in front of a replay of ten updates, a moment, and ten more; the replay; and the moment, of which there is a service beside."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Tool("is recorded into", "record", folder, "--server", f"127.0.0.1:{server.port}", "--service", SERVICE,
                        "--item-list", item, "--interval", "0")
        server.provider.await_opened(item)
        for sequence in range(1, 11):
            server.provider.update((item, sequence))
        await_recorded(folder, 10)
        moment = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        for sequence in range(11, 21):
            server.provider.update((item, sequence))
        await_recorded(folder, 20)
        recorder.end()
        # The replay itself waits for items that nobody opens.
        replay = Tool(r"is replayed on \S+:(\d+),", "replay", folder, "--port", "0", "--interval", "0", "--speed", "max",
                      "--from", moment, "--start-on-open", "1000000", "--at", moment)
        own = Server("[source_distributor]\nrecovery_interval_ms = 100\n"
                     f'[[route]]\nhost_list = ["127.0.0.1:{replay.ready.group(1)}"]\n')
        try:
            server.awake(own.port)
            yield own, replay, moment
        finally:
            own.stop()
            replay.process.kill()
            replay.process.wait()


def test_the_libraries_have_the_image_of_a_time_and_what_came_from_there_on(server):
    for name in LIBRARIES:
        item = f"PAST.{name}"
        then = plain({**image(item, server.provider.generation), **values(item, 10)})
        with replayed(server, item) as (own, replay, _), library(name, own) as (ld, _):
            refreshes, updates = queue.Queue(), queue.Queue()
            stream = ld.content.pricing.Definition([item]).get_stream()
            stream.on_refresh(lambda fields, *_: refreshes.put(fields))
            stream.on_update(lambda fields, *_: updates.put(fields))
            stream.open()
            assert plain(refreshes.get(timeout=SECONDS)) == then
            replay.tell("go")
            # Two messages that come together the library may hand on in either order.
            got = sorted((updates.get(timeout=SECONDS) for _ in range(10)), key=lambda fields: fields["TRDVOL_1"])
            assert list(map(plain, got)) == [plain(values(item, sequence)) for sequence in range(11, 21)], got


def test_the_libraries_name_a_time_in_an_item_or_in_a_service(server):
    for name in LIBRARIES:
        item = f"NAMED.{name}"
        then = plain({**image(item, server.provider.generation), **values(item, 10)})
        with replayed(server, item) as (own, _, moment), library(name, own) as (ld, _):
            # A service is named as it is served: without zeros at the end of its seconds.
            of_then = f"{SERVICE}@{re.sub(r'[.]?(000)*Z$', 'Z', moment)}"
            # Who watches the same time shares where it has come to; so this is another one, at which everything was the same.
            sooner = datetime.datetime.fromisoformat(moment) - datetime.timedelta(milliseconds=1)
            sooner = sooner.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            for wanted, service in ((f"{item}@{sooner}", SERVICE), (item, of_then)):
                snapshots, updates = queue.Queue(), queue.Queue()
                stream = ld.content.pricing.Definition([wanted], service=service).get_stream()
                stream.on_refresh(lambda fields, *_: snapshots.put(plain(fields)))
                stream.open(with_updates=False)
                assert snapshots.get(timeout=SECONDS) == then, (wanted, service)
                stream.close()
                # As fast as possible, so that the library may have merged the first updates into what it calls the image.
                stream = ld.content.pricing.Definition([wanted], service=service).get_stream()
                stream.on_update(lambda fields, *_: updates.put(plain(fields)))
                stream.open()
                while updates.get(timeout=SECONDS) != plain(values(item, 20)):
                    pass
                stream.close()
