"""Codecs: payloads compressed and encrypted before they reach the database, with keys that can be changed."""

from __future__ import annotations

import asyncio
import tempfile
import zlib
from collections.abc import Sequence

from cryptography.fernet import Fernet, MultiFernet
from pydantic import BaseModel

from outlast import Client, DataConverter, PayloadCodec, Worker, activity, workflow


class Compressed:
    """Compress data if that makes it smaller. The first byte says whether it was."""

    name = "zlib"

    def encode(self, data: bytes) -> bytes:
        packed = zlib.compress(data)
        return b"\1" + packed if len(packed) < len(data) else b"\0" + data

    def decode(self, data: bytes) -> bytes:
        return zlib.decompress(data[1:]) if data[:1] == b"\1" else data[1:]


class Encrypted:
    """Encrypt with the first key, decrypt with any of them. Keep an old key for as long as histories need it."""

    name = "fernet"

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._fernet = MultiFernet([Fernet(key) for key in keys])

    def encode(self, data: bytes) -> bytes:
        return self._fernet.encrypt(data)

    def decode(self, data: bytes) -> bytes:
        return self._fernet.decrypt(data)


class Chain:
    """Several codecs as one: here, compress first, then encrypt."""

    def __init__(self, *codecs: PayloadCodec) -> None:
        self._codecs = codecs
        self.name = "+".join(codec.name for codec in codecs)

    def encode(self, data: bytes) -> bytes:
        for codec in self._codecs:
            data = codec.encode(data)
        return data

    def decode(self, data: bytes) -> bytes:
        for codec in reversed(self._codecs):
            data = codec.decode(data)
        return data


class Patient(BaseModel):
    name: str
    notes: str


@activity.defn(start_to_close_timeout=10)
async def summary(patient: Patient) -> str:
    return f"{patient.name}: {patient.notes[:6]}"


@workflow.defn
async def admit(patient: Patient) -> str:
    return await summary(patient)


WORKFLOWS = [admit]
ACTIVITIES = [summary]


async def main(url: str) -> None:
    converter = DataConverter(Chain(Compressed(), Encrypted([Fernet.generate_key()])))
    async with Client.connect(url, converter=converter) as client:
        async with Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES):
            handle = await client.start(admit, Patient(name="Ada", notes="secret " * 100), id="p-1")
            print(await handle.result())
            async for event in handle.history():
                if event.type == "WorkflowStarted":
                    print("in the database:", str(event.payload["input"])[:60])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/patients.db"))
