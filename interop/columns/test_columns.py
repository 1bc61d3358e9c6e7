"""Exports of a recording, read by pyarrow, pandas, polars and DuckDB, and imported again from what they write.

The recording is imported from lines of JSON that are written here, so that all values are known. QUOTEWAY_BIN names the binary. The last line
counts the tests.
"""

import datetime
import decimal
import glob
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import traceback

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.compute
import pyarrow.dataset
import pyarrow.fs
import pyarrow.ipc
import pyarrow.parquet

BIN = os.environ.get("QUOTEWAY_BIN", "target/debug/quoteway")
D = decimal.Decimal
# The last nanosecond of a second day but one, where readers that round go into the next.
START = int(datetime.datetime(2026, 11, 27, 23, 59, 59, tzinfo=datetime.timezone.utc).timestamp()) * 10**9 + 999_999_990
ITEMS = ["IBM.N", "TRI.N", "é.ü"]


def rows():
    """Sequence number, time, item, kind, fields: a number as text is written with these digits, None is blank."""
    made = []
    for n in range(500):
        item = ITEMS[n % 3]
        time = START + (n // 3) * 3  # three of each nanosecond
        if n < 3:
            made.append((time, item, "refresh", {"DSPLY_NAME": f"{item} Inc", "BID": "100.01", "CURRENCY": 840}))
        elif n % 5 == 0:
            made.append((time, item, "update", {"BID": None, "ASK": f"{n}.25"}))
        elif n % 7 == 0:
            made.append((time, item, "update", {"BID": "0.01171875", "TRADE_DATE": "2026-11-27", "ACVOL_1": n}))
        elif n == 11:
            made.append((time, item, "update", {"ACVOL_1": 2**53 - 1, "QUOTIM_MS": 86_399_999}))
        else:
            made.append((time, item, "update", {"BID": f"{n}.5", "ASK": f"{n}.75", "CURRENCY": 124 if n % 2 else None}))
    return made


ROWS = rows()


def message(kind, fields):
    values = ",".join(
        f"{json.dumps(name)}:" + ("null" if value is None else json.dumps(value) if not is_number(value) else value)
        for name, value in fields.items())
    state = ',"State":{"Stream":"Open","Data":"Ok"}' if kind == "refresh" else ""
    more = ',"UpdateType":"Quote"' if kind == "update" else ""
    return f'{{"ID":1,"Type":"{kind.title()}"{state}{more},"Fields":{{{values}}}}}'


def is_number(value):
    return isinstance(value, str) and value.replace(".", "").isdigit()


def run(*arguments):
    done = subprocess.run([BIN, "record", *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return done.stdout


class World:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        lines = os.path.join(self.folder.name, "lines.jsonl")
        with open(lines, "w", encoding="utf-8") as out:
            for time, item, kind, fields in ROWS:
                out.write(f'{{"wall_ns":{time},"mono_ns":{time - START},"service":"FEED","domain":6,'
                          f'"item":{json.dumps(item)},"kind":"{kind}","message":{message(kind, fields)}}}\n')
        self.recording = self.path("recording")
        run("import", self.recording, lines)
        for form in ("parquet", "arrow"):
            run("export", self.recording, "--as", form, "-o", self.path(form))
        self.parquet = self.path("parquet/MARKET_PRICE.parquet")
        self.arrow = self.path("arrow/MARKET_PRICE.arrow")

    def path(self, name):
        return os.path.join(self.folder.name, name)


def expected(name, convert=lambda value: value):
    """A column of field values: none where it is blank or not there."""
    return [None if fields.get(name) is None else convert(fields[name]) for _, _, _, fields in ROWS]


def blanks():
    return [[name for name, value in fields.items() if value is None] or None for _, _, _, fields in ROWS]


def price(value):
    return D(value)


def same(found, wanted, what):
    assert len(found) == len(wanted), f"{what}: {len(found)} rows, not {len(wanted)}"
    for row, (one, other) in enumerate(zip(found, wanted)):
        assert one == other, f"{what}, row {row}: {one!r}, not {other!r}"


TIMES = [time for time, *_ in ROWS]
NAMES = [item for _, item, *_ in ROWS]


def check_table(table, what):
    """A table of pyarrow."""
    assert table.schema.field("time").type == pyarrow.timestamp("ns", "UTC"), table.schema
    assert table.schema.field("BID").type == pyarrow.decimal128(18, 8), table.schema.field("BID")
    assert table.schema.field("ASK").type == pyarrow.decimal128(18, 2), table.schema.field("ASK")
    same(table["time"].cast(pyarrow.int64()).to_pylist(), TIMES, f"{what} time")
    same(table["time_ns"].to_pylist(), TIMES, f"{what} time_ns")
    same(table["item"].to_pylist(), NAMES, f"{what} item")
    same(table["BID"].to_pylist(), expected("BID", price), f"{what} BID")
    same(table["ASK"].to_pylist(), expected("ASK", price), f"{what} ASK")
    same(table["CURRENCY"].to_pylist(), expected("CURRENCY"), f"{what} CURRENCY")
    display = {840: "USD", 124: "CAD"}
    same(table["CURRENCY_DISPLAY"].to_pylist(), expected("CURRENCY", display.get), f"{what} display")
    same(table["blanks"].to_pylist(), blanks(), f"{what} blanks")
    same(table["ACVOL_1"].to_pylist(), expected("ACVOL_1", D), f"{what} ACVOL_1")
    same(table["TRADE_DATE"].to_pylist(), expected("TRADE_DATE", datetime.date.fromisoformat), f"{what} TRADE_DATE")
    sequence = table["sequence"].to_pylist()
    assert sequence == sorted(set(sequence)), f"{what}: sequence numbers grow"


def test_pyarrow_reads_parquet(world):
    check_table(pyarrow.parquet.ParquetFile(world.parquet).read(), "Parquet")


def test_pyarrow_reads_arrow(world):
    with pyarrow.ipc.open_file(world.arrow) as file:
        check_table(file.read_all(), "Arrow")


def test_pyarrow_sees_statistics_and_order(world):
    about = pyarrow.parquet.read_metadata(world.parquet)
    group = about.row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    assert columns["time_ns"].statistics.min == TIMES[0] and columns["time_ns"].statistics.max == TIMES[-1]
    bids = [bid for bid in expected("BID", price) if bid is not None]
    statistics = columns["BID"].statistics
    assert statistics.has_min_max and statistics.null_count == len(ROWS) - len(bids), statistics
    assert (D(statistics.min), D(statistics.max)) == (min(bids), max(bids)), statistics
    assert columns["item"].statistics.min == min(ITEMS) and columns["BID"].compression == "ZSTD"
    assert [(column.column_index, column.descending) for column in group.sorting_columns] == [(0, False)]


def test_pandas_reads_prices_times_and_blanks(world):
    for backend in ({}, {"dtype_backend": "pyarrow"}):
        table = pandas.read_parquet(world.parquet, **backend)
        times = [time.value for time in table["time"]]
        same(times, TIMES, f"pandas {backend} time")
        none = [None if pandas.isna(value) else value for value in table["BID"]]
        same(none, expected("BID", price), f"pandas {backend} BID")
        currency = [None if pandas.isna(value) else int(value) for value in table["CURRENCY"]]
        same(currency, expected("CURRENCY"), f"pandas {backend} CURRENCY")
        volume = [None if pandas.isna(value) else int(value) for value in table["ACVOL_1"]]
        same(volume, expected("ACVOL_1"), f"pandas {backend} ACVOL_1")
        same([str(item) for item in table["item"]], NAMES, f"pandas {backend} item")


def test_polars_reads_prices_times_and_blanks(world):
    for what, table in (("Parquet", polars.read_parquet(world.parquet)), ("Arrow", polars.read_ipc(world.arrow))):
        same(table["time"].dt.epoch("ns").to_list(), TIMES, f"polars {what} time")
        same(table["BID"].to_list(), expected("BID", price), f"polars {what} BID")
        same(table["ASK"].to_list(), expected("ASK", price), f"polars {what} ASK")
        same(table["item"].cast(polars.String).to_list(), NAMES, f"polars {what} item")
        same(table["blanks"].to_list(), blanks(), f"polars {what} blanks")
    found = polars.scan_parquet(world.parquet).filter(polars.col("BID") > D("400.5")).select("BID").collect()
    same(found["BID"].to_list(), [bid for bid in expected("BID", price) if bid is not None and bid > D("400.5")], "polars filter")


def test_duckdb_reads_prices_times_and_blanks(world):
    base = duckdb.connect()
    found = base.sql(f"SELECT epoch_ns(time), time_ns, BID, ASK, item, blanks, CURRENCY FROM '{world.parquet}' ORDER BY sequence").fetchall()
    columns = list(zip(*found))
    same(columns[0], TIMES, "DuckDB time")
    same(columns[1], TIMES, "DuckDB time_ns")
    same(columns[2], expected("BID", price), "DuckDB BID")
    same(columns[3], expected("ASK", price), "DuckDB ASK")
    same(columns[4], NAMES, "DuckDB item")
    same(columns[5], blanks(), "DuckDB blanks")
    same(columns[6], expected("CURRENCY"), "DuckDB CURRENCY")
    count = base.sql(f"SELECT count(*) FROM '{world.parquet}' WHERE BID = 0.01171875").fetchall()[0][0]
    assert count == sum(bid == D("0.01171875") for bid in expected("BID", price)), count


def test_a_dataset_in_parts_is_read_by_its_parts(world):
    run("export", world.recording, "--as", "parquet", "-o", world.path("lake"), "--partition", "date,service", "--decimals", "8")
    files = sorted(glob.glob(world.path("lake/MARKET_PRICE/*/*/*.parquet")))
    assert [file.split("MARKET_PRICE/")[1] for file in files] == [
        "date=2026-11-27/service=FEED/part-0.parquet", "date=2026-11-28/service=FEED/part-0.parquet"], files
    midnight = START // (86_400 * 10**9) * 86_400 * 10**9 + 86_400 * 10**9
    second_day = sum(time >= midnight for time in TIMES)
    assert 0 < second_day < len(ROWS)
    where = f"read_parquet('{world.path('lake')}/MARKET_PRICE/**/*.parquet', hive_partitioning = true)"
    found = duckdb.sql(f"SELECT count(*), count(DISTINCT service) FROM {where} WHERE date = '2026-11-28'").fetchall()[0]
    assert found == (second_day, 1), found
    table = polars.scan_parquet(world.path("lake/MARKET_PRICE/**/*.parquet"), hive_partitioning=True).sort("sequence").collect()
    same(table["BID"].to_list(), expected("BID", price), "polars dataset BID")
    assert set(table["service"].to_list()) == {"FEED"}
    table = pyarrow.parquet.read_table(world.path("lake/MARKET_PRICE"))
    assert table.num_rows == len(ROWS) and table.schema.field("ASK").type == pyarrow.decimal128(38, 8)


def check_lake(table, what):
    """Segments in an object store, by who reads it, in order."""
    same(table["time_ns"].to_list(), TIMES, f"{what} time_ns")
    same(table["BID"].to_list(), expected("BID", price), f"{what} BID")
    same(table["ASK"].to_list(), expected("ASK", price), f"{what} ASK")
    same(table["blanks"].to_list(), blanks(), f"{what} blanks")
    assert set(table["service"].to_list()) == {"FEED"}, what


def test_segments_in_a_folder_are_one_dataset(world):
    lake = world.path("segments")
    run("send", world.recording, "--to", f"file://{lake}", "--until-end", "--interval", "0")
    files = sorted(glob.glob(f"{lake}/MARKET_PRICE/*/*/*.parquet"))
    assert len(files) == 2 and len({os.path.basename(file) for file in files}) == 1, files
    check_lake(polars.scan_parquet(f"{lake}/MARKET_PRICE/**/*.parquet", hive_partitioning=True).sort("sequence").collect(), "polars")
    where = f"read_parquet('{lake}/MARKET_PRICE/**/*.parquet', hive_partitioning = true, union_by_name = true)"
    found = list(zip(*duckdb.sql(f"SELECT time_ns, BID, blanks, service FROM {where} ORDER BY sequence").fetchall()))
    same(found[0], TIMES, "DuckDB segments time_ns")
    same(found[1], expected("BID", price), "DuckDB segments BID")
    same(found[2], blanks(), "DuckDB segments blanks")
    table = pyarrow.parquet.read_table(f"{lake}/MARKET_PRICE").sort_by("sequence")
    same(table["time_ns"].to_pylist(), TIMES, "pyarrow segments time_ns")
    (note,) = glob.glob(f"{lake}/_segments/*.json")
    with open(note, encoding="utf-8") as text:
        told = json.load(text)
    for object_ in told["objects"]:
        assert os.path.getsize(os.path.join(lake, object_["name"])) == object_["bytes"], object_


def test_a_dataset_has_columns_of_one_type_whatever_its_values_are(world):
    """One day with a turnover of fourteen digits and a price of ten places among days without: readers take the types of one file for all."""
    lake, days = world.path("days"), [("1000", "10.5"), ("20000000000000", "10.25"), ("3", "0.0000000001")]
    for number, (volume, bid) in enumerate(days):
        lines, recording = world.path(f"day{number}.jsonl"), world.path(f"day{number}")
        with open(lines, "w", encoding="utf-8") as out:
            for at, kind in enumerate(("refresh", "update")):
                fields = {"BID": bid, "ACVOL_1": volume, "QUOTIM_MS": 2**60 if number == 1 else 1}
                out.write(f'{{"wall_ns":{START + number * 10 + at},"mono_ns":{at},"service":"FEED","domain":6,"item":"IBM.N",'
                          f'"kind":"{kind}","message":{message(kind, fields)}}}\n')
        run("import", recording, lines)
        run("send", recording, "--to", f"file://{lake}", "--until-end", "--interval", "0")
    table = f"{lake}/MARKET_PRICE"
    files = sorted(glob.glob(f"{table}/**/*.parquet", recursive=True))
    schemas = [pyarrow.parquet.read_schema(file) for file in files]
    assert len(files) == 3 and all(schema.equals(schemas[0]) for schema in schemas), schemas
    volumes, bids = [D(volume) for volume, _ in days], [D("10.5"), D("10.25"), None]
    for order in (files, files[::-1]):
        found = {
            "polars": polars.scan_parquet(order).sort("sequence", "time_ns").select("ACVOL_1", "BID", "message").collect().rows(),
            "DuckDB": duckdb.sql(f"SELECT ACVOL_1, BID, message FROM read_parquet({order}) ORDER BY time_ns").fetchall(),
            "pyarrow": [tuple(row.values()) for row in pyarrow.dataset.dataset(order).to_table(columns=["ACVOL_1", "BID", "message", "time_ns"])
                        .sort_by("time_ns").drop_columns("time_ns").to_pylist()],
        }
        for name, rows in found.items():
            rows = sorted(rows, key=lambda row: row[0])
            assert sorted({row[0] for row in rows}) == sorted(volumes), (name, rows)
            assert {row[:2] for row in rows} == set(zip(volumes, bids)), (name, rows)
            # A price of more places than the column is in the message alone.
            assert all(row[2] is not None for row in rows if row[1] is None), (name, rows)
    frame = pandas.read_parquet(table, dtype_backend="pyarrow")
    assert sorted(set(frame["ACVOL_1"])) == sorted(volumes) and set(frame["QUOTIM_MS"]) == {1, 2**60}


def test_segments_and_exports_in_s3_are_read_by_their_readers(world):
    program = os.environ.get("QUOTEWAY_S3_SERVER", "target/peers/moto/bin/moto_server")
    if not os.path.exists(program):
        subprocess.run(["scripts/s3-server.sh", "target/peers"], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([program, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        endpoint = f"http://127.0.0.1:{port}"
        storage = pyarrow.fs.S3FileSystem(access_key="id", secret_key="secret", endpoint_override=endpoint, region="us-east-1", allow_bucket_creation=True)
        until(lambda: storage.create_dir("ticks") is None)
        keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": endpoint}
        os.environ.update(keys)
        run("send", world.recording, "--to", "s3://ticks/lake", "--until-end", "--interval", "0")
        run("export", world.recording, "--as", "parquet", "-o", "s3://ticks/day", "--s3-endpoint", endpoint)
        for name in keys:
            del os.environ[name]
        options = {"aws_access_key_id": "id", "aws_secret_access_key": "secret", "aws_endpoint_url": endpoint,
                   "aws_region": "us-east-1", "aws_allow_http": "true"}
        table = polars.scan_parquet("s3://ticks/lake/MARKET_PRICE/**/*.parquet", hive_partitioning=True, storage_options=options)
        check_lake(table.sort("sequence").collect(), "polars, S3")
        table = pyarrow.parquet.read_table("ticks/lake/MARKET_PRICE", filesystem=storage).sort_by("sequence")
        same(table["BID"].to_pylist(), expected("BID", price), "pyarrow, S3 BID")
        check_table(pyarrow.parquet.read_table("ticks/day/MARKET_PRICE.parquet", filesystem=storage), "an export in S3")
    finally:
        server.kill()
        server.wait()


def until(holds):
    """Waits for a server that begins."""
    end = time.monotonic() + 60
    while True:
        try:
            assert holds()
            return
        except OSError:
            assert time.monotonic() < end, "the server does not begin"
            time.sleep(0.05)


def exported(world, name, files):
    run("import", world.path(name), *files)
    run("export", world.path(name), "--as", "parquet", "-o", world.path(f"{name}-tables"))
    return pyarrow.parquet.ParquetFile(world.path(f"{name}-tables/MARKET_PRICE.parquet")).read()


def test_an_import_of_an_export_gives_the_same_export(world):
    first = pyarrow.parquet.ParquetFile(world.parquet).read()
    for form in ("parquet", "arrow"):
        files = sorted(glob.glob(world.path(f"{form}/*")))
        assert len(files) == 3, f"directory, dictionary, prices: {files}"
        again = exported(world, f"again-{form}", files)
        assert again.schema.equals(first.schema, check_metadata=True), form
        assert again.equals(first), form


def test_lines_and_csv_come_back(world):
    def fields(table):
        return table.drop_columns([name for name in ("sequence", "message", "blanks", "update_type") if name in table.column_names])

    first = pyarrow.parquet.ParquetFile(world.parquet).read()
    for form in ("json", "csv"):
        file = world.path(f"lines.{form}")
        run("export", world.recording, "--as", form, "-o", file)
        again = exported(world, f"again-{form}", [file])
        if form == "json":
            assert again.equals(first), form
        elif not fields(again).equals(fields(first)):
            for name in fields(first).column_names:
                same(again[name].to_pylist(), first[name].to_pylist(), f"{form} {name}")
            raise AssertionError(f"{form}: {again.schema} is not {first.schema}")


def test_tables_that_others_wrote_are_imported(world):
    plain = [name for name in ("time", "item", "kind", "BID", "ASK", "CURRENCY", "TRADE_DATE")]
    first = pyarrow.parquet.ParquetFile(world.parquet).read()
    updates = first.filter(pyarrow.compute.equal(first["kind"].cast(pyarrow.string()), "update"))
    polars.from_arrow(updates.select(plain)).write_parquet(world.path("polars.parquet"))
    updates.select(plain).to_pandas().to_parquet(world.path("pandas.parquet"))
    duckdb.sql(f"COPY (SELECT {', '.join(plain)} FROM '{world.parquet}' WHERE kind = 'update' ORDER BY sequence) TO '{world.path('duckdb.parquet')}' (FORMAT parquet)")
    for name in ("polars", "pandas", "duckdb"):
        again = exported(world, f"of-{name}", [world.path(f"{name}.parquet")])
        for column in plain:
            same(again[column].cast(updates[column].type).to_pylist(), updates[column].to_pylist(), f"{name} {column}")


def main():
    world = World()
    tests = [(name, test) for name, test in sorted(globals().items()) if name.startswith("test_")]
    wanted = sys.argv[1:]
    passed, failed = 0, []
    for name, test in tests:
        if wanted and not any(part in name for part in wanted):
            continue
        try:
            test(world)
            passed += 1
            print(f"ok      {name}")
        except Exception:
            failed.append(name)
            print(f"FAILED  {name}")
            traceback.print_exc(file=sys.stdout)
    print(f"interop: {passed} passed, {len(failed)} failed, 0 skipped")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
