"""Plays random documents in each mode, and compares what comes of them with what the oracle says.

``python -m tests.serverless.oracle.playing --seeds 10000`` is the long run; it prints the seeds that are wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any, Final

import orjson
from tests.serverless.conformance.loop import KitLoop
from tests.serverless.conformance.modes import Modes
from tests.serverless.conformance.story import Act, Story
from tests.serverless.oracle.drawn import Drawn, draw
from tests.serverless.oracle.oracle import Uncertain, foretold

from outlast_serverless import Document

SEEDS_A_DATABASE: Final = 200
_LONGEST_S: Final = 900 * 86_400.0


class Players:
    """Plays seeds, one after the other.

    Attributes:
        counts: How many ended how.
    """

    def __init__(self, runner: asyncio.Runner, folder: Path) -> None:
        self._runner = runner
        self._folder = folder
        self._made = 0
        self._modes: Modes | None = None
        self.counts: Counter[str] = Counter()

    def _url(self) -> str:
        self._made += 1
        return f"sqlite:///{self._folder / f'oracle-{self._made}.db'}"

    def play(self, seed: int) -> list[str]:
        """Play a seed; return what is wrong."""
        drawn = draw(seed)
        if self._modes is None:
            self._modes = Modes(self._runner, self._url, "http://127.0.0.1:9", long=True)
        try:
            expected = self._modes.run(
                foretold(drawn.definition, drawn.input, drawn.registered, drawn.events)
            )
        except Uncertain:
            self.counts["uncertain"] += 1
            return []
        self.counts[expected[0]] += 1
        try:
            outcomes = self._modes.play(_story(drawn))
        except Exception as error:
            return [f"seed {seed}: {error!r}; the oracle says {expected}"]
        wanted = comparable(*expected)
        return [
            f"seed {seed}, {mode}: {outcome.ending} {outcome.value}; the oracle says {expected}"
            for mode, outcome in outcomes.items()
            if comparable(outcome.ending, outcome.value) != wanted
        ]

    def close(self) -> list[str]:
        """End the stages; return what is wrong with what they leave."""
        modes, self._modes = self._modes, None
        return [] if modes is None else modes.close()


def comparable(ending: str, value: Any) -> bytes:
    """Return what must be the same: of an error not its words."""
    if ending == "faulted":
        value = {name: value.get(name) for name in ("type", "status", "instance")}
    return orjson.dumps([ending, value], option=orjson.OPT_SORT_KEYS)


def _story(drawn: Drawn) -> Story:
    acts = [Act("execute")]
    now = 0.0
    for event in drawn.events:
        acts += [Act("advance", event.at - now), Act("publish", {"type": event.type, "data": event.data})]
        now = event.at
    registered = [Document.parse(orjson.dumps(one)) for one in drawn.registered.values()]
    document = Document.parse(orjson.dumps(drawn.definition))
    return Story(document, registered, drawn.input, acts, longest_s=_LONGEST_S)


@contextmanager
def players() -> Generator[Players]:
    """Begin to play."""
    with asyncio.Runner(loop_factory=KitLoop) as runner, tempfile.TemporaryDirectory() as folder:
        yield Players(runner, Path(folder))


def main() -> int:
    """Play seeds, and print those that are wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.serverless.oracle.playing", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=150, help="how many")
    given = parser.parse_args()
    logging.disable()
    wrong, began = 0, process_time()
    counts: Counter[str] = Counter()
    seeds = range(given.first, given.first + given.seeds)
    for begin in range(0, len(seeds), SEEDS_A_DATABASE):
        part = seeds[begin : begin + SEEDS_A_DATABASE]
        # A loop for each part: in centuries of virtual time, its clock would no longer tell microseconds apart.
        with players() as playing:
            found = [one for seed in part for one in playing.play(seed)] + playing.close()
        counts += playing.counts
        print("".join(f"{one}\n" for one in found), end="", flush=True)
        print(f"{begin + len(part)} seeds, {process_time() - began:.0f} s of CPU: {dict(counts)}", flush=True)
        wrong += len(found)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
