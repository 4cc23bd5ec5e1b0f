"""Nobody without the scope ``payloads`` sees users' data, wherever it is shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, fields
from typing import Any

import httpx2
import orjson
import pytest
from tests.dashboard import programs
from tests.dashboard.conftest import make_tokens
from tests.dashboard.serving import serving

from outlast import ApplicationError, Client, RetryPolicy, StartOptions, Worker, activity, workflow
from outlast.errors import UpdateFailedError, WorkflowFailedError
from outlast.histories.history_pages import HistoryEvent
from outlast.interceptors import Interceptor
from outlast.visibility.views import View, WorkflowDescription
from outlast_dashboard import Principal, Scope, Token, WebSettings, control_plane
from outlast_dashboard.api.contract import redaction
from outlast_dashboard.api.contract.redaction import HIDDEN, event_view
from outlast_workflow.history.event import Event, record
from outlast_workflow.history.events import REGISTRY
from outlast_workflow.primitives.times import to_datetime

CANARY = "s3cret-canary"
READER = Principal("reader", frozenset({Scope.READ}))
SEER = Principal("seer", frozenset({Scope.READ, Scope.PAYLOADS}))

# What may be read without the scope: names, ids, reasons, summaries, search attributes, the messages of failures.
READABLE = {
    *(
        "command_id",
        "attempt",
        "priority",
        "seed",
        "run_number",
        "seq",
        "seeds",
        "python",
        "flags",
        "buffered",
        "queue",
        "partition_key",
        "waited_us",
        "start_at",
        "schedule_to_start_timeout_seconds",
        "forked_from",
        "debounce_key",
    ),
    *(
        "through",
        "own",
        "at",
        "commands",
        "history_events",
        "history_bytes",
        "suggested",
        "receiving",
        "deprecated",
        "local",
    ),
    *("wait", "build_id", "patch_id", "policy", "by", "fire_at", "request_id", "update_id", "name", "reason"),
    "summary",
    *(
        "workflow_id",
        "workflow_type",
        "activity_type",
        "task_queue",
        "run_id",
        "first_run_id",
        "previous_run_id",
    ),
    *("next_run_id", "parent_run_id", "parent_close_policy", "retry_state", "timeout_kind", "deadline_at"),
    *("execution_timeout_seconds", "run_timeout_seconds", "execution_deadline_at", "run_deadline_at"),
    "timeout_seconds",
    *(
        "start_delay_seconds",
        "attributes",
        "search_attributes",
        "failure",
        "last_failure",
        "options",
        "parent",
    ),
    *("reset", "retry_policy", "summary", "schedule"),
}
BY_NAME = {"attributes", "search_attributes", "buffered"}  # plain values by names that users chose
SECRET = {"input", "result", "value", "memo", "headers", "details", "heartbeat_details", "last_result"}


def canaries(value: Any, path: str = "") -> set[str]:
    """Where a document holds the canary."""
    if isinstance(value, dict):
        return {found for name, item in value.items() for found in canaries(item, f"{path}.{name}")} | {
            f"{path}.<name>" for name in value if CANARY in str(name)
        }
    if isinstance(value, list | tuple):
        return {found for item in value for found in canaries(item, path)}
    return {path} if CANARY in str(value) else set()


def names_of(event: Any) -> list[str]:
    return [field.name for field in fields(event)]


def shown(event_type: str, payload: dict[str, Any], principal: Principal = READER) -> dict[str, Any]:
    return event_view(HistoryEvent(1, event_type, to_datetime(0), payload), principal).payload


@pytest.mark.parametrize("kind", sorted(REGISTRY))
def test_every_field_of_every_event_is_hidden_unless_it_is_readable(kind: str) -> None:
    names = names_of(REGISTRY[kind])
    assert {*names} <= READABLE | SECRET, "a new field: say in redaction.py and here whether it is readable"
    flat = shown(kind, dict.fromkeys([*names, "of_a_later_version"], CANARY))
    for name, value in flat.items():
        assert (value != HIDDEN) is (name in READABLE), name
    # Whatever a structure holds is hidden, unless its own fields are listed.
    deep: Any = {"memo": CANARY, "input": [CANARY], "details": [CANARY], CANARY: CANARY, "x": {"y": [CANARY]}}
    for name in names:
        if name in BY_NAME:
            assert canaries(shown(kind, {name: {"a": CANARY, "b": {"memo": CANARY}}})) == {f".{name}.a"}
            continue
        for value in (deep, [deep], {"cause": {"cause": deep}}, {"failure": deep}, {"retry_policy": deep}):
            assert not {path for path in canaries(shown(kind, {name: value})) if "<name>" not in path}, name


def test_the_scope_shows_everything() -> None:
    for kind, cls in REGISTRY.items():
        payload = {name: {"x": [CANARY]} for name in names_of(cls)}
        assert shown(kind, payload, SEER) == payload


def test_a_new_field_and_a_new_event_are_hidden_until_somebody_lists_them() -> None:
    @record
    class Invented(Event):
        command_id: int
        name: str

    del REGISTRY["Invented"]
    assert shown("Invented", {"command_id": 1, "name": CANARY}) == {"command_id": HIDDEN, "name": HIDDEN}
    assert shown("TimerFired", {"fire_at": 1, "note": CANARY}) == {"fire_at": 1, "note": HIDDEN}


def test_what_is_listed_exists() -> None:
    for kind, names in redaction._SHOWN.items():
        assert {*names.split()} <= {*names_of(REGISTRY[kind])}, kind


def test_a_failure_shows_its_types_and_messages_and_hides_its_details() -> None:
    failure = {
        "category": "application",
        "type": "Declined",
        "message": "no funds",
        "stack": "File …",
        "details": [CANARY],
        "heartbeat_details": CANARY,
        "of_a_later_version": CANARY,
        "cause": {"type": "TimeoutError", "message": "slow", "details": {"x": CANARY}, "attempt": 3},
    }
    seen = shown("WorkflowFailed", {"failure": failure, "retry_state": "non_retryable_failure"})
    assert not canaries(seen)
    assert seen["failure"]["message"] == "no funds"
    assert seen["failure"]["cause"] == {
        "type": "TimeoutError",
        "message": "slow",
        "details": HIDDEN,
        "attempt": 3,
    }


def views(cls: type[View] = View) -> set[type[View]]:
    """Every view that the client shows."""
    return {found for sub in cls.__subclasses__() for found in {sub, *views(sub)}}


def test_views_of_descriptions_hide_what_may_be_anything() -> None:
    assert redaction._payload_fields(WorkflowDescription.model_fields["run"].annotation) == {"memo"}  # type: ignore[arg-type]
    hidden = {name for cls in views() for name in redaction._payload_fields(cls)}
    assert {"memo", "heartbeat_details"} <= hidden


# --- everything at once, in a real engine -----------------------------------------------------------------------------


class Tenants(Interceptor):
    """A tenant goes with whatever is asked for."""

    async def start_workflow(self, call: Any, next: Any) -> Any:
        call.headers["tenant"] = CANARY
        return await next(call)

    async def signal_workflow(self, call: Any, next: Any) -> Any:
        call.headers["tenant"] = CANARY
        return await next(call)

    async def update_workflow(self, call: Any, next: Any) -> Any:
        call.headers["tenant"] = CANARY
        return await next(call)

    def start_activity(self, call: Any, next: Any) -> Any:
        call.headers["tenant"] = CANARY
        return next(call)

    def start_child_workflow(self, call: Any, next: Any) -> Any:
        call.headers["tenant"] = CANARY
        return next(call)


MEMO = StartOptions(memo={"memo": CANARY})


@activity.defn(start_to_close_timeout=60, heartbeat_timeout=30, retry_policy=RetryPolicy(max_attempts=1))
async def leak(secret: str) -> str:
    activity.heartbeat(secret, {"more": secret})
    raise ApplicationError("no funds", {"card": secret}, type="Declined") from ApplicationError("why", secret)


@workflow.defn
class Leaking:
    """Writes the canary wherever users' data can be."""

    def __init__(self) -> None:
        self.words: list[str] = []

    @workflow.run
    async def run(self, secret: str, again: bool = True) -> str:
        workflow.upsert_memo({"memo": secret})
        workflow.side_effect(lambda: secret)
        child = workflow.start_child(
            programs.Waiting.run,
            secret,
            id=f"child-{workflow.info().run_id}",
            memo={"of": {"child": secret}},
        )
        await child.started()
        await child.signal(programs.Waiting.say, secret)
        await child
        await workflow.execute_activity(programs.greet, secret)
        try:
            await workflow.execute_activity(leak, secret)
        except Exception:
            pass
        if again:
            await workflow.wait_condition(lambda: "enough" in self.words)
            workflow.continue_as_new(secret, False, memo={"next": secret})
        raise ApplicationError("the end", {"card": secret}, type="Declined")

    @workflow.signal
    def say(self, word: str) -> None:
        self.words.append(word)

    @workflow.update
    def correct(self, word: str) -> str:
        self.words.append(word)
        return word

    @workflow.update
    def refuse(self, word: str) -> str:
        raise ApplicationError("refused", word)


