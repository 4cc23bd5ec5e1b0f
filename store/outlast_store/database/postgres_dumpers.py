"""How a connection to PostgreSQL writes the arrays of :mod:`outlast_store.database.postgres_arrays`: in binary.

psycopg writes an array as text, value by value, and escapes it with regular expressions in Python, which took a fifth
of a busy worker's time. A binary array needs no escaping: it is a header, then the length and the bytes of each element
(the format of the server's ``array_recv``).

The arrays carry no type of their own: the statement casts its parameter, and the server takes the type from there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import psycopg
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format

from outlast_store.database.postgres_arrays import BigintArray, BooleanArray, TextArray

_HEADER: Final = struct.Struct(">iiIii").pack
_LENGTH: Final = struct.Struct(">i").pack
_BIGINT: Final = struct.Struct(">iq").pack
_NULL: Final = _LENGTH(-1)
_EMPTY: Final = struct.Struct(">iiI").pack
_FALSE: Final = _LENGTH(1) + b"\0"
_TRUE: Final = _LENGTH(1) + b"\1"


def _text(value: Any) -> bytes:
    if value is None:
        return _NULL
    if "\0" in value:
        raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    data: bytes = value.encode()
    return _LENGTH(len(data)) + data


def _bigint(value: Any) -> bytes:
    return _NULL if value is None else _BIGINT(8, value)


def _boolean(value: Any) -> bytes:
    if value is None:
        return _NULL
    return _TRUE if value else _FALSE


class _ArrayDumper(Dumper):
    """Writes an array of one type; the array itself holds the element's oid."""

    format = Format.BINARY
    oid = 0
    element_oid: int
    write: Callable[[Any], bytes]

    def dump(self, obj: Any) -> bytes:
        """Return the array's bytes.

        Raises:
            psycopg.DataError: No column of this type can hold one of the values.
        """
        if not obj:
            return _EMPTY(0, 0, self.element_oid)
        try:
            elements = b"".join(map(type(self).write, obj))
        except struct.error as error:
            raise psycopg.DataError(f"a value is not an integer of 64 bits: {error}") from error
        return _HEADER(1, None in obj, self.element_oid, len(obj), 1) + elements


class _TextArrayDumper(_ArrayDumper):
    element_oid = 25
    write = staticmethod(_text)


class _BigintArrayDumper(_ArrayDumper):
    element_oid = 20
    write = staticmethod(_bigint)


class _BooleanArrayDumper(_ArrayDumper):
    element_oid = 16
    write = staticmethod(_boolean)


def register(adapters: AdaptersMap) -> None:
    """Make a connection, or a cursor, accept these arrays as parameters."""
    adapters.register_dumper(TextArray, _TextArrayDumper)
    adapters.register_dumper(BigintArray, _BigintArrayDumper)
    adapters.register_dumper(BooleanArray, _BooleanArrayDumper)
