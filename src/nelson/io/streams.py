"""Bytes in and text out, through paths, "-" and open files; plain, gzip or xz."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from nelson.errors import FormulaError
from nelson.io import atomic

_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"  # the first bytes of compressed files
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
#: What else a file may begin with. These patterns are no text, so no file is taken for another.
_OTHER = {
    rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)": "compressed by bzip2",
    rb"\x28\xb5\x2f\xfd": "compressed by zstd",
    rb"\x04\x22\x4d\x18": "compressed by lz4",
    rb"PK\x03\x04": "a zip archive",
    rb"7z\xbc\xaf\x27\x1c": "a 7z archive",
    rb"\xff\xfe|\xfe\xff": "text in UTF-16",
}
_LONGEST_BEGIN = 10
_BROKEN = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, MemoryError)


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
            raise _unreadable(error, str(name)) from None
    text = source.read()
    data = text.encode("utf-8", "backslashreplace") if isinstance(text, str) else bytes(text)
    return str(getattr(source, "name", "<file>")), data


def decompressed(data: bytes, source: str | None) -> bytes:
    """The text in gzip or xz data, recognised by its first bytes; any other text as it is.

    A byte order mark at its beginning is left out.
    """
    try:
        if data.startswith(_GZIP):
            data = gzip.decompress(data)
        elif data.startswith(_XZ):
            data = lzma.decompress(data)
    except _BROKEN as error:
        raise _broken(error, source) from None
    _refuse_other(data[:_LONGEST_BEGIN], source)
    return data.removeprefix(_BYTE_ORDER_MARK)


def _refuse_other(begin: bytes, source: str | None) -> None:
    for pattern, kind in _OTHER.items():
        if re.match(pattern, begin):
            raise FormulaError(
                f"this is {kind}", expected="text in UTF-8, plain or as .gz or .xz", source=source
            )


@contextmanager
def text_lines(path: str, errors: str = "replace") -> Iterator[IO[str]]:
    """The text of a file, decompressed as it is read if it is gzip or xz; "-" is stdin.

    A byte order mark, which spreadsheets write at the beginning, is skipped. errors: what happens
    to bytes that are not UTF-8; "strict" raises UnicodeDecodeError.
    """
    if path == "-":
        name, data = load(path)
        yield io.StringIO(decompressed(data, name).decode("utf-8-sig", errors))
        return
    if "\0" in path:
        raise FormulaError(f"no file name: {path!r}", expected="a name without the character NUL")
    try:
        with open(path, "rb") as file:
            begin = file.read(_LONGEST_BEGIN)
            _refuse_other(begin, path)
            file.seek(0)
            source: Any = file
            if begin.startswith(_GZIP):
                source = gzip.GzipFile(fileobj=file)
            elif begin.startswith(_XZ):
                source = lzma.LZMAFile(file)  # noqa: SIM115 - closed with the text below
            with io.TextIOWrapper(source, "utf-8-sig", errors) as text:
                yield text
    except FormulaError:
        raise
    except _BROKEN as error:
        raise _broken(error, path) from None
    except OSError as error:
        raise _unreadable(error, path) from None


def _unreadable(error: Exception, source: str) -> FormulaError:
    reason = getattr(error, "strerror", None) or str(error)
    return FormulaError(f"cannot read it: {reason}", source=source)


def _broken(error: Exception, source: str | None) -> FormulaError:
    reason = str(error) or type(error).__name__
    return FormulaError(
        f"broken compressed data ({reason})", expected="a whole .gz or .xz file", source=source
    )


def save(text: str, target: str | os.PathLike[str] | IO[Any]) -> None:
    """To a path (.gz and .xz compress), "-" (stdout) or an open file (text or binary).

    A file of this path is replaced by the whole text, or stays as it was.
    """
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise FormulaError(
            "a text with half of a character pair (a lone surrogate)",
            expected="text that UTF-8 can hold",
        ) from None
    if not isinstance(target, (str, os.PathLike)):
        target.write(text if isinstance(target, io.TextIOBase) else content)
        return
    name = os.fspath(target)
    if name == "-":
        sys.stdout.write(text)
        return
    compress: Any = {".gz": gzip.compress, ".xz": lzma.compress}.get(
        os.path.splitext(name)[1], bytes
    )
    try:
        atomic.write(name, compress(content), sync=False)
    except ValueError as error:  # NUL or a lone surrogate in the name
        raise FormulaError(f"no file name: {name!r} ({error})") from None
