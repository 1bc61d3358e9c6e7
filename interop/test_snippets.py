#!/usr/bin/env python3
"""Every shell snippet of README.md and docs/operating, run as it is printed.

Each block runs by itself on a machine of its own: a network namespace, in which the printed ports are free, the printed host names are the
loopback, and nobody outside is reached (`unshare`; without root in a user namespace). So there is no table of ports. What else is another
is in BLOCKS: what runs before, files that a reader would have, replacements, or the reason why a block cannot run here. A block of the
documents that is not in BLOCKS fails, and so does one of BLOCKS that is not in the documents any more.

A command of a block counts as good when it ends with 0, or when it is a server or a load generator and has said what READY has for it.
Output that is printed after a command has to be the same, numbers that depend on the run apart.

    test_snippets.py [PART OF A FIRST LINE...]       QUOTEWAY_BIN names the binary
"""

import concurrent.futures
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
BINARY = os.environ.get("QUOTEWAY_BIN", os.path.join(ROOT, "target/debug/quoteway"))
SECONDS = 60
# Host names of the documents.
HOSTS = "provider-host feedhost sdhost node1 node2 node3 primary provider standby production".split()
# Where a document names a host's address.
ADDRESSES = {"primary": "10.1.0.5", "standby": "10.1.0.6"}
# Interfaces of the documents, made for the blocks that name them.
INTERFACES = [("eth0", ["10.1.0.3/16", "10.1.0.5/16", "10.1.0.6/16"]), ("eth1", ["10.2.0.3/16"])]

# What a program says once it does what it was started for, by its subcommand.
IMAGES = r"(?m)^ +\d+\.\d .* [1-9]\d* +\d+$"
RATES = r"(?m)^ +\d+\.\d +[1-9]"
READY = {
    "demo": r"(?m)^ready: .*: (\d+) of \1 items|^ready: ",
    "serve": r"(?m)^ready rssl",
    "source-distributor": r"(?m)^ready ",
    "p2ps": r"(?m)^ready rssl",
    "desktop": r"(?m)^ready rssl",
    "rrcpd": r"(?m)^ready ",
    "feed": r"is published on",
    "sink-driven-src": r"is published on",
    "test-client": IMAGES,
    "replay": r"is replayed on",
    "lbmsub": r"(?m)^ready",
    "lbmsrs": r"(?m)^ready ",
    "lbmpub": RATES,
}


class Run:
    """How a block is run."""

    def __init__(self, before=(), after=(), files=None, replace=(), alone=False, ends=(), says=None, fails=(), grows=None, output=True, script=False):
        self.before = before  # commands started first
        self.after = after  # and behind the first one of the block
        self.fails = fails  # commands, by number, that end with 1 by right
        self.files = files or {}  # name: text, or the (page, number) of a block of that page
        self.replace = replace  # pairs of printed and run
        self.alone = alone  # its commands are alternatives: each ends before the next begins
        self.ends = ends  # commands, by number, before which all that still run are ended in order
        self.says = says or {}  # command by number: what it has to say instead of READY's
        self.grows = grows or {}  # before the first of `ends`: a file, and the bytes that it has to have by then
        self.output = output  # the text block behind it is its output
        self.script = script  # one program for the shell rather than a command a line


class Skip:
    """Why a block is not run."""

    def __init__(self, why):
        self.why = why


SOURCE = "quoteway sink-driven-src -N 14010 -K"
DEMO = "quoteway demo --no-ui"
SERVE = [SOURCE, "quoteway serve --route localhost:14010"]
ITEMS = "".join(f"RDT{n}\n" for n in range(100))
MESSAGE = "00090406000000050004000800010016020c7d\n"
# A session is captured from its beginning; -Z: the file is written by who started it; -B: a busy machine drops packets otherwise.
CAPTURE = "tcpdump -B 32768 -Z root --immediate-mode -U -i any -w session.pcap port 14002"
CLIENT = "quoteway test-client -il IBM.N,TRI.N --seconds 2"
JUDGED = "quoteway test-client -h {host} -p {port} -S DIRECT_FEED -il IBM.N"
READY_TO_CAPTURE = "listening on"
GROWN = {"session.pcap": 20_000}

