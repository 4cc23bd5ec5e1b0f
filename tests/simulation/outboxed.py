"""Transactions of strangers in a simulation: in some of the seeds they write starts and signals to the outbox.

They belong to no process, as triggers and other programs do not, and commit whole transactions at instants of their
own. Any watchdog applies the rows. What they asked for stands in the clients' ledger: once a row is gone it was
acknowledged, and a row that was refused was refused. So it is judged as what clients ask for.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import orjson
from tests.simulation import programs
from tests.simulation.clients import DONE, REFUSED, UNKNOWN, Ledger, Request

ROW = "INSERT INTO outlast_outbox (kind, workflow_id, name, args, options, created_at) VALUES (?, ?, ?, ?, ?, ?)"
AGAIN_AFTER_S = 0.001

Row = tuple[str, str, str, str, str]


class Strangers:
    """The strangers of one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(f"outbox of {seed}")
        self.left = rng.choice((0, 0, 1, 2, 4))
        """How many transactions are still to come."""
        self.rows: dict[int, Request] = {}
        self.wrong: list[str] = []
        self._begun: list[str] = []

    def begin(self, world: Any) -> None:
        """Let them write, some time from now on."""
        if self.left:
            context = world.loop.world.context.copy()
            world.loop.call_later(self.rng.uniform(0, 3), self._write, world, context=context)

    def _write(self, world: Any) -> None:
        """Commit one transaction, as soon as nobody else has one open."""
        context = world.loop.world.context.copy()
        if world.shared.writing is not None:
            world.loop.call_later(AGAIN_AFTER_S, self._write, world, context=context)
            return
        real = world.shared.real
        now = world.loop.elapsed_us + world.start_us
        real.execute("BEGIN IMMEDIATE")
        for row, request in self._draw(world.ledger):
            number = real.execute(ROW, (*row, now)).lastrowid
            self.rows[number] = request
            world.ledger.requests.append(request)
        real.execute("COMMIT")
        world.note(self, f"wrote to the outbox, {len(self.rows)} rows by now")
        self.left -= 1
        self.begin(world)

    def _draw(self, ledger: Ledger) -> list[tuple[Row, Request]]:
        rng = self.rng
        name = f"box{len(self._begun) + 1}"
        drawn: list[tuple[Row, Request]] = []
        whom = rng.choice((*self._begun, "w1")) if rng.random() < 0.4 else name
        if whom == name:
            self._begun.append(name)
            run_id = f"00000000-0000-7000-8000-{rng.getrandbits(48):012x}"
            steps = programs.draw(rng, size=2, whom="w1")
            options = {"run_id": run_id, "task_queue": rng.choice(programs.QUEUES)}
            started = Request("start", name, state=DONE, tries=1, run_id=run_id)
            drawn.append(self._row("start", name, "Program", [steps, [], []], options, started))
        before: list[str] = []
        for _ in range(rng.choice((1, 2, 3))):
            ledger.tokens += 1
            token = f"token{ledger.tokens}"
            key = token if rng.random() < 0.3 else None
            options = {} if key is None else {"request_id": key}
            sent = Request("signal", whom, token, key, state=DONE, tries=1, before=list(before))
            before.append(token)
            drawn.append(self._row("signal", whom, "take", [token], options, sent))
        return drawn

    @staticmethod
    def _row(
        kind: str, workflow_id: str, name: str, args: Any, options: dict[str, Any], request: Request
    ) -> tuple[Row, Request]:
        texts = orjson.dumps(args).decode(), orjson.dumps(options).decode()
        return (kind, workflow_id, name, *texts), request

    def over(self, real: Any) -> bool:
        """Whether all is written, and nothing waits in the outbox."""
        waiting = real.execute("SELECT EXISTS (SELECT 1 FROM outlast_outbox WHERE state = 'waiting')")
        return not self.left and not waiting.fetchone()[0]

    def settle(self, real: Any, exports: Path | None) -> None:
        """Note what was refused, and what should not have been.

        Args:
            real: The database.
            exports: Where retention has put what it deleted; ``None`` where it deletes nothing.
        """
        deleting = exports is not None
        # A row that waits although all should be over has no reason yet.
        refused = real.execute(
            "SELECT outbox_id, kind, workflow_id, COALESCE(reason, '') FROM outlast_outbox"
        )
        for number, kind, workflow_id, reason in refused.fetchall():
            request = self.rows[number]
            request.state, request.problem = REFUSED, reason
            # Its start came first, so it is there, or it has ended and perhaps gone.
            if kind == "signal" and workflow_id in self._begun and "NotFound" in reason and not deleting:
                self.wrong.append(f"a signal of a stranger was refused before its start: {reason}")

        if exports is not None:
            # What was refused goes with its workflow, so of the rest of a deleted one nothing is known, not even if
            # another workflow has its id by now.
            kept = {row[0] for row in real.execute("SELECT workflow_id FROM workflow_instances").fetchall()}
            runs = {row[0] for row in real.execute("SELECT run_id FROM workflow_runs").fetchall()}
            exported = [
                orjson.loads(line)["run"]
                for file in exports.rglob("*.jsonl")
                for line in file.read_bytes().splitlines()
            ]
            kept -= {run["workflow_id"] for run in exported if run["run_id"] not in runs}
            for request in self.rows.values():
                if request.kind == "signal" and request.workflow_id not in kept:
                    request.state = UNKNOWN

    def __repr__(self) -> str:
        return "strangers"
