"""The party outside of a simulation: what activities ask of it, and what it was told when it answered.

It has a ledger like the clients', which survives crashes. It answers early, late, twice, or not at all. An answer whose
outcome it does not know is sent again; that it was taken the first time is then one of the things it may be told.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any

from tests.simulation import programs
from tests.simulation.programs import Question

from outlast import ApplicationError, Client
from outlast.errors import (
    ActivityCancelRequestedError,
    ActivityNotFoundError,
    AttemptNotRunningError,
    RefusedError,
    RunNotFoundError,
)
from outlast_workflow.errors import JournalClosedError, StoreError

LOOKS_EVERY_S = 0.2
GONE = (AttemptNotRunningError, ActivityNotFoundError, RunNotFoundError)


class Unknown(Exception):
    """Nobody knows what became of an answer."""


class Outside:
    """Answers what the activities of a simulation ask."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"outside {seed}")
        self.wrong: list[str] = []

    async def run(self, client: Client) -> None:
        """Look for questions, until the process ends."""
        while True:
            for question in programs.executions.questions:
                if not question.settled:
                    with suppress(Unknown):
                        await self._settle(client, question)
            await asyncio.sleep(LOOKS_EVERY_S)

    async def _settle(self, client: Client, question: Question) -> None:
        behaviour = question.behaviour
        for beat in range(behaviour.get("beats", 0)):
            if not await self._heartbeat(client, question, beat):
                return
            await asyncio.sleep(behaviour["for"] / 4)
        if await self._tell(question, self._answer(client, question)):
            question.acknowledged = question.tries == 1
        else:
            question.refused = True
        question.settled = True
        if self.rng.random() < 0.6:
            await asyncio.sleep(self.rng.choice((0.0, 0.3, 1.0)))
            await self._answer_again(client, question)

    async def _heartbeat(self, client: Client, question: Question, beat: int) -> bool:
        """Say that it is alive; return whether it is still to be answered."""
        try:
            await client.heartbeat_activity(question.token, beat)
        except ActivityCancelRequestedError:
            await self._tell(question, client.cancel_activity(question.token))
            question.settled = True
        except GONE:
            question.settled = True
        except JournalClosedError:
            raise
        except StoreError:
            pass
        return not question.settled

    async def _answer(self, client: Client, question: Question) -> None:
        end = question.behaviour["end"]
        if end == "ok":
            await client.complete_activity(question.token, question.answer)
        else:
            final = end == "fatal"
            await client.fail_activity(
                question.token, ApplicationError("simulated", type="Outside", non_retryable=final)
            )

    async def _tell(self, question: Question, verb: Any) -> bool:
        """Carry out a verb; return whether it was acknowledged. One whose outcome is unknown comes up again."""
        question.tries += 1
        try:
            await verb
        except (*GONE, RefusedError):
            return False
        except JournalClosedError:
            raise
        except StoreError:
            # The next look tries again: this one must not be taken for settled.
            raise Unknown from None
        return True

    async def _answer_again(self, client: Client, question: Question) -> None:
        try:
            await client.complete_activity(question.token, question.answer)
        except (*GONE, RefusedError):
            return
        except StoreError:
            return
        if question.acknowledged:
            self.wrong.append(f"the answer {question.answer} was taken twice")
