"""Protos: compiled when they are needed, in a process of its own, to a pool of descriptors. No code is generated."""

from __future__ import annotations

import difflib
import hashlib
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, json_format, message_factory
from google.protobuf.descriptor import Descriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message

from outlast_serverless.calls.resources import Resource

MOST_BYTES: Final = 1 << 20
_NAME: Final = "service.proto"
_COMPILES_S: Final = 30.0
_MOST_KEPT: Final = 32
_TOLD: Final = 500


class Proto:
    """What a proto describes.

    Args:
        compiled: Its descriptors, and those of what it imports, each after those that it needs.
    """

    def __init__(self, compiled: bytes) -> None:
        self._pool = DescriptorPool()
        self._services: list[str] = []
        for file in descriptor_pb2.FileDescriptorSet.FromString(compiled).file:
            self._pool.Add(file)
            prefix = f"{file.package}." if file.package else ""
            self._services += [prefix + service.name for service in file.service]

    def method(self, service: str, name: str) -> MethodDescriptor:
        """Return a method of a service.

        Args:
            service: The service, with or without its package.
            name: The method.

        Raises:
            ValueError: There is none.
        """
        fitting = [one for one in self._services if service in (one, one.rpartition(".")[2])]
        if len(fitting) != 1:
            near = ", ".join(difflib.get_close_matches(service, self._services, cutoff=0.0))
            raise ValueError(f"the proto has no service {service}: it has {near or 'none'}")
        found: ServiceDescriptor = self._pool.FindServiceByName(fitting[0])
        method = found.methods_by_name.get(name)
        if method is None:
            raise ValueError(f"{fitting[0]} has no method {name}: it has {', '.join(found.methods_by_name)}")
        return method

    def message(self, type: Descriptor, value: Any) -> Message:
        """Return the message that JSON describes.

        Args:
            type: Its type.
            value: The JSON.

        Raises:
            ValueError: It does not fit the type.
        """
        try:
            return json_format.ParseDict(value, self.new(type), descriptor_pool=self._pool)
        except (json_format.ParseError, TypeError) as error:
            raise ValueError(f"the arguments are no {type.full_name}: {error}") from None

    def new(self, type: Descriptor) -> Message:
        """Return an empty message of a type."""
        return message_factory.GetMessageClass(type)()

    def read(self, type: Descriptor, content: bytes) -> Message:
        """Return the message in bytes.

        Raises:
            ValueError: They are no such message.
        """
        try:
            return message_factory.GetMessageClass(type).FromString(content)
        except DecodeError:
            raise ValueError(f"the answer is no {type.full_name}") from None

    def json(self, message: Message) -> Any:
        """Return a message as JSON, as the JSON mapping of Protocol Buffers has it."""
        return json_format.MessageToDict(message, descriptor_pool=self._pool)


class Protos:
    """Compiles protos, and keeps those that were used last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Proto] = OrderedDict()
        self._lock = threading.Lock()

    def compiled(self, resource: Resource) -> Proto:
        """Return what a proto describes. It blocks: call it in a thread.

        Args:
            resource: The text of the proto.

        Raises:
            ValueError: It cannot be compiled.
        """
        digest = hashlib.sha256(resource.content).hexdigest()
        with self._lock:
            found = self._kept.get(digest)
            if found is None:
                found = self._kept[digest] = _compiled(resource)
            self._kept.move_to_end(digest)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return found


def _compiled(resource: Resource) -> Proto:
    spec = find_spec("grpc_tools")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    with tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        (Path(folder) / _NAME).write_bytes(resource.content)
        out = Path(folder) / "descriptors"
        includes = [folder, str(Path(spec.submodule_search_locations[0]) / "_proto")]
        try:
            done = subprocess.run(
                [
                    *(sys.executable, "-I", "-m", "grpc_tools.protoc", *(f"-I{one}" for one in includes)),
                    *("--include_imports", f"--descriptor_set_out={out}", _NAME),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd=folder,
                env={},
                timeout=_COMPILES_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"the proto {resource.url} takes too long to compile") from None
        if done.returncode != 0:
            told = done.stderr.decode(errors="replace").strip()[:_TOLD]
            raise ValueError(f"the proto {resource.url} cannot be compiled: {told}")
        try:
            return Proto(out.read_bytes())
        except (DecodeError, TypeError) as error:
            raise ValueError(f"the proto {resource.url} cannot be used: {error}") from None
