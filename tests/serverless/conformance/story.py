"""A scenario as data: what is done, one after the other, and what comes of it. It can be played in many modes."""

from __future__ import annotations

import asyncio
import itertools
import re
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from unittest.mock import patch

import orjson
from tests.serverless.conformance.stage import Stage

from outlast.errors import FaultedError, FaultedTimeoutError, WorkflowCancelledError, WorkflowResultError
from outlast_serverless import Document, DocumentRun
from outlast_serverless.interpreter import pace
from outlast_serverless.interpreter.faults import is_timeout

LONGEST_S: Final = 4 * 3600.0
"""What a scenario may take, in virtual time."""
_US: Final = 1_000_000
_numbers: Final = itertools.count(1)

_OWN: Final = (
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}",
    r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)",
    r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT",
    r"task queue '\w+'",
)
"""What runs do not have in common: ids, instants and task queues."""

Ending = Literal["completed", "faulted", "cancelled", "failed"]


@dataclass(frozen=True, slots=True)
class Act:
    """Something that is done.

    Attributes:
        what: ``execute``, ``advance``, ``publish``, ``send``, ``kill``, ``gone``, ``watchdog``, ``worker``,
            ``suspend``, ``resume``, ``cancel``, ``phase`` or ``open``.
        value: What it needs.
    """

    what: str
    value: Any = None


@dataclass(slots=True)
class Outcome:
    """What came of a scenario.

    Attributes:
        ending: How it ended.
        value: The output, or the error.
        took_s: The virtual seconds from its start to its end.
        run: The run.
        tasks_a_run: After how many tasks it continued as new.
    """

    ending: Ending
    value: Any
    took_s: float
    run: DocumentRun
    tasks_a_run: int

    @property
    def comparable(self) -> bytes:
        """What must be the same in each mode; ids and instants of the run itself are left out."""
        text = orjson.dumps([self.ending, self.value], option=orjson.OPT_SORT_KEYS).decode()
        text = text.replace(self.run.id, "it")
        for pattern in _OWN:
            text = re.sub(pattern, "its own", text)
        return text.encode()


@dataclass(frozen=True, slots=True)
class Step:
    """A task that ran."""

    name: str
    pointer: str
    ending: str
    value: Any = None


@dataclass(slots=True)
class Story:
    """See the module.

    Attributes:
        document: The document that is executed.
        registered: Those that are registered before.
        input: Its input.
        acts: What is done.
        workers: Whether there is a worker when it begins.
        continues: Whether it is played in the mode that continues as new at every safe point.
        longest_s: What it may take, in virtual seconds.
    """

    document: Document | None = None
    registered: list[Document] = field(default_factory=list)
    input: Any = None
    acts: list[Act] = field(default_factory=list)
    workers: bool = True
    continues: bool = True
    longest_s: float = LONGEST_S

    async def play(self, stage: Stage, queue: str = "plain") -> Outcome:
        """Play it, and return what came of it.

        Args:
            stage: Where; a worker is there.
            queue: The task queue of the run.
        """
        return await _Play(self, stage, queue).play()


class _Play:
    def __init__(self, story: Story, stage: Stage, queue: str) -> None:
        self._queue = queue
        self._story = story
        self._stage = stage
        self._id = f"run-{next(_numbers)}"
        self._events = itertools.count(1)
        self._run: DocumentRun | None = None
        self._began = 0

    @property
    def _document_run(self) -> DocumentRun:
        assert self._run is not None, "the workflow is executed first"
        return self._run

    async def play(self) -> Outcome:
        for document in self._story.registered:
            await self._stage.runtime.register(document)
        if not self._story.workers:
            await self._stage.nobody()
        self._began = self._stage.clock.now()
        for act in self._story.acts:
            await getattr(self, f"_{act.what}")(act.value)
        return await self._outcome()

    async def _outcome(self) -> Outcome:
        run = self._document_run
        ending: Ending
        value: Any
        late = False
        try:
            ending, value = "completed", await run.result(timeout=self._story.longest_s)
        except FaultedError as faulted:
            ending, value = "faulted", faulted.error
            late = isinstance(faulted, FaultedTimeoutError)
        except WorkflowCancelledError:
            ending, value = "cancelled", None
        except WorkflowResultError as failed:
            ending, value = "failed", str(failed)
        closed = (await run.handle.describe()).run.closed_at
        took = 0.0 if closed is None else (closed.timestamp() * _US - self._began) / _US
        assert late == (ending == "faulted" and is_timeout(value))
        state = await run.describe()
        assert state.phase == ("faulted" if ending == "failed" else ending)
        assert state.error == (value if ending == "faulted" else state.error)
        return Outcome(ending, value, took, run, pace.TASKS_A_RUN)

    # --- acts ---------------------------------------------------------------------------------------------------------

    async def _execute(self, _: None) -> None:
        assert self._story.document is not None
        self._run = await self._stage.runtime.start(
            self._story.document, self._story.input, id=self._id, task_queue=self._queue
        )

    async def _advance(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def _event(self, written: dict[str, Any]) -> dict[str, Any]:
        return {"id": f"{self._id}-{next(self._events)}", "source": "/test", **written}

    async def _publish(self, event: dict[str, Any]) -> None:
        await self._stage.runtime.publish(self._event(event))

    async def _send(self, event: dict[str, Any]) -> None:
        await self._document_run.publish(self._event(event))

    async def _kill(self, _: None) -> None:
        await self._stage.kill(again=True)

    async def _gone(self, _: None) -> None:
        await self._stage.kill(again=False)

    async def _watchdog(self, _: None) -> None:
        await self._stage.only_a_watchdog()

    async def _worker(self, _: None) -> None:
        await self._stage.again()

    async def _suspend(self, _: None) -> None:
        await self._document_run.suspend()

    async def _resume(self, _: None) -> None:
        await self._document_run.resume()

    async def _cancel(self, _: None) -> None:
        await self._document_run.cancel()

    async def _phase(self, wanted: str) -> None:
        state = await self._document_run.describe()
        assert state.phase == wanted, state

    async def _open(self, wanted: tuple[str, str]) -> None:
        state = await self._document_run.describe()
        assert wanted in {(one.pointer, one.kind) for one in state.open}, state


async def traced(outcome: Outcome) -> list[Step]:
    """Return the tasks that ran, in the order in which they began; one that goes on in another run is told once."""
    found: dict[str, Step] = {}
    # A trace is a replay: it continues as new where the run did.
    with patch.object(pace, "TASKS_A_RUN", outcome.tasks_a_run):
        async for one in outcome.run.trace(data=True):
            ending = "faulted" if one.outcome == "timed_out" else one.outcome
            value = one.output if one.error is None else one.error
            found[one.id] = Step(one.pointer.rpartition("/")[2], one.pointer, ending, value)
    return list(found.values())