@dataclass
class Leaked:
    """A server, and all addresses that show runs which hold the canary."""

    client: Client
    web: httpx2.AsyncClient
    tokens: list[Token]
    secrets: dict[str, str]
    paths: list[str]

    def bearing(self, name: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secrets[name]}"}


@pytest.fixture
async def leaked() -> AsyncIterator[Leaked]:
    tokens, secrets = make_tokens()
    async with Client.connect("sqlite://", interceptors=[Tenants()]) as client:
        worker = Worker(
            client,
            workflows=[Leaking, *programs.WORKFLOWS],
            activities=[leak, *programs.ACTIVITIES],
            graceful_shutdown_timeout=0.01,
        )
        async with worker:
            handle = await client.start(Leaking.run, CANARY, id="leaking", options=MEMO)
            await handle.signal("say", CANARY)
            await handle.execute_update("correct", CANARY)
            with pytest.raises(UpdateFailedError):
                await handle.execute_update("refuse", CANARY)
            await handle.signal("say", "enough")
            with pytest.raises(WorkflowFailedError):
                await handle.result()
            await client.start("Crawling", CANARY, id="crawling")
            while not (await client.describe("crawling")).pending_activities[0].heartbeat_details:
                await client.handle("crawling").signal("nudge", CANARY)
        waiting = await client.start("Nobody", CANARY, id="waiting", options=MEMO)
        await waiting.signal("say", CANARY)
        found = await client.list().page()
        transport = httpx2.ASGITransport(control_plane(client, WebSettings(tokens=tokens)))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as web:
            paths = ["/", "/watchdog", "/upcoming", "/alerts", "/workers", "/queues", "/types"]
            paths += [
                "/api/workflows",
                "/api/watchdog",
                "/api/upcoming",
                "/api/alerts",
                "/api/task-queues",
                "/api/types",
                "/api/metrics",
            ]
            for run in found.runs:
                root = f"/workflows/{run.workflow_id}"
                paths += [f"{start}?run_id={run.run_id}" for start in (root, f"/api{root}")]
                paths.append(f"/api{root}/history?run_id={run.run_id}")
                paths.append(f"/api{root}/result?wait_seconds=0")
                if run.closed_at is not None:
                    paths.append(f"/api{root}/history/live?run_id={run.run_id}")
            yield Leaked(client, web, tokens, secrets, paths)


