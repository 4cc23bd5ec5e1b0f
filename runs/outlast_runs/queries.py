"""Queries: what is asked of a run, its answer, and the changes by which one process asks and another answers.

A query changes nothing of the run. One that this process cannot answer is left as a row for the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema.rows import RequestKey, RequestRow
from outlast_store.transitions import queries
from outlast_store.transitions.requests import ANSWERED, add
from outlast_workflow.errors import DamagedHistoryError
from outlast_workflow.history.events import Failure, stored_json
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
        """Return the text that a row keeps."""
        value = {"result": self.result.value} if self.result is not None else {"failure": self.failure}
        return orjson.dumps(value).decode()

    @classmethod
    def from_text(cls, text: str, run_id: str) -> QueryResult:
        """Read the text of a row.

        Args:
            text: The text.
            run_id: The run that was asked.

        Raises:
            DamagedHistoryError: It cannot be read.
        """
        what = "answer to a query"
        document = stored_json(text, run_id, what)
        if not isinstance(document, dict) or not document.keys() & {"failure", "result"}:
            raise DamagedHistoryError(run_id, what)
        if "failure" in document:
            return cls(failure=document["failure"])
        return cls(Payload.of(document["result"]))


class AskQuery(BaseChange):
    """Leave a query for another process.

    Args:
        row: The query; its times are set when it is written.
        patience_us: How long an answer is waited for, in microseconds.
    """

    def __init__(self, row: RequestRow, patience_us: int) -> None:
        self.row = row
        self.patience_us = patience_us
        self.weight = 512 + len(row.input)

    def apply(self, batch: Batch) -> RequestKey:
        """Write the row, and return the key under which the answer will stand."""
        self.row.created_at = batch.now
        self.row.expires_at = batch.now + self.patience_us
        add(batch, self.row)
        batch.asked = True
        return self.row.key


class AnswerQuery(BaseChange):
    """Answer a query of another process; the first answer counts."""

    def __init__(self, key: RequestKey, answer: str) -> None:
        self.key = key
        self.answer = answer
        self.weight = 512 + len(answer)

    def apply(self, batch: Batch) -> bool:
        """Write the answer; return whether anybody still waited for it."""
        if not queries.answer_query(batch, self.key, self.answer):
            return False
        batch.answered[self.key] = (ANSWERED, self.answer)
        return True


class ForgetQuery(BaseChange):
    """Delete a query whose answer was read, or for which nobody waits any more."""

    def __init__(self, key: RequestKey) -> None:
        self.key = key

    def apply(self, batch: Batch) -> None:
        """Delete its row."""
        queries.delete_query(batch, self.key)