BLOCKS = {
    "make run": Skip("builds the release; `quoteway demo`, which it starts, is the next block"),
    "quoteway demo": Run(),
    "quoteway record today": Run(before=[DEMO]),
    "quoteway record export today --as parquet -o tables": Skip("needs a recording of a day; interop/columns/test_columns.py runs such"),
    "quoteway record send today --to nats": Skip("needs a recording and brokers; crates/record-streams/tests/all sends such"),
    "quoteway record send today --to s3": Skip("needs a recording and an object store; crates/record-streams/tests/all sends such"),
    "quoteway record import again": Skip("needs tables of a recording; interop/columns/test_columns.py runs such"),
    "quoteway serve --route provider-host:14010": Run(before=[SOURCE], alone=True),
    "quoteway config > quoteway.toml": Run(files={"rmds.cnf": ("docs/operating/examples/site.cnf", None)}),
    "quoteway desktop  ": Run(
        before=[SOURCE, "quoteway source-distributor --config sd.toml --route localhost:14010"],
        files={"sd.toml": '[hub]\ntransport = "lbt-rm"\n'},
        output=False,
    ),
    "quoteway feed INDEPENDENT_RESERVE": Skip("needs a recording; crates/feed/src/replay/venue/tests/web.rs plays it"),
    "quoteway feed mold:233.54.12.111:26477,": Skip("needs the lines of an exchange; crates/quoteway/tests/all/exchange_feed.rs runs such over loopback"),
    "quoteway desktop --source-distributor srv:": Skip("needs a zone of the DNS; crates/quoteway/tests/all/services.rs runs such"),
    "quoteway dump FILE...": Run(
        files={"message.hex": MESSAGE, "message.json": '{"ID":5,"Type":"Update","Fields":{"BID":1.25}}\n'},
        replace=[("--from-json FILE", "--from-json message.json"), ("FILE...", "message.hex"), ("FILE", "message.hex")],
    ),
    "tcpdump -i any": Run(after=[DEMO, CLIENT], replace=[("tcpdump -i any -w session.pcap port 14002", CAPTURE), ("| less", "| cat")], ends=[1], grows=GROWN),
    "echo '{\"ID\":5": Run(),
    "openssl req -x509": Run(script=True),
    "quoteway dump --json session.pcap": Run(before=[CAPTURE, DEMO, CLIENT], ends=[0], grows=GROWN),
    "quoteway sink-driven-src -S RDFD -N 14010": Run(files={"rdf.100kitems": ITEMS}),
    "quoteway lbmsub   ": Run(),
    "quoteway lbmsub --observe": Run(replace=[("--rate 125k", "--rate 10k --seconds 2")], ends=[2], says={1: None}),
    "quoteway lbmsrs & quoteway lbmsrs": Skip("services that run until they are stopped; crates/lbm-io/tests/all/srs.rs has two such and contexts"),
    "quoteway lbmsub -H --seconds": Run(replace=[("--seconds 60", "--seconds 5"), ("10k --seconds 20", "1k --seconds 2"), ("10k --seconds 40", "1k --seconds 3")], ends=[2]),
    "quoteway lbmrouter --example": Run(),
    "quoteway lbmrouter --report": Skip("programs of three terminals; crates/lbm-router-io/tests/all runs such"),
    "quoteway lbmsub --receiver-type 10": Skip("subscribers that a person kills; crates/quoteway/tests/all/lbm_tools.rs runs such"),
    "quoteway lbmstore --disk": Skip("programs that a person stops and starts again; crates/lbm-store-io/tests/all runs such"),
    "cat > many.cfg": Run(replace=[("100000", "1000"), ("--seconds 10 --lead-in 10", "--seconds 1 --lead-in 2")], script=True),
    "sysctl -w net.core": Skip("sets the kernel of the whole machine"),
    "cc -Icrates/lbm-c/include": Skip("needs the release build of the C library; crates/lbm-c's tests build and run its examples"),
    "./latency receive": Skip("needs the C programs of the block before"),
    "$ quoteway lock explain": Run(files={"rights.toml": ("docs/operating/permissions.md", "ini", 0)}, fails=[1]),
    "quoteway sink-driven-src -N 14010 -K &": Run(
        files={"rights.toml": ("docs/operating/permissions.md", "ini", 1), "site.toml": ("docs/operating/permissions.md", "toml", 0)},
    ),
    "quoteway serve --route provider:14010": Run(before=[SOURCE]),
    "quoteway scenario list": Run(
        replace=[("./consumer {host} {port}", JUDGED), ("--all --junit scenarios.xml -- java -jar consumer.jar {host} {port}", f"item-closed --junit scenarios.xml -- {JUDGED}"),
                 ("--all --judges provider -- ./provider --listen {port}", "provider-snapshots -- quoteway sink-driven-src -N {port} -K"),
                 ("--all --judges publisher -- ./publisher {address}", "publisher-begins -- quoteway sink-driven-src --nip {address} --items IBM.N -U 20")],
    ),
    "quoteway scenario serve": Run(says={0: r"(?m)^ready rssl"}),
    "sudo apt install": Skip("installs the package: root, apt and systemd"),
    "curl -s localhost:8080/api/v1/services": Run(
        before=[
            "quoteway sink-driven-src -N 14010 -K",
            "quoteway serve --config site.toml --route localhost:14010",
            "quoteway test-client -u ann -il IBM.N",
        ],
        files={
            "site.toml": '[permissions]\nmode = "on"\nrights_file = "rights.toml"\n',
            "rights.toml": 'version = "1"\n\n[services.DIRECT_FEED]\nid = 1\n\n[users.ann.grants]\nDIRECT_FEED = ["*"]\n',
        },
    ),
    "curl -s localhost:8080/sharedmem/print/mounts": Run(
        before=[DEMO],
    ),
    "quoteway sink-driven-src -S RDFD -N 14002": Run(replace=[("{0..99999}", "{0..99}")]),
    "python3 - > day.itch": Run(script=True),
    "(sleep 10; echo 'suspect": Run(replace=[("sleep 10", "sleep 1"), ("sleep 5", "sleep 0.1"), ("sleep 20", "sleep 0.1"), ("-Q market", "-Q market --seconds 3")], script=True),
    "$ quoteway ctl providers": Run(
        before=["quoteway sink-driven-src -S FEED -N 14002 -K", "quoteway serve --config site.toml --rssl-port 14012"],
        files={"site.toml": ("docs/operating/standby.md", "toml", 0)},
        says={1: r"(?m)."},
    ),
    "quoteway test-client -S RDFD -h localhost": Run(
        before=["quoteway sink-driven-src -S RDFD -N 14010 -K", "quoteway sink-driven-src -S DIRECT_FEED -N 14011 -K", "quoteway serve --route localhost:14010 --route localhost:14011"],
        files={"rdf.100kitems": ITEMS},
        replace=[("{0..99999}", "{0..99}")],
        says={0: "MARKET_PRICE|REFRESH|Refresh"},
    ),
    "quoteway test-client -h production": Run(
        before=["quoteway sink-driven-src -S ELEKTRON_DD -N 14010 -K", "quoteway serve --route localhost:14010"],
        replace=[("--seconds 3600", "--seconds 2")],
        ends=[1],
        says={0: None},
    ),
    "quoteway source-distributor --route feedhost:14010": Run(before=[SOURCE]),
    "quoteway sink-driven-src -N 14010            # node 1": Run(files={"site.toml": ("docs/operating/topologies.md", "toml", 1)}),
    "quoteway rrcpd --config rrcpd.toml": Run(
        files={"rrcpd.toml": ("docs/operating/topologies.md", "toml", 3), "p2ps.toml": ("docs/operating/topologies.md", "toml", 4)},
    ),
    "quoteway rrcpd --config a.toml": Run(
        files={
            "a.toml": ("docs/operating/topologies.md", "toml", 5),
            "b.toml": ("docs/operating/topologies.md", "toml", 5, '"a"="b"', "10.1.0.3=10.2.0.3", "239.101.3.10=239.101.3.11"),
            "p2ps-a.toml": ("docs/operating/topologies.md", "toml", 6),
            "p2ps-b.toml": ("docs/operating/topologies.md", "toml", 6, '"a"="b"', "10.1.0.3=10.2.0.3"),
        },
    ),
    "nft add table inet hub": Run(script=True),
}