async def test_no_payload_is_shown_anywhere(leaked: Leaked) -> None:
    web = leaked.web
    seen_by_seers = set()
    kinds: set[str] = set()
    for path in leaked.paths:
        for name in ("reader", "writer"):
            blind = await web.get(path, headers=leaked.bearing(name))
            assert blind.status_code in (200, 202), path
            assert CANARY not in blind.text, path
        sees = await web.get(path, headers=leaked.bearing("seer"))
        if CANARY in sees.text:
            seen_by_seers.add(path.partition("?")[0])
        if "/history?" in path:
            events = orjson.loads(sees.content)["events"]
            kinds |= {one["type"] for one in events if canaries(one["payload"])}
    assert {"/workflows/leaking", "/api/workflows/leaking", "/api/workflows/leaking/history"} <= seen_by_seers
    assert "/api/workflows/leaking/history/live" in seen_by_seers
    assert "/workflows/crawling" in seen_by_seers
    assert kinds >= {
        *("WorkflowStarted", "WorkflowContinuedAsNew", "WorkflowFailed", "WorkflowCompleted", "MemoUpserted"),
        *(
            "SideEffectRecorded",
            "ChildWorkflowScheduled",
            "ChildWorkflowCompleted",
            "ExternalSignalRequested",
        ),
        *("ActivityScheduled", "ActivityCompleted", "ActivityFailed", "SignalReceived"),
        *("UpdateAccepted", "UpdateCompleted"),
    }


async def test_live_pages_show_no_payload_either(leaked: Leaked) -> None:
    async with serving(leaked.client, WebSettings(tokens=leaked.tokens)) as address:
        async with httpx2.AsyncClient(base_url=address) as web:
            for name, seen in (("reader", False), ("seer", True)):
                headers = {**leaked.bearing(name), "accept": "text/event-stream"}
                async with web.stream("GET", "/workflows/crawling", headers=headers) as live:
                    pieces: Any = live.aiter_text()
                    text = ""
                    while "\n\n" not in text:
                        text += await anext(pieces)
                    await pieces.aclose()
                assert (CANARY in text) is seen, name


async def test_queries_are_refused(leaked: Leaked) -> None:
    reader = leaked.bearing("reader")
    for path in ("/api/workflows/leaking/queries/__stack_trace", "/api/workflows/leaking/queries/x"):
        assert (await leaked.web.post(path, json={}, headers=reader)).status_code == 403
    assert (await leaked.web.get("/workflows/leaking/query?name=x", headers=reader)).status_code == 403
