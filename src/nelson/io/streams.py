"""Bytes in and text out: paths, "-", open files; plain, gzip or xz."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import sys
import zlib
from typing import IO, Any

from nelson.errors import FormulaError


def load(source: str | os.PathLike[str] | IO[Any] | bytes) -> tuple[str, bytes]:
    """Name and content of a path, "-" (stdin), an open file (text or binary) or bytes."""
    if isinstance(source, (bytes, bytearray)):
        return "<bytes>", bytes(source)
    if isinstance(source, (str, os.PathLike)):
        name = os.fspath(source)
        try:
            if name == "-":
                return "<stdin>", sys.stdin.buffer.read()
            with open(name, "rb") as file:
                return name, file.read()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise FormulaError(f"cannot read it: {reason}", source=str(name)) from None
    text = source.read()
    data = text.encode("utf-8", "replace") if isinstance(text, str) else bytes(text)
    return str(getattr(source, "name", "<file>")), data


def decompressed(data: bytes, source: str | None) -> bytes:
    """What gzip or xz data holds, judged by the first bytes and not by a name; else the data."""
    try:
        if data.startswith(b"\x1f\x8b"):
            return gzip.decompress(data)
        if data.startswith(b"\xfd7zXZ\x00"):
            return lzma.decompress(data)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise FormulaError(
            f"broken compressed data ({error})", expected="a whole .gz or .xz file", source=source
        ) from None
    return data


def save(text: str, target: str | os.PathLike[str] | IO[Any]) -> None:
    """To a path (.gz and .xz compress), "-" (stdout) or an open file (text or binary)."""
    if not isinstance(target, (str, os.PathLike)):
        is_text = isinstance(target, io.TextIOBase)
        target.write(text if is_text else text.encode())
        return
    name = os.fspath(target)
    if name == "-":
        sys.stdout.write(text)
        return
    opener: Any = {".gz": gzip.open, ".xz": lzma.open}.get(os.path.splitext(name)[1], open)
    with opener(name, "wb") as file:
        file.write(text.encode())
