"""A question about a run, and the reply to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from outlast_workflow.history.events import Failure
from outlast_workflow.primitives.payloads import Payload


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """What is asked of a run."""

    name: str
    input: Payload
    headers: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The answer, or why there is none."""

    result: Payload | None = None
    failure: Failure | None = None

    def to_text(self) -> str:
        """As a row keeps it."""
        value = {"result": self.result.value} if self.result is not None else {"failure": self.failure}
        return orjson.dumps(value).decode()

    @classmethod
    def from_text(cls, text: str) -> QueryResult:
        """What a row says."""
        document: dict[str, Any] = orjson.loads(text)
        if "failure" in document:
            return cls(failure=document["failure"])
        return cls(Payload.of(document["result"]))
