"""Random damage to files: to their bytes, and to the content of containers with valid checksums.

All of it is drawn from one `random.Random`, so that a case can be repeated from its seed, and so
that Hypothesis can draw it (`hypothesis.strategies.randoms`).
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import random
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

#: Texts that are wrong in some place.
TOKENS = [
    b"0", b"-0", b"1", b"-1", b"--1", b"2", b"99999999999", b"9223372036854775808",
    b"-" + b"9" * 40, b"7" * 5000, b"1e9", b"1e999", b"nan", b"-inf",
    b"\xff\xfe", b"\x00", b"\xc2\xa0", b"\xd9\xa1",
    b"{", b"}", b"\n", b"\r", b"\r\n", b"\t", b"  ", b";", b",,", b'"', b"'", b":", b"5:", b"c ",
    b"[", b"]", b"null", b"true", b"x1", b"PK\x05\x06", b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x93NUMPY",
    b"PAR1", b"\xef\xbb\xbf",
]  # fmt: skip
SIZES = [0, 1, 2, 3, 7, 63, 64, 65, 127, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1]
SIZES += [2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 10**9, 600]


def damaged_bytes(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """Flip, replace, cut, double, insert, splice with another file, overwrite a size."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        a, b = sorted((rng.randint(0, len(out)), rng.randint(0, len(out))))
        kind = rng.randrange(9)
        if kind == 0 and out:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
        elif kind == 1 and out:
            out[rng.randrange(len(out))] = rng.randrange(256)
        elif kind == 2:
            del out[b:]
        elif kind == 3:
            del out[a : min(b, a + 16)]
        elif kind == 4:
            out[a:a] = out[a:b]
        elif kind == 5:
            out[a:a] = rng.choice(TOKENS)
        elif kind == 6:
            out[a:b] = rng.choice(TOKENS)
        elif kind == 7:
            out[a:] = other[rng.randint(0, len(other)) :]
        else:
            width, code = rng.choice([(1, "B"), (2, "H"), (4, "I"), (8, "Q")])
            if len(out) >= width:
                at = rng.randrange(len(out) - width + 1)
                size = rng.choice(SIZES) % 2 ** (8 * width)
                out[at : at + width] = struct.pack(f"<{code}", size)
    return bytes(out)


# --- JSON ----------------------------------------------------------------------------------------


def any_value(rng: random.Random) -> Any:
    """A value of a random type."""
    return rng.choice(
        [
            None, True, False, 0, 1, -1, 2, 1.5, 1e308, float("nan"), float("inf"), 2**31, 2**63,
            10**30, "", "x", "1", "\0", "é" * 40, [], {}, [1], [[1]], [None], {"a": 1}, ["x"] * 3,
            [1, 2, 2], [0], [-1], [1.0], {"kind": "Xor"}, rng.choice(SIZES), str(rng.choice(SIZES)),
        ]
    )  # fmt: skip


def damaged_value(rng: random.Random, value: Any) -> Any:
    """The same value with one part replaced, removed or doubled."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key, out = rng.choice(list(value)), dict(value)
        if rng.random() < 0.12:
            del out[key]
        else:
            out[key] = damaged_value(rng, value[key])
        return out
    if isinstance(value, list) and value and rng.random() < 0.75:
        at, out = rng.randrange(len(value)), list(value)
        kind = rng.random()
        if kind < 0.12:
            del out[at]
        elif kind < 0.24:
            out.insert(at, out[at])
        else:
            out[at] = damaged_value(rng, value[at])
        return out
    return any_value(rng)


def damaged_json(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.01:
        return b"[" * rng.choice((1000, 100_000))
    try:
        value = damaged_value(rng, json.loads(data))
    except ValueError:  # a text, not JSON
        value = any_value(rng)
    return json.dumps(value).encode()


# --- arrays --------------------------------------------------------------------------------------

KINDS = [
    "?",
    "u1",
    "i1",
    "<u2",
    "<i4",
    "<u8",
    ">u8",
    "<i8",
    "<f2",
    "<f4",
    "<f8",
    "<c16",
    "S3",
    "U2",
]


def damaged_array(rng: random.Random, array: np.ndarray) -> np.ndarray:
    """The same array with other values, another shape or another type."""
    kind = rng.randrange(6)
    if kind == 0:
        with np.errstate(all="ignore"):
            try:
                return array.astype(rng.choice(KINDS))
            except (TypeError, ValueError):
                return array
    if kind == 1 and array.ndim:
        return array[: rng.randint(0, len(array))]
    if kind == 2 and array.ndim:
        return np.concatenate([array] * rng.choice((2, 3)), axis=rng.randrange(array.ndim))
    if kind == 3:
        if not array.ndim:
            return rng.choice([array[None], array[None, None]])
        return rng.choice(
            [array[None], array.reshape(-1), array.T, array[..., None], array[..., :0]]
        )
    if kind == 4:
        return np.asfortranarray(array)
    out = np.array(array)
    if out.size:
        at = rng.randrange(out.size)
        if out.dtype.kind in "iu":
            bits = 8 * out.itemsize
            out.reshape(-1).view(f"u{out.itemsize}")[at] = rng.choice(SIZES) % 2**bits
        elif out.dtype.kind == "f":
            out.reshape(-1)[at] = rng.choice([np.nan, np.inf, -np.inf, 0, 1, -1, 0.5, 1e30])
        elif out.dtype.kind == "U":
            out = np.array(str(any_value(rng)))
    return out


def npy_bytes(rng: random.Random, array: np.ndarray, lie: bool) -> bytes:
    """The array as an `.npy` file; `lie`: with another shape or type in its header."""
    out = io.BytesIO()
    np.save(out, array)
    data = out.getvalue()
    if not lie:
        return data
    begin = io.BytesIO(data)
    np.lib.format.read_magic(begin)
    np.lib.format.read_array_header_1_0(begin)
    shape = tuple(rng.choice([-1, *SIZES]) for _ in range(rng.choice((0, 1, 2, 2, 2, 3))))
    header = {
        "descr": rng.choice([*KINDS, "|O", "|S0", "|V4"])
        if rng.random() < 0.5
        else array.dtype.str,
        "fortran_order": rng.random() < 0.3,
        "shape": shape if rng.random() < 0.7 else array.shape,
    }
    out = io.BytesIO()
    rng.choice([np.lib.format.write_array_header_1_0, np.lib.format.write_array_header_2_0])(
        out, header
    )
    return out.getvalue() + data[begin.tell() :]


def damaged_npy(rng: random.Random, data: bytes) -> bytes:
    array = np.load(io.BytesIO(data))
    if rng.random() < 0.5:
        return npy_bytes(rng, array, lie=True)
    return npy_bytes(rng, damaged_array(rng, array), lie=False)


def damaged_npz(rng: random.Random, data: bytes) -> bytes:
    """Other arrays under the same names, or the same arrays under other names."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(members))
    kind = rng.randrange(10)
    if kind == 0:
        del members[name]
    elif kind == 1:
        members[rng.choice(["x.npy", "data.npy", "x", "../x.npy", "a/", "packed.npy"])] = members[
            name
        ]
    elif kind == 2:
        members[name] = damaged_bytes(rng, members[name])
    else:
        members[name] = damaged_npy(rng, members[name])
    out = io.BytesIO()
    method = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
    with zipfile.ZipFile(out, "w", method) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return out.getvalue()


