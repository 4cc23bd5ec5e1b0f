"""Conversion between user values and payloads: encoded by their class, decoded by type hint.

History stays readable JSON unless a codec (compression, encryption) is given; then a payload is the envelope
``{"$codec": name, "data": base64}``. A user's own dict of that shape is wrapped as ``{"$codec": null, "data": dict}``,
so that it is never mistaken for an envelope.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import orjson

from outlast_workflow.data.reading import hint_name, is_untyped, plain_classes, simple_types
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.data.writing import UnwritableError, dump
from outlast_workflow.errors import (
    DurableCallError,
    InvalidOptionError,
    PayloadCodecError,
    PayloadDecodeError,
    PayloadEncodeError,
)
from outlast_workflow.primitives.payloads import Payload

_ENVELOPE = {"$codec", "data"}


@runtime_checkable
class PayloadCodec(Protocol):
    """A reversible transformation of the bytes of payloads, such as compression or encryption."""

    @property
    def name(self) -> str:
        """Its name in history. Each payload names the codec that encoded it."""
        ...

    def encode(self, data: bytes) -> bytes:
        """Convert JSON text to what is stored."""
        ...

    def decode(self, data: bytes) -> bytes:
        """Convert what was stored to JSON text."""
        ...


class DataConverter:
    """Converts user values to payloads and back. It has no state but its codec, and can be shared between threads.

    Args:
        codec: Applied to every payload. Payloads without its mark are read as plain JSON.
    """

    __slots__ = ("codec",)

    def __init__(self, codec: PayloadCodec | None = None) -> None:
        if codec is not None and not codec.name:
            raise InvalidOptionError("payload codec must have a name that is not empty", field="codec")
        self.codec = codec

    # --- writing -----------------------------------------------------------------------------------------------------

    def encode(self, value: Any, what: str = "value") -> Payload:
        """Return the payload of a value.

        Args:
            value: Plain JSON, a dataclass, a pydantic model, and what
                :mod:`outlast_workflow.data.writing` lists.
            what: The value's name in messages.

        Raises:
            PayloadEncodeError: The value has no JSON form.
        """
        if value is None and self.codec is None:
            return _NULL
        try:
            data = dump(value)
        except UnwritableError as error:
            raise PayloadEncodeError(f"{what} cannot be written as JSON: {error}", what=what) from None
        if self.codec is not None:
            return self._encoded(data, what)
        if data[:1] == b"{" and b'"$codec":' in data and _is_envelope(orjson.loads(data)):
            return Payload(b'{"$codec":null,"data":%b}' % data)
        return Payload(data)

    def encode_args(
        self, args: Sequence[Any], signature: CallSignature | None = None, what: str = "input"
    ) -> Payload:
        """Return the payload of a call's arguments, a JSON array. The number of arguments is not checked here.

        Args:
            args: The arguments.
            signature: The receiver's, which names the parameters in messages.
            what: What messages call the arguments.

        Raises:
            PayloadEncodeError: An argument has no JSON form; the message names it.
        """
        if not args and self.codec is None:
            return _EMPTY
        try:
            data = dump(args if isinstance(args, list) else list(args))
        except UnwritableError as error:
            raise _unwritable_argument(args, signature, what, error) from None
        return Payload(data) if self.codec is None else self._encoded(data, what)

    def encode_request(self, args: Sequence[Any], signature: CallSignature | None, what: str) -> Payload:
        """Encode arguments like :meth:`encode_args`, but refuse those that their receiver could not decode.

        Args:
            args: The arguments.
            signature: The receiver's, if it is known.
            what: What messages call the receiver.

        Raises:
            DurableCallError: An argument does not match the receiver's type hint.
        """
        if signature is not None and args:
            reader: _ArgumentsReader = signature.readers.get(len(args)) or _reader(signature, len(args))
            for value, classes in zip(args, reader.checks, strict=True):
                if classes is None or not isinstance(value, classes):
                    _check_readable(reader, args, signature, what)
                    break
        return self.encode_args(args, signature, what)

    def _encoded(self, data: bytes, what: str) -> Payload:
        codec = self.codec
        assert codec is not None
        try:
            encoded = codec.encode(data)
        except Exception as error:
            raise PayloadEncodeError(
                f"{what} cannot be encoded: payload codec {codec.name!r} raised {type(error).__name__}",
                what=what,
            ) from error
        return Payload.of({"$codec": codec.name, "data": b64encode(encoded).decode()})

    # --- reading -----------------------------------------------------------------------------------------------------

    def decode(self, payload: Payload, hint: Any = Any, what: str = "value") -> Any:
        """Return the value of a payload, decoded by a hint; without one (``Any`` or None), plain JSON.

        Args:
            payload: What was stored.
            hint: The type to decode it as.
            what: What messages call the value.

        Raises:
            PayloadDecodeError: The payload does not match the hint.
            PayloadCodecError: Its codec is not configured, or failed.
        """
        try:
            classes = plain_classes(hint)
        except TypeError:
            classes = None
        if classes is not None:
            value = payload.take()
            if value.__class__ is dict and "$codec" in value:
                payload = self._opened(payload, what)
                value = payload.take()
            if isinstance(value, classes):
                return value
        elif payload.is_object_with("$codec"):
            payload = self._opened(payload, what)
        return _validated(b"[%b]" % payload.json, (hint,), (what,), (what,))[0]

    def decode_args(self, payload: Payload, signature: CallSignature | None = None) -> list[Any]:
        """Return the arguments of a call. Missing trailing ones take the function's defaults.

        Args:
            payload: A JSON array.
            signature: The function's parameters and their hints; without one, plain JSON.

        Raises:
            PayloadDecodeError: An argument does not match its hint, or there are too many or too few; the message names
                the parameter.
            PayloadCodecError: Their codec is not configured, or failed.
        """
        values = payload.take()
        if values.__class__ is dict and "$codec" in values:
            payload = self._opened(payload, f"the input of {signature.name}()" if signature else "the input")
            values = payload.take()
        if not isinstance(values, list):
            raise PayloadDecodeError(
                f"the input{f' of {signature.name}()' if signature else ''} is not a JSON array of arguments: "
                "start it with a list of arguments"
            )
        if signature is None:
            return values
        reader: _ArgumentsReader = signature.readers.get(len(values)) or _reader(signature, len(values))
        return reader.read(payload, values)

    def decode_message(self, payload: Payload, hint: Any, what: str) -> Any:
        """Return the arguments of a signal as one value: the only argument, ``None`` of none, a list of several.

        Args:
            payload: A JSON array.
            hint: The type to decode the value as.
            what: What messages call it.

        Raises:
            PayloadDecodeError: It does not match the hint.
            PayloadCodecError: Its codec is not configured, or failed.
        """
        if payload.is_object_with("$codec"):
            payload = self._opened(payload, what)
        values = payload.take()
        if not isinstance(values, list):
            raise PayloadDecodeError(
                f"{what} is not a JSON array of arguments: send it as a list of arguments"
            )
        if len(values) == 1:
            value, array = values[0], payload.json
        elif values:
            value, array = values, b"[%b]" % payload.json
        else:
            value, array = None, b"[null]"
        classes = (object,) if is_untyped(hint) else simple_types(hint)
        if classes is not None and isinstance(value, classes):
            return value
        return _validated(array, (hint,), (what,), (what,))[0]

    def _opened(self, payload: Payload, what: str) -> Payload:
        """Return the payload inside the envelope, if there is one."""
        value = payload.value
        if not _is_envelope(value):
            return payload
        name, data = value["$codec"], value["data"]
        if name is None:
            return Payload.of(data)
        codec = self.codec
        if codec is None or codec.name != name:
            have = f"this client has {codec.name!r}" if codec else "this client has none"
            raise PayloadCodecError(
                f"{what} was encoded by the payload codec {str(name)[:80]!r}, {have}: connect with that codec"
            )
        try:
            opened = Payload(codec.decode(b64decode(data)))
            orjson.loads(opened.json)
            return opened
        except Exception as error:
            raise PayloadCodecError(
                f"{what} cannot be decoded: payload codec {name!r} raised {type(error).__name__}: "
                "is its key the right one?"
            ) from error


def load_readers(signatures: Iterable[CallSignature]) -> None:
    """Load pydantic if a hint of one of these functions needs it.

    A worker calls this for what it runs, before it runs it: loading takes 6 MB, and at the first such value it would
    slow down a workflow task. Where all hints are plain, pydantic is never loaded.

    Args:
        signatures: The functions' signatures.
    """
    for signature in signatures:
        for hint in (*signature.hints, signature.var_hint, signature.result_hint):
            if not is_untyped(hint) and simple_types(hint) is None:
                import_module("outlast_workflow.data.adapters")
                return


class _ArgumentsReader:
    """Decodes the arguments of one function, for one number of arguments."""

    __slots__ = ("checks", "defaults", "hints", "labels", "names")

    def __init__(self, signature: CallSignature, count: int) -> None:
        self.hints = tuple(signature.hint(index) for index in range(count))
        self.names = tuple(signature.parameter(index) for index in range(count))
        self.labels = tuple(f"parameter {name!r} of {signature.name}()" for name in self.names)
        missing = len(signature.names) - count
        self.defaults = signature.defaults[-missing:] if missing > 0 else ()
        checks: list[tuple[type, ...] | None] = []
        for hint in self.hints:
            classes = (object,) if is_untyped(hint) else simple_types(hint)
            checks.append(classes)
        self.checks = tuple(checks)

    def read(self, payload: Payload, values: list[Any]) -> list[Any]:
        """Return the arguments: ``values`` as they are if they match the hints, or else decoded by pydantic."""
        for value, classes in zip(values, self.checks, strict=True):
            if classes is None or not isinstance(value, classes):
                return [*_validated(payload.json, self.hints, self.names, self.labels), *self.defaults]
        values += self.defaults
        return values


def _check_readable(
    reader: _ArgumentsReader, args: Sequence[Any], signature: CallSignature, what: str
) -> None:
    """Refuse arguments that their receiver could not decode."""
    try:
        reader.read(_plain_args(args, signature, what), list(args))
    except PayloadDecodeError as error:
        raise DurableCallError(f"{what} cannot be called like this: {error}") from None


def _reader(signature: CallSignature, count: int) -> _ArgumentsReader:
    """Return the reader for a number of arguments, created at its first use if that number is possible."""
    reader: _ArgumentsReader | None = signature.readers.get(count)
    if reader is None:
        if count != len(signature.names):
            _check_count(signature, count)
        reader = signature.readers[count] = _ArgumentsReader(signature, count)
    return reader


def _validated(
    array: bytes, hints: tuple[Any, ...], names: tuple[str, ...], labels: tuple[str, ...]
) -> tuple[Any, ...]:
    """Return the items of a JSON array, each decoded by its hint. Messages name them by their labels."""
    from pydantic import ValidationError

    from outlast_workflow.data.adapters import UnreadableHintError, adapter, describe_error

    try:
        return adapter(hints).validate_json(array)
    except ValidationError as error:
        index, how = describe_error(error, hints)
        name = hint_name(hints[index])
        raise PayloadDecodeError(
            f"{labels[index]} cannot be read as {name}: {how}: "
            "make the type hint accept what was recorded, or fix what is sent",
            parameter=names[index],
            hint=name,
        ) from None
    except UnreadableHintError as error:
        name = ", ".join(hint_name(hint) for hint in hints)
        raise PayloadDecodeError(
            f"{' or '.join(labels)} cannot be read: no way is known to read JSON as {name} ({error}): use plain "
            "data, a dataclass or a pydantic model",
            parameter=names[0] if len(names) == 1 else None,
            hint=name,
        ) from None


def _is_envelope(value: dict[str, Any]) -> bool:
    return "$codec" in value and value.keys() == _ENVELOPE and isinstance(value["$codec"], str | None)


def _check_count(signature: CallSignature, count: int) -> None:
    if signature.required <= count and (
        count <= len(signature.names) or signature.var_positional is not None
    ):
        return
    message = f"{signature.arity_message(count)}: "
    if count < signature.required:
        missing = signature.names[count]
        raise PayloadDecodeError(
            f"{message}parameter {missing!r} is missing: send it; for what is recorded already, give it a default",
            parameter=missing,
        )
    raise PayloadDecodeError(
        f"{message}argument {len(signature.names) + 1} has no parameter: "
        "leave it out; for what is recorded already, keep the parameter"
    )


def _plain_args(args: Sequence[Any], signature: CallSignature, what: str) -> Payload:
    """Return the payload of a call's arguments without a codec."""
    try:
        return Payload(dump(list(args)))
    except UnwritableError as error:
        raise _unwritable_argument(args, signature, what, error) from None


def _unwritable_argument(
    args: Sequence[Any], signature: CallSignature | None, what: str, error: UnwritableError
) -> PayloadEncodeError:
    for index, argument in enumerate(args):
        try:
            dump(argument)
        except UnwritableError as found:
            label = (
                f"parameter {signature.parameter(index)!r} of {signature.name}()"
                if signature
                else f"argument {index + 1} of {what}"
            )
            return PayloadEncodeError(f"{label} cannot be written as JSON: {found}", what=label)
    return PayloadEncodeError(f"{what} cannot be written as JSON: {error}", what=what)


_NULL = Payload(b"null", None)
_EMPTY = Payload(b"[]", [])
