"""Updates and queries: what clients were told of them must be what the histories say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from tests.simulation.clients import DONE, REFUSED, Answer, Ledger, Request
from tests.simulation.programs import ALERTED, updates_in
from tests.simulation.story import Story

GONE = ("RunNotFoundError", "WorkflowNotFoundError")
"""What who asks again is told when retention has been there: it may have been done before."""
Place = tuple[str, str]
"""The first run of a chain, and the run."""


class Updates:
    """The updates of all histories, by their ids."""

    def __init__(self, story: Story) -> None:
        self.accepted: dict[str, list[Place]] = defaultdict(list)
        self.completed: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        """What each was answered in each chain."""
        self.answers: Counter[tuple[str, str]] = Counter()
        self.token_of: dict[str, str] = {}
        self.undone: dict[str, set[str]] = defaultdict(set)
        """In each chain, those that a reset has gone back behind."""
        for first, chain in story.chains.items():
            for run_id in chain:
                for kind, _, payload in story.own(run_id):
                    if kind == "UpdateAccepted":
                        self.accepted[payload["update_id"]].append((first, run_id))
                        self.token_of[payload["update_id"]] = payload["input"][0]
                    elif kind == "UpdateCompleted":
                        self.completed[payload["update_id"]][first] = payload
                        self.answers[payload["update_id"], first] += 1
            kept = {
                payload["update_id"]
                for run_id in story.effective(first)
                for kind, _, payload in story.events[run_id]
                if kind == "UpdateCompleted"
            }
            answered = {update_id for update_id, there in self.completed.items() if first in there}
            self.undone[first] = answered - kept

    def done_in(self, first_run_id: str, *, ever: bool = False) -> set[str]:
        """The tokens of those that a chain has carried out; with ``ever`` those too that a reset has undone."""
        return {
            self.token_of[update_id]
            for update_id, answers in self.completed.items()
            if answers.get(first_run_id, {}).get("result") is not None
            and (ever or update_id not in self.undone[first_run_id])
        }


def check_updates(story: Story, ledger: Ledger) -> Iterator[str]:
    """An update that was answered is there once, with that answer; one that was rejected or refused left no event."""
    updates = Updates(story)
    for request in ledger.of("update"):
        yield from _check_update(request, story, updates)
    for update_id, places in updates.accepted.items():
        for first_run_id, count in Counter(first for first, _ in places).items():
            answered = updates.answers[update_id, first_run_id]
            if count > 1 or answered != 1:
                yield (
                    f"update {update_id} was accepted {count} times and answered {answered} times "
                    f"in chain {first_run_id}"
                )
    yield from _check_carried_out(story, updates)


def _check_update(request: Request, story: Story, updates: Updates) -> Iterator[str]:
    key = request.key or ""
    places = updates.accepted.get(key, [])
    what = f"update {request.token} of {request.workflow_id} ({request.state}, {request.tries} tries)"
    chains = story.chains_of.get(request.workflow_id, ())
    one_chain = len(chains) <= 1
    gone = request.problem in GONE and story.deleted.intersection(chains)
    if request.state == REFUSED and places and not gone and (one_chain or request.tries == 1):
        yield f"{what} was refused ({request.problem}), and is accepted in {places}"
    if request.state == DONE and not places:
        yield f"{what} was answered, and is not there"
    told = defaultdict(list)
    for answer in request.answers:
        chain = story.chain_of(answer.run_id)
        if chain is None and one_chain and places:  # it was accepted before anybody was told where
            chain = places[0][0]
        if chain is not None:
            told[chain].append(answer)
    for chain, answers in told.items():
        yield from _check_answers(what, answers, updates.completed[key].get(chain))


def _check_answers(what: str, answers: list[Answer], event: dict[str, Any] | None) -> Iterator[str]:
    if event is None:
        yield f"{what} was answered, and its history has no answer"
        return
    for answer in answers:
        if answer.error == "UpdateFailedError":
            if event.get("failure") is None:
                yield f"{what} is said to have failed, and its history says {event.get('result')}"
        elif answer.error is None and answer.value != event.get("result"):
            yield f"{what} was answered with {answer.value}, and its history says {event.get('result')}"


def _check_carried_out(story: Story, updates: Updates) -> Iterator[str]:
    """A chain that returned has carried out what it said it had, each once."""
    for first_run_id, chain in story.chains.items():
        kind, _, payload = story.end(first_run_id)
        if kind != "WorkflowCompleted" or story.retried(first_run_id) or story.is_fork(first_run_id):
            continue
        said = updates_in(payload["result"]["log"])
        late = {event["input"][0] for event in story.after_cancel(chain[-1], "UpdateAccepted")}
        done = updates.done_in(first_run_id)
        if len(set(said)) != len(said) or not set(said) <= done or not done - set(said) <= late:
            yield f"chain {first_run_id} answered the updates {sorted(done)} and carried out {said}"


def check_queries(story: Story, ledger: Ledger) -> Iterator[str]:
    """A query knows what its client was told before, and nothing that is not in the history."""
    updates = Updates(story)
    for request in ledger.of("query"):
        for answer in request.answers:
            what = f"a query of run {answer.run_id} of {request.workflow_id} answered {answer.value}"
            first_run_id = story.chain_of(answer.run_id)
            if first_run_id is None:
                yield f"{what}, and the run is not there"
                continue
            got, carried_out = answer.value["got"], answer.value["updates"]
            sent = {
                payload["input"][0]
                for run_id in story.chains[first_run_id]
                for kind, _, payload in story.events[run_id]
                if kind == "SignalReceived" and payload["name"] != ALERTED
            }
            done = updates.done_in(first_run_id)
            ever = updates.done_in(first_run_id, ever=True)
            if not set(got) <= sent or len(set(got)) != len(got):
                yield f"{what}, and its chain got the signals {sorted(sent)}"
            if not set(carried_out) <= ever or len(set(carried_out)) != len(carried_out):
                yield f"{what}, and its chain answered the updates {sorted(done)}"
            known = done.intersection(request.before)
            if not known <= set(carried_out) and not story.retried(first_run_id):
                yield f"{what}, but its client had had the answers of {sorted(known)}"
