#!/usr/bin/env python3
"""Parquet and Arrow files are read as pyarrow reads them, and damaged ones are refused.   (time limit: 600 s)

pyarrow writes them: tests/requirements.txt pins it, and it is fetched once with pip into <build>/consumers.
"""
import datetime
import decimal
import io
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e", "support"))
import consumers  # noqa: E402

BUILD = consumers.BUILD
SHOW_ROWS = os.path.join(BUILD, "tests", "e2e", "show_rows")


def read(path, *options):
    """Rows as Python values, and the error or None."""
    done = subprocess.run([SHOW_ROWS, *options, path], capture_output=True, timeout=300)
    if done.returncode != 0:
        return [], {"error": f"show_rows ended with {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}",
                    "reason": "crash"}
    rows = [json.loads(line) for line in done.stdout.decode().split("\n") if line]
    if rows and isinstance(rows[-1], dict) and set(rows[-1]) == {"error", "reason"}:
        return rows[:-1], rows[-1]
    return rows, None


def plain(value):
    """A value of pyarrow as our reader shows it."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(one, tuple) for one in value):
            return {key: plain(one) for key, one in value}
        return [plain(one) for one in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"bytes": len(value)}
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="auto")
        return text + ("Z" if value.tzinfo else "")
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return value


def same(a, b):
    if isinstance(a, float) and isinstance(b, (int, float)):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def text(random_, longest=60):
    return "".join(random_.choice("abc déλ漢🦙\n\"\\") for _ in range(random_.randrange(longest)))


def maybe(random_, make, share=0.2):
    return None if random_.random() < share else make()


def sample_table(pa, rows, seed):
    r = random.Random(seed)
    day = datetime.date(1969, 1, 1)
    message = pa.struct([("role", pa.string()), ("content", pa.string()), ("tags", pa.list_(pa.string()))])
    columns = {
        "text": (pa.string(), lambda: maybe(r, lambda: text(r))),
        "kind": (pa.string(), lambda: r.choice(["alpha", "beta", "gamma"])),
        "large": (pa.large_string(), lambda: maybe(r, lambda: text(r, 300))),
        "raw": (pa.binary(), lambda: maybe(r, lambda: r.randbytes(r.randrange(9)))),
        "small": (pa.int8(), lambda: maybe(r, lambda: r.randrange(-128, 128))),
        "int": (pa.int64(), lambda: maybe(r, lambda: r.randrange(-2**63, 2**63))),
        "near": (pa.int32(), lambda: r.randrange(100, 120)),
        "unsigned": (pa.uint64(), lambda: maybe(r, lambda: r.randrange(2**64))),
        "short": (pa.uint32(), lambda: r.randrange(2**32)),
        "double": (pa.float64(), lambda: maybe(r, lambda: r.choice([0.1, -1e300, 3.0, math.inf, r.random()]))),
        "float": (pa.float32(), lambda: float(r.randrange(1000)) / 8),
        "half": (pa.float16(), lambda: float(r.randrange(1000)) / 8),
        "flag": (pa.bool_(), lambda: maybe(r, lambda: r.random() < 0.5)),
        "nothing": (pa.null(), lambda: None),
        "day": (pa.date32(), lambda: maybe(r, lambda: day + datetime.timedelta(r.randrange(40000)))),
        "when": (pa.timestamp("us"), lambda: datetime.datetime(1960, 1, 1) + datetime.timedelta(
            seconds=r.randrange(10**10), microseconds=r.choice([0, 5, 123456]))),
        "utc": (pa.timestamp("ms", tz="UTC"), lambda: datetime.datetime(
            2001, 2, 3, 4, 5, r.randrange(60), tzinfo=datetime.timezone.utc)),
        "time": (pa.time64("us"), lambda: datetime.time(r.randrange(24), 5, 6, r.choice([0, 7]))),
        "price": (pa.decimal128(20, 3), lambda: maybe(r, lambda: decimal.Decimal(r.randrange(-10**9, 10**9)) / 1000)),
        "list": (pa.list_(pa.int32()), lambda: maybe(r, lambda: [maybe(r, lambda: r.randrange(9))
                                                                 for _ in range(r.randrange(4))])),
        "deep": (pa.list_(pa.list_(pa.string())), lambda: maybe(r, lambda: [
            maybe(r, lambda: [maybe(r, lambda: text(r, 9)) for _ in range(r.randrange(3))])
            for _ in range(r.randrange(4))])),
        "fixed": (pa.list_(pa.float32(), 2), lambda: [1.5, float(r.randrange(9))]),
        "messages": (pa.list_(message), lambda: maybe(r, lambda: [maybe(r, lambda: {
            "role": r.choice(["user", "assistant"]), "content": maybe(r, lambda: text(r)),
            "tags": maybe(r, lambda: [text(r, 5) for _ in range(r.randrange(3))])}, 0.1)
            for _ in range(r.randrange(5))])),
        "nested": (pa.struct([("a", pa.struct([("b", pa.list_(pa.int64()))])), ("c", pa.string())]),
                   lambda: maybe(r, lambda: {"a": maybe(r, lambda: {"b": maybe(r, lambda: [1, 2])}),
                                             "c": text(r, 4)})),
        "map": (pa.map_(pa.string(), pa.int32()), lambda: maybe(r, lambda: [(f"k{i}", maybe(r, lambda: i))
                                                                            for i in range(1, r.randrange(1, 4) + 1)])),
    }
    arrays = {name: pa.array([make() for _ in range(rows)], type=kind) for name, (kind, make) in columns.items()}
    return pa.table(arrays)


class Cases:
    def __init__(self, folder):
        self.folder = folder
        self.failed = 0

    def report(self, name, trouble):
        print(f"not ok {name}: {trouble}" if trouble else f"ok {name}", flush=True)
        self.failed += bool(trouble)

    def expect(self, name, path, rows):
        got, error = read(path)
        trouble = error and error["error"]
        if not trouble and len(got) != len(rows):
            trouble = f"{len(got)} rows instead of {len(rows)}"
        for i, (a, b) in enumerate(zip(rows, got)):
            if trouble:
                break
            for key in a:
                if key not in b or not same(a[key], b[key]):
                    trouble = f"row {i}, {key}: {b.get(key)!r} instead of {a[key]!r}"
                    break
        self.report(name, trouble)


def parquet_cases(cases, pa, pq):
    table = sample_table(pa, 3000, 1)
    rows = [plain(row) for row in table.to_pylist()]
    variants = {
        "snappy": {},
        "none_without_dictionaries": {"compression": "none", "use_dictionary": False},
        "gzip": {"compression": "gzip"},
        "zstd_pages_of_version_2": {"compression": "zstd", "data_page_version": "2.0"},
        "lz4_small_pages_and_groups": {"compression": "lz4", "data_page_size": 512, "row_group_size": 700},
        "snappy_version_2_small_pages": {"data_page_version": "2.0", "data_page_size": 300, "row_group_size": 999},
        "old_format": {"version": "1.0", "use_deprecated_int96_timestamps": True},
        "small_dictionaries": {"dictionary_pagesize_limit": 64, "data_page_size": 400},
        "checksums": {"write_page_checksum": True, "write_page_index": True},
    }
    for name, options in variants.items():
        path = os.path.join(cases.folder, name + ".parquet")
        subset = table.drop_columns(["half", "unsigned", "short"]) if name == "old_format" else table
        pq.write_table(subset, path, **options)
        expected = rows
        if name == "old_format":
            expected = [{key: row[key].rstrip("Z") if key == "utc" else row[key] for key in subset.column_names}
                        for row in rows]
        cases.expect("parquet_" + name, path, expected)

    flat = table.select(["text", "int", "near", "double", "float", "flag"])
    flat_rows = [plain(row) for row in flat.to_pylist()]
    for name, encodings in {
        "delta": {"text": "DELTA_LENGTH_BYTE_ARRAY", "int": "DELTA_BINARY_PACKED", "near": "DELTA_BINARY_PACKED",
                  "double": "BYTE_STREAM_SPLIT", "float": "BYTE_STREAM_SPLIT", "flag": "RLE"},
        "delta_bytes": {"text": "DELTA_BYTE_ARRAY", "int": "BYTE_STREAM_SPLIT", "near": "BYTE_STREAM_SPLIT"},
    }.items():
        path = os.path.join(cases.folder, name + ".parquet")
        pq.write_table(flat, path, use_dictionary=False, column_encoding=encodings, data_page_size=2000)
        cases.expect("parquet_" + name, path, flat_rows)

    path = os.path.join(cases.folder, "empty.parquet")
    pq.write_table(table.slice(0, 0), path)
    cases.expect("parquet_without_rows", path, [])
    path = os.path.join(cases.folder, "brotli.parquet")
    pq.write_table(flat, path, compression="brotli")
    error = read(path)[1]
    cases.report("parquet_brotli_is_refused_by_name", None if error and "Brotli" in error["error"] else str(error))


def write_ipc(pa, path, table, options, stream, batch_rows):
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=batch_rows)


def arrow_cases(cases, pa):
    table = sample_table(pa, 3000, 4)
    indexed = pa.chunked_array([table["kind"].combine_chunks().dictionary_encode(),])
    table = table.append_column("indexed", indexed)
    views = pa.array([None if v is None else v for v in table["text"].to_pylist()], type=pa.string_view())
    table = table.append_column("view", views)
    table = table.append_column("seconds", pa.array([i % 86400 for i in range(3000)], type=pa.duration("s")))
    rows = [plain(row) for row in table.to_pylist()]
    for row, i in zip(rows, range(3000)):
        row["seconds"] = i % 86400
    for compression in (None, "lz4", "zstd"):
        for stream in (False, True):
            options = pa.ipc.IpcWriteOptions(compression=compression)
            name = f"arrow_{'stream' if stream else 'file'}_{compression or 'plain'}"
            path = os.path.join(cases.folder, name + (".arrow" if stream else ".feather"))
            write_ipc(pa, path, table, options, stream, 700)
            cases.expect(name, path, rows)
    sliced = table.slice(1003, 500)
    path = os.path.join(cases.folder, "sliced.arrow")
    write_ipc(pa, path, sliced, pa.ipc.IpcWriteOptions(), True, 9999)
    cases.expect("arrow_slices", path, rows[1003:1503])
    path = os.path.join(cases.folder, "old.arrow")
    write_ipc(pa, path, table.drop_columns(["view"]),
              pa.ipc.IpcWriteOptions(use_legacy_format=True, metadata_version=pa.ipc.MetadataVersion.V4), True, 800)
    cases.expect("arrow_of_before_0_15", path, [{k: v for k, v in row.items() if k != "view"} for row in rows])
    path = os.path.join(cases.folder, "none.arrow")
    write_ipc(pa, path, table.slice(0, 0), pa.ipc.IpcWriteOptions(), True, 10)
    cases.expect("arrow_without_rows", path, [])


def share_dictionary(pa, path, table):
    """Writes a stream whose columns all name the first one's dictionary, which stands in it once: as Arrow allows and
    pyarrow reads, but does not write."""
    sink = io.BytesIO()
    write_ipc(pa, sink, table, pa.ipc.IpcWriteOptions(), True, 40)
    messages = [(message.type, message.serialize().to_pybytes())
                for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(sink.getvalue()))]
    schema = messages[0][1]
    for number in range(1, sum(kind == "dictionary" for kind, _ in messages)):
        places = [at for at in range(0, len(schema) - 7, 4) if schema[at:at + 8] == struct.pack("<q", number)]
        assert len(places) == 1, places
        schema = schema[:places[0]] + bytes(8) + schema[places[0] + 8:]
    [dictionary, *_] = [body for kind, body in messages if kind == "dictionary"]
    with open(path, "wb") as file:
        file.write(schema + dictionary + b"".join(body for kind, body in messages if kind == "record batch"))
        file.write(b"\xff\xff\xff\xff\0\0\0\0")


def shared_dictionary_cases(cases, pa):
    first = pa.array([["alpha", "beta", None, "γ"][i % 4] for i in range(100)]).dictionary_encode()
    again = pa.DictionaryArray.from_arrays(pa.array([i * i % 3 for i in range(100)], type=pa.int32()), first.dictionary)
    inner = pa.StructArray.from_arrays([again[::-1], pa.array(range(100))], ["kind", "number"])
    table = pa.table({"first": first, "again": again, "inner": inner})
    path = os.path.join(cases.folder, "shared.arrow")
    share_dictionary(pa, path, table)
    assert pa.ipc.open_stream(path).read_all().equals(table)
    rows = [plain(row) for row in table.to_pylist()]
    cases.expect("columns_that_share_a_dictionary", path, rows)
    got, error = read(path, "--columns", "again")
    cases.report("a_dictionary_is_loaded_also_where_the_first_column_that_has_it_is_unused",
                 str(error) if error or [row["again"] for row in got] != [row["again"] for row in rows] else None)
    numbers = pa.array([i % 3 for i in range(100)]).dictionary_encode()
    share_dictionary(pa, path, pa.table({"first": first, "numbers": numbers}))
    error = read(path)[1]
    cases.report("columns_of_two_types_share_no_dictionary",
                 None if error and "columns of different types share a dictionary" in error["error"] else str(error))


def unused_cases(cases, pa, pq):
    """Columns that nobody asked for are not unpacked: what they hold, and damage in them, does not matter."""
    names = ["text", "messages", "kind", "price", "nested"]
    table = sample_table(pa, 900, 7).select(names)
    indexed = pa.chunked_array([table["kind"].combine_chunks().dictionary_encode()])
    table = table.set_column(2, "kind", indexed)
    rows = [plain(row) for row in table.to_pylist()]
    paths = [os.path.join(cases.folder, "unused.parquet")]
    pq.write_table(table, paths[0], compression="zstd", row_group_size=400)
    for compression in (None, "zstd"):
        paths.append(os.path.join(cases.folder, f"unused-{compression}.arrow"))
        write_ipc(pa, paths[-1], table, pa.ipc.IpcWriteOptions(compression=compression), True, 250)
    for path in paths:
        for chosen in (["text"], ["messages", "text"], ["kind"], ["nested", "price"], ["absent"]):
            got, error = read(path, "--columns", ",".join(chosen))
            wanted = [{name: row[name] if name in chosen else None for name in names} for row in rows]
            trouble = str(error) if error else None if all(map(same, wanted, got)) and len(wanted) == len(got) else "other rows"
            cases.report(f"only_{'_and_'.join(chosen)}_of_{os.path.basename(path)}", trouble)

    chunk = pq.ParquetFile(paths[0]).metadata.row_group(1)
    [place] = [chunk.column(i) for i in range(chunk.num_columns) if chunk.column(i).path_in_schema == "price"]
    with open(paths[0], "r+b") as file:
        file.seek(place.dictionary_page_offset or place.data_page_offset)
        file.write(b"\xff" * place.total_compressed_size)
    got, error = read(paths[0], "--columns", "text,nested")
    cases.report("damage_in_an_unused_column_does_not_matter", str(error) if error or len(got) != len(rows) else None)
    got, error = read(paths[0], "--columns", "text,price")
    cases.report("damage_in_a_used_column_is_an_error", None if error and 400 <= len(got) < 900 else f"{len(got)} rows, {error}")


def damaged_cases(cases, name, path, chances, seed):
    """Cut at any place, and with any byte changed: an error or other rows, never a crash."""
    with open(path, "rb") as file:
        whole = file.read()
    r = random.Random(seed)
    broken = os.path.join(cases.folder, "broken-" + os.path.basename(path))
    trouble, refused = None, 0
    for i in range(chances):
        data = bytearray(whole)
        if i % 4 == 0:
            data = data[:r.randrange(len(data))]
        for _ in range(0 if i % 4 == 0 else r.choice([1, 1, 2, 20])):
            at = len(data) - 1 - r.randrange(min(len(data), 4000)) if i % 2 else r.randrange(len(data))
            data[at] = r.choice([0, 1, 0x7F, 0x80, 0xFF, r.randrange(256)])
        with open(broken, "wb") as file:
            file.write(data)
        try:
            error = read(broken)[1]
        except (subprocess.TimeoutExpired, json.JSONDecodeError) as problem:
            error = {"error": str(problem)[:300], "reason": "crash"}
        if error and error["reason"] not in ("bad_data", "out_of_memory"):
            trouble = trouble or f"case {i}: {error}"
        if i % 4 == 0 and not error:
            trouble = trouble or f"case {i}: cut to {len(data)} of {len(whole)} bytes, and no error"
        refused += bool(error)
    cases.report(name, trouble or (None if refused > chances // 3 else f"only {refused} of {chances} refused"))


def main():
    problem = consumers.packages("pyarrow")
    if problem:
        print("skip columnar:", problem)
        return 0
    import pyarrow as pa
    import pyarrow.parquet as pq
    with tempfile.TemporaryDirectory(prefix="megatrain-test-") as folder:
        cases = Cases(folder)
        parquet_cases(cases, pa, pq)
        small = os.path.join(folder, "small.parquet")
        pq.write_table(sample_table(pa, 40, 2), small, data_page_size=300)
        damaged_cases(cases, "damaged_parquet_is_refused_or_read", small, 150, 3)
        arrow_cases(cases, pa)
        shared_dictionary_cases(cases, pa)
        unused_cases(cases, pa, pq)
        for stream in (False, True):
            for compression in (None, "zstd"):
                name = f"damaged_arrow_{'stream' if stream else 'file'}_{compression or 'plain'}"
                small = os.path.join(folder, name + ".arrow")
                write_ipc(pa, small, sample_table(pa, 40, 5), pa.ipc.IpcWriteOptions(compression=compression),
                          stream, 15)
                damaged_cases(cases, name + "_is_refused_or_read", small, 60, 6)
        return 1 if cases.failed else 0


if __name__ == "__main__":
    sys.exit(main())
