#!/usr/bin/env bash
# nats-server 2.12.2: messages with a `Nats-Msg-Id` that are sent to a JetStream stream again after the stream has removed them, as somebody does who purges a
# stream and sends a recording once more. Client: nats-py 2.16.0.
#
# Guess: the window of duplicates (2 minutes by default) is about what the stream has, so that a message whose first copy was purged is stored again.
# Seen: it is about ids. The server acknowledges the message as a duplicate, with the sequence number of a message that is gone, and stores nothing: after
# a purge, a delete of the one message, in a stream that keeps the last of each subject when a later one has replaced it, and in a work queue whose
# consumer has taken it. Who looks at the acknowledgement alone has sent a whole recording into an empty stream. After a restart of the server the same
# message is stored, since the ids are read from what the stream has then; and so it is in a stream that was deleted and made anew. A message that was
# refused (the stream is full and discards new ones) leaves no id.
# What follows: a sender compares the number of an acknowledged duplicate with the stream's first one, or waits for the window before it sends again.
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
GOPATH="$folder/go" GOBIN="$folder" GOFLAGS=-modcacherw go install github.com/nats-io/nats-server/v2@v2.12.2
"$folder/nats-server" --version
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install nats-py==2.16.0
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import asyncio
import contextlib
import glob
import json
import os
import subprocess
import sys
import time

import nats
from nats.js.api import DiscardPolicy, RetentionPolicy, StreamConfig
from nats.js.errors import APIError

FOLDER = sys.argv[1]
NEW, KNOWN = False, True


@contextlib.asynccontextmanager
async def server():
    """A server on the same files each time, and a client."""
    command = [f"{FOLDER}/nats-server", "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", f"{FOLDER}/js", "--ports_file_dir", FOLDER, "-l", f"{FOLDER}/log"]
    process = subprocess.Popen(command)
    try:
        end = time.monotonic() + 20
        while not (found := glob.glob(f"{FOLDER}/nats-server_*.ports")):
            assert time.monotonic() < end, "the server does not start"
            await asyncio.sleep(0.05)
        with open(found[0], encoding="utf-8") as file:
            url = json.load(file)["nats"][0]
        client = await nats.connect(url)
        yield client.jetstream()
        await client.close()
    finally:
        process.terminate()
        process.wait()
        for left in glob.glob(f"{FOLDER}/nats-server_*.ports"):
            os.remove(left)


async def send(stream, name, identity):
    """What the server says: the message's number, and whether it takes it for a duplicate."""
    answer = await stream.publish(f"{name}.x", b"a tick", headers={"Nats-Msg-Id": identity})
    return answer.seq, bool(answer.duplicate)


async def held(stream, name):
    return (await stream.stream_info(name)).state.messages


async def main():
    async with server() as js:
        await js.add_stream(StreamConfig(name="TICKS", subjects=["TICKS.>"]))
        assert [await send(js, "TICKS", i) for i in "abc"] == [(1, NEW), (2, NEW), (3, NEW)]
        await js.delete_msg("TICKS", 2)
        assert await send(js, "TICKS", "b") == (2, KNOWN)
        await js.purge_stream("TICKS")
        again = [await send(js, "TICKS", i) for i in "abc"]
        print("after a purge:", again, "| the stream has", await held(js, "TICKS"))
        assert again == [(1, KNOWN), (2, KNOWN), (3, KNOWN)] and await held(js, "TICKS") == 0

        await js.add_stream(StreamConfig(name="LAST", subjects=["LAST.>"], max_msgs_per_subject=1))
        seen = [await send(js, "LAST", i) for i in "aba"]
        print("last of each subject, a, b, a:", seen)
        assert seen == [(1, NEW), (2, NEW), (1, KNOWN)]

        await js.add_stream(StreamConfig(name="WORK", subjects=["WORK.>"], retention=RetentionPolicy.WORK_QUEUE))
        await send(js, "WORK", "a")
        consumer = await js.pull_subscribe("WORK.>", durable="worker")
        await (await consumer.fetch(1))[0].ack_sync()
        assert await held(js, "WORK") == 0 and await send(js, "WORK", "a") == (1, KNOWN)

        await js.add_stream(StreamConfig(name="FULL", subjects=["FULL.>"], max_msgs=1, discard=DiscardPolicy.NEW))
        await send(js, "FULL", "a")
        try:
            await send(js, "FULL", "b")
            raise AssertionError("a full stream takes a message")
        except APIError as error:
            print("a full stream:", error.description)
        await js.purge_stream("FULL")
        assert await send(js, "FULL", "b") == (2, NEW)
        await js.delete_stream("FULL")
        await js.add_stream(StreamConfig(name="FULL", subjects=["FULL.>"]))
        assert await send(js, "FULL", "a") == (1, NEW)
    async with server() as js:
        again = [await send(js, "TICKS", i) for i in "abc"]
        print("after a restart:", again, "| the stream has", await held(js, "TICKS"))
        assert again == [(4, NEW), (5, NEW), (6, NEW)] and await held(js, "TICKS") == 3


asyncio.run(main())
PYTHON