class Block:
    """A block of shell of a document, with the output that is printed for it."""

    def __init__(self, page, text, output):
        self.page, self.text, self.output = page, text, output

    def first_line(self):
        return self.text.lstrip().split("\n", 1)[0]

    def commands(self, run):
        """The commands, each with the output that is printed below it."""
        text = self.text
        for printed, here in run.replace:
            assert printed in text, f"{printed!r} is not in\n{text}"
            text = text.replace(printed, here)
        if "$ " in text[:2]:
            parts = [part for part in re.split(r"(?m)^\$ ", text) if part.strip()]
            return [(part.split("\n", 1)[0], part.split("\n", 1)[1].strip() if "\n" in part else "") for part in parts]
        output = self.output if run.output else ""
        if run.script:
            return [(text, output)]
        commands = []
        for line in re.sub(r"\|\n\s+", "| ", text).splitlines():
            line = re.sub(r"\s+#.*$", "", line).strip()
            # What is put into the background is a command like any other here.
            commands += [part.strip() for part in re.split(r"(?<!&)&(?!&)(?=\s|$)", line) if part.strip()]
        return [(command, "") for command in commands[:-1]] + [(commands[-1], output)]


def blocks():
    found = []
    for path in [os.path.join(ROOT, "README.md")] + sorted(glob.glob(os.path.join(ROOT, "docs/operating/*.md"))):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for match in re.finditer(r"(?ms)^```(sh|bash|shell|console|text)\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", text):
            language, body, output = match.groups()
            if language != "text" or body.startswith("$ "):
                found.append(Block(os.path.relpath(path, ROOT), body, output or ""))
    return found