def damaged_safetensors(rng: random.Random, data: bytes) -> bytes:
    """Another header for the same data, or other arrays."""
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    if rng.random() < 0.5:
        text = json.dumps(damaged_value(rng, header)).encode()
        return struct.pack("<Q", len(text)) + text + data[8 + length :]
    from safetensors.numpy import load, save

    arrays = load(data)
    name = rng.choice(sorted(arrays))  # `load` gives them in another order each time
    array = damaged_array(rng, arrays[name])
    try:
        return save(arrays | {name: np.array(array, order="C")})
    except Exception:  # a type that safetensors does not have
        return data[: rng.randrange(len(data))]


def damaged_parquet(rng: random.Random, data: bytes) -> bytes:
    """Other columns or other metadata, in a file that pyarrow writes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(data))
    meta = {key.decode(): value for key, value in (table.schema.metadata or {}).items()}
    file = pq.ParquetFile(io.BytesIO(data))
    meta |= {k.decode(): v for k, v in (file.metadata.metadata or {}).items() if k[:6] == b"nelson"}
    kind = rng.randrange(4)
    if kind == 0 and "nelson.variables" in meta:
        key = rng.choice([key for key in meta if key.startswith("nelson.")])
        meta[key] = damaged_json(rng, meta[key])
    elif kind == 1:
        name = rng.choice(["x", "x1", "1", "v2", "", "x" + "9" * 30, "x0", "é"])
        names = list(table.column_names)
        names[rng.randrange(len(names))] = name
        table = table.rename_columns(names)
    elif kind == 2:
        at = rng.randrange(table.num_columns)
        values = table.column(at).to_pylist()
        others = [
            pa.array([str(v) for v in values]),
            pa.array([[1, 0][: k % 3] for k in range(len(values))]),
            pa.array([None] * len(values)),
            pa.array(range(len(values)), pa.timestamp("ns", "Europe/Nowhere")),
            pa.array([b"\x01" * 3] * len(values), pa.binary(3)),
            pa.array([b"\x01"] * len(values)),
            pa.array([rng.choice([0, 1, None, 2.5]) for _ in values], pa.float64()),
            pa.array(["a"] * len(values)).dictionary_encode(),
            pa.array([{"a": 1}] * len(values)),
        ]
        table = table.set_column(at, table.column_names[at], rng.choice(others))
    else:
        table = table.slice(rng.randint(0, len(table)), rng.randint(0, len(table)))
    out = io.BytesIO()
    pq.write_table(
        table.replace_schema_metadata(meta), out, row_group_size=rng.choice((1, 7, 64, 1000))
    )
    return out.getvalue()


# --- any file ------------------------------------------------------------------------------------


CONTENT: dict[str, Callable[[random.Random, bytes], bytes]] = {
    ".json": damaged_json,
    ".npy": damaged_npy,
    ".npz": damaged_npz,
    ".safetensors": damaged_safetensors,
    ".parquet": damaged_parquet,
}


def damaged(rng: random.Random, name: str, data: bytes, other: bytes = b"") -> bytes:
    """A file of that name after some damage; half of it to the content of a container."""
    for suffix, pack, unpack in (
        (".gz", lambda d: gzip.compress(d, 1, mtime=0), gzip.decompress),
        (".xz", lambda d: lzma.compress(d, preset=0), lzma.decompress),
    ):
        if name.endswith(suffix) and rng.random() < 0.5:
            inner = damaged(rng, name.removesuffix(suffix), unpack(data))
            return pack(inner)
    content = CONTENT.get(name[name.rfind(".") :])
    if content is not None and rng.random() < 0.6:
        changed = content(rng, data)
        return damaged_bytes(rng, changed) if rng.random() < 0.05 else changed
    return damaged_bytes(rng, data, other)