def block_of(page, language, number, *changes):
    """A block of a page as a file, with changes that the page tells in words (OLD=NEW)."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        text = file.read()
    if language is None:
        return text
    body = re.findall(rf"(?ms)^```{language}\n(.*?)^```$", text)[number]
    for change in changes:
        old, new = change.split("=")
        assert old in body, f"{old} is not in\n{body}"
        body = body.replace(old, new)
    return body


def normalised(text):
    """Without what depends on the run: long digits after a blank or an equals sign, times, trailing blanks."""
    return [re.sub(r"\d+(?:[.:,]\d+)+", "N", line.rstrip()) for line in text.strip().splitlines()]


class Machine:
    """The commands of a block, on this network namespace."""

    def __init__(self, folder):
        self.folder, self.running = folder, []

    def start(self, command):
        log = tempfile.NamedTemporaryFile(dir=self.folder, prefix=".log", delete=False)
        process = subprocess.Popen(["bash", "-c", f"set -o pipefail; {command}"], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        self.running.append((command, process, log.name))
        return process, log.name

    def follow(self, command, ready, good=0):
        """Starts a command and waits until it is ready, or has ended with the code that is good; its output."""
        process, log = self.start(command)
        end = time.monotonic() + SECONDS
        while True:
            code = process.poll()
            with open(log, encoding="utf-8", errors="replace") as file:
                said = file.read()
            if code is not None:
                assert code == good, f"{command}\nended with {code}:\n{said[-2000:]}"
                return said
            if ready and re.search(ready, said):
                return said
            assert time.monotonic() < end, f"{command}\nis not ready after {SECONDS} s (waits for {ready}):\n{said[-2000:]}\n{self.others(command)}"
            time.sleep(0.05)

    def wait_for(self, files):
        """Waits until each file has so many bytes."""
        end = time.monotonic() + SECONDS
        for name, size in files.items():
            path = os.path.join(self.folder, name)
            while not os.path.exists(path) or os.path.getsize(path) < size:
                assert time.monotonic() < end, f"{name} does not grow to {size} bytes\n{self.others('')}"
                time.sleep(0.05)

    def others(self, command):
        logs = []
        for other, _, log in self.running:
            if other != command:
                with open(log, encoding="utf-8", errors="replace") as file:
                    logs.append(f"-- {other}\n{file.read()[-800:]}")
        return "\n".join(logs)

    def stop(self):
        for _, process, _ in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for _, process, _ in self.running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        self.running = []


def ready_of(command):
    """What the last program of a command says when it is ready."""
    if command.startswith("tcpdump"):
        return READY_TO_CAPTURE
    if "--seconds" in command and "test-client" in command:
        return None
    found = re.findall(r"(?:^|[|&;]\s*)quoteway ([\w-]+)", command)
    return READY.get(found[-1]) if found else None


def inside(first_line):
    """Runs one block; this process is alone on its network."""
    os.chdir(ROOT)
    for command in ["ip link set lo up multicast on", "ip route add 224.0.0.0/4 dev lo"]:
        subprocess.run(command.split(), check=True)
    for name, addresses in INTERFACES:
        subprocess.run(["ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}-far"], check=True)
        subprocess.run(["ip", "link", "set", f"{name}-far", "up"], check=True)
        for address in addresses:
            subprocess.run(["ip", "address", "add", address, "dev", name], check=True)
        subprocess.run(["ip", "link", "set", name, "up", "multicast", "on"], check=True)
    block = next(block for block in blocks() if block.first_line() == first_line)
    run = entry_of(block)
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "bin"))
        os.symlink(BINARY, os.path.join(folder, "bin/quoteway"))
        lab = os.path.join(os.path.dirname(BINARY), "quoteway-lab")
        if os.path.exists(lab):
            os.symlink(lab, os.path.join(folder, "bin/quoteway-lab"))
        os.symlink(os.path.join(ROOT, "docs"), os.path.join(folder, "docs"))
        os.environ["PATH"] = os.path.join(folder, "bin") + ":" + os.environ["PATH"]
        hosts = os.path.join(folder, "hosts")
        with open(hosts, "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"{ADDRESSES.get(host, '127.0.0.1')} {host}\n" for host in HOSTS))
        subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
        for name, content in run.files.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(content if isinstance(content, str) else block_of(*content) if len(content) > 2 else block_of(*content, 0))
        machine = Machine(folder)
        try:
            for command in run.before:
                machine.follow(command, ready_of(command))
            for number, (command, printed) in enumerate(block.commands(run)):
                if number in run.ends:
                    machine.wait_for(run.grows)
                    machine.stop()
                ready = run.says[number] if number in run.says else ready_of(command)
                said = machine.follow(command, ready, good=int(number in run.fails))
                for other in run.after if number == 0 else ():
                    machine.follow(other, ready_of(other))
                if command.startswith("curl"):
                    assert '"error"' not in said or "0.3/" in command, f"{command}\n{said}"
                    assert said.strip(), f"{command}\nsaid nothing"
                if printed:
                    assert normalised(said) == normalised(printed), f"{command}\nprints\n{said}\nand the document has\n{printed}"
                if run.alone:
                    machine.stop()
        finally:
            machine.stop()


def entry_of(block):
    found = [key for key in BLOCKS if block.text.lstrip().startswith(key)]
    assert found, f"{block.page}: a snippet that no test runs; put it into BLOCKS of interop/test_snippets.py:\n{block.text}"
    return BLOCKS[max(found, key=len)]


def apart(block):
    """Runs a block in a process and on a network of its own; what went wrong, and how long it took."""
    began = time.monotonic()
    own = ["unshare"] + ([] if os.geteuid() == 0 else ["-Ur"]) + ["-n", "-m", "-p", "-f", "--kill-child"]
    command = own + [sys.executable, os.path.abspath(__file__), "--inside", block.first_line()]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=4 * SECONDS)
        fault = done.stdout if done.returncode else ""
    except subprocess.TimeoutExpired as e:
        fault = f"not finished after {4 * SECONDS} s\n{e.stdout}"
    return block, fault, time.monotonic() - began


def main(wanted):
    chosen, skipped, faults = [], 0, []
    for block in blocks():
        if wanted and not any(part in block.first_line() for part in wanted):
            continue
        try:
            entry = entry_of(block)
        except AssertionError as e:
            faults.append(str(e))
            continue
        if isinstance(entry, Skip):
            skipped += 1
            print(f"skipped: {block.page}: {block.first_line()}: {entry.why}")
        else:
            chosen.append(block)
    if not wanted:
        texts = [block.text.lstrip() for block in blocks()]
        faults += [f"BLOCKS has {key!r}, the documents have not" for key in BLOCKS if not any(text.startswith(key) for text in texts)]
    missing = [program for program in ["curl", "jq", "nft", "ip", "openssl", "tcpdump", "unshare"] if not shutil.which(program)]
    assert not missing, f"install {', '.join(missing)}"
    with concurrent.futures.ThreadPoolExecutor(3 * (os.cpu_count() or 1)) as pool:
        for block, fault, seconds in pool.map(apart, chosen):
            print(f"{'FAIL' if fault else 'ok'}: {block.page}: {block.first_line()} ({seconds:.1f} s)")
            if fault:
                faults.append(f"{block.page}: {fault}")
    print("\n".join(f"FAIL: {fault}" for fault in faults))
    print(f"interop: {len(chosen) - len(faults)} passed, {len(faults)} failed, {skipped} skipped")
    return 1 if faults else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:]))
