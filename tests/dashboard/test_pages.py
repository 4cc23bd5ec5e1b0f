"""The pages, asked for as a browser asks."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from tests.dashboard.conftest import Served
from tests.rows import latest_row

from outlast import Client, StartOptions
from outlast.errors import StoreUnreachableError, WorkflowCancelledError
from outlast.visibility.upcoming import Due
from outlast_dashboard import Token, WebSettings, control_plane
from outlast_dashboard.notifications import ChangeSignal
from outlast_dashboard.pages.forms import arguments, progress
from outlast_dashboard.pages.login import _local
from outlast_dashboard.pages.operations import by_workflow
from outlast_dashboard.pages.rendering import ahead, database_label, lasted, nearness, since, until, used
from outlast_dashboard.pages.streaming import without_counting
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.primitives.enums import UpcomingKind

PAGES = [
    "/",
    "/start",
    "/watchdog",
    "/upcoming",
    "/alerts",
    "/workers",
    "/queues",
    "/types",
    "/workflows/w%2F1",
]


async def with_a_run(served: Served) -> None:
    await served.client.start(
        "Waiting",
        id="w/1",
        options=StartOptions(execution_timeout=7200, run_timeout=50, memo={"pin": "s3cret"}),
    )


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_is_there_and_loads_only_what_is_ours(served: Served, path: str) -> None:
    await with_a_run(served)
    answer = await served.web.get(path)
    assert answer.status_code == 200, answer.text
    for source in re.findall(r'(?:src|href)="([^"]+)"', answer.text):
        assert source.startswith(("/", "#")), source
    assert "<script>" not in answer.text
    assert "style=" not in answer.text
    for source in re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text):
        assert (await served.web.get(source)).status_code == 200, source


async def test_the_run_page_shows_both_timeouts_and_deadlines(served: Served) -> None:
    await with_a_run(served)
    found = await served.client.describe("w/1")
    text = (await served.web.get("/workflows/w%2F1")).text
    assert found.run.execution_deadline_at is not None
    assert found.run.run_deadline_at is not None
    for deadline in (found.run.execution_deadline_at, found.run.run_deadline_at):
        assert f'datetime="{deadline.isoformat()}"' in text
    assert "2 h" in text
    assert re.search(r'class="until (far|soon|near)"[^>]*>\d+ s left', text)


async def test_the_run_page_shows_who_waits_for_an_answer(served: Served) -> None:
    await with_a_run(served)
    handle = served.client.handle("w/1")
    await handle.signal("misspelt")
    await handle.start_update("hold", id="u-1")
    text = (await served.web.get("/workflows/w%2F1")).text
    assert re.search(
        r"misspelt</span>\s*<span[^>]*><span[^>]*>the workflow has no handler of this name", text
    )
    assert re.search(r"hold <small[^>]*>u-1</small></span>\s*<span[^>]*><span[^>]*>accepted, sent", text)


async def test_what_a_user_put_in_is_text_and_no_markup(served: Served) -> None:
    id = '<script>alert("x")</script>'
    await served.client.start("Waiting", id=id, options=StartOptions(memo={"a": "<b>"}))
    for path in ("/", "/workflows/" + "".join(f"%{byte:02X}" for byte in id.encode())):
        answer = await served.web.get(path)
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        assert "&lt;script&gt;" in answer.text


async def test_payloads_are_hidden_on_pages_too(served: Served) -> None:
    await with_a_run(served)
    for name, seen in (("reader", False), ("seer", True)):
        text = (await served.web.get("/workflows/w%2F1", headers=served.bearing(name))).text
        assert ("s3cret" in text) is seen


async def test_actions_are_offered_to_those_who_may_write_only(served: Served) -> None:
    await with_a_run(served)
    for name, offered in (("reader", False), ("writer", True)):
        text = (await served.web.get("/workflows/w%2F1", headers=served.bearing(name))).text
        assert ("Terminate it now" in text) is offered
    refused = await served.web.post(
        "/workflows/w%2F1/terminate", data={"reason": "x"}, headers=served.bearing("reader")
    )
    assert refused.status_code == 403
    assert (await served.client.describe("w/1")).run.status == "running"


async def test_actions_act_and_lead_back_to_the_run(served: Served) -> None:
    await with_a_run(served)
    answer = await served.web.post("/workflows/w%2F1/signal", data={"name": "say", "args": '["yes"]'})
    assert (answer.status_code, answer.headers["location"]) == (303, "/workflows/w%2F1")
    assert await served.client.handle("w/1").result() == "yes"
    late = await served.web.post("/workflows/w%2F1/terminate", data={})
    assert late.status_code == 409
    assert "has ended already" in late.text


async def test_queries_and_updates_show_their_answers(served: Served) -> None:
    await with_a_run(served)
    asked = await served.web.get("/workflows/w%2F1/query", params={"name": "heard", "args": '["<b>"]'})
    assert "&#34;&lt;b&gt;&#34;" in asked.text
    blind = await served.web.get(
        "/workflows/w%2F1/query", params={"name": "heard"}, headers=served.bearing("reader")
    )
    assert blind.status_code == 403
    updated = await served.web.post("/workflows/w%2F1/update", data={"name": "correct", "args": '["yes"]'})
    assert 'aria-label="Answer">&#34;&#34;</pre>' in updated.text
    assert await served.client.handle("w/1").result() == "yes"


async def test_a_workflow_is_started_from_a_page(served: Served) -> None:
    assert '<option value="Greeting">' in (await served.web.get("/start")).text
    answer = await served.web.post(
        "/start",
        data={
            "workflow_type": "Greeting",
            "workflow_id": "by/hand",
            "args": '["ada"]',
            "execution_timeout": "2h",
            "run_timeout": "90s",
        },
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/workflows/by%2Fhand")
    assert await served.client.handle("by/hand").result() == "hello ada"
    found = await served.client.describe("by/hand")
    assert (found.execution_timeout_seconds, found.run.run_timeout_seconds) == (7200, 90)


async def test_every_start_option_is_on_the_page_too(served: Served) -> None:
    typed = {"start_delay": "5m", "priority": "2", "max_attempts": "3", "memo": '{"by": "hand"}'}
    typed["summary"] = "Order of Ada"
    more = {**typed, "search_attributes": '{"amount": 7}', "duplicate_policy": "reject_duplicate"}
    answer = await served.web.post("/start", data={"workflow_type": "Nobody", "workflow_id": "n-1", **more})
    assert answer.status_code == 303, answer.text
    run = (await served.client.describe("n-1")).run
    assert (run.priority, run.memo, run.search_attributes) == (2, {"by": "hand"}, {"amount": 7})
    assert (run.start_delayed, run.summary) == (True, "Order of Ada")
    assert "Order of Ada" in (await served.web.get("/")).text
    row = await latest_row(served.client.handle("n-1"))
    assert row.retry_policy is not None
    assert '"max_attempts":3' in row.retry_policy
    bounded = {
        "workflow_type": "Nobody",
        "workflow_id": "n-2",
        "execution_deadline": "2990-01-01T00:00:00+00:00",
    }
    assert (await served.web.post("/start", data=bounded)).status_code == 303
    described = await served.client.describe("n-2")
    assert described.run.execution_deadline_at == datetime.fromisoformat(bounded["execution_deadline"])
    again = await served.web.post("/start", data={"workflow_type": "Nobody", "workflow_id": "n-1", **more})
    assert (again.status_code, "n-1" in again.text, "aria-invalid" in again.text) == (409, True, False)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("run_timeout", "soon"),
        ("args", '"ada"'),
        ("priority", "high"),
        ("memo", "[1]"),
        ("search_attributes", '{"a": {}}'),
        ("start_delay", "-5s"),
        ("execution_deadline", "tomorrow"),
        ("execution_deadline", "2001-01-01T00:00:00Z"),
    ],
)
async def test_a_start_that_can_not_be_is_told_beside_its_field_and_nothing_typed_is_lost(
    served: Served, field: str, text: str
) -> None:
    typed = {"workflow_type": "Greeting", "workflow_id": "typed by hand", field: text}
    answer = await served.web.post("/start", data=typed)
    assert answer.status_code == 422
    assert f'aria-describedby="{field}-wrong"' in answer.text
    assert re.search(f'role="alert" id="{field}-wrong">[^<]+<', answer.text)
    for value in typed.values():
        assert f'value="{html.escape(value)}"'.replace("&quot;", "&#34;") in answer.text
    assert await served.client.count() == 0


async def test_a_filter_that_can_not_be_is_told_beside_its_field_and_nothing_typed_is_lost(
    served: Served,
) -> None:
    answer = await served.web.get(
        "/", params={"where": "amount", "workflow_type": "Order", "id_prefix": "o-"}
    )
    assert answer.status_code == 422
    for value in ("amount", "Order", "o-"):
        assert f'value="{value}"' in answer.text
    assert re.search(r'name="where"[^>]* aria-invalid="true" aria-describedby="where-wrong"', answer.text)
    assert re.search(r'role="alert" id="where-wrong">where must be NAME, one of', answer.text)
    assert "hx-sse:connect" not in answer.text, "there is nothing to keep live"


async def test_a_run_is_reset_from_its_page(served: Served) -> None:
    await served.client.execute("Greeting", "ada", id="g-1")
    answer = await served.web.post(
        "/workflows/g-1/reset", data={"to": "first-workflow-task", "reason": "again"}
    )
    assert answer.status_code == 303
    assert (await served.client.describe("g-1")).run.run_number == 2
    assert await served.client.handle("g-1").result() == "hello ada"


async def test_a_run_is_resumed_and_forked_from_its_page(served: Served) -> None:
    handle = await served.client.start("Waiting", id="w-1")
    page = (await served.web.get("/workflows/w-1")).text
    assert "Resume it now" in page
    assert "data-stopped" not in page
    await handle.terminate()
    assert "data-stopped" in (await served.web.get("/workflows/w-1")).text
    answer = await served.web.post(
        "/workflows/w-1/resume", data={"reason": "again", "execution_timeout": "1h"}
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/workflows/w-1")
    assert (await served.client.describe("w-1")).run.run_number == 2
    answer = await served.web.post(
        "/workflows/w-1/fork", data={"to": "first-workflow-task", "fork_id": "w-1-trial"}
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/workflows/w-1-trial")
    assert 'href="/workflows/w-1-trial"' in (await served.web.get("/workflows/w-1")).text
    assert 'href="/workflows/w-1"' in (await served.web.get("/workflows/w-1-trial")).text
    listed = (await served.web.get("/", params={"forked_from": "w-1"})).text
    assert "Forks of" in listed
    assert "w-1-trial" in listed
    await served.client.handle("w-1-trial").terminate()
    asked = await served.web.get("/bulk", params={"action": "resume", "forked_from": "w-1"})
    address, fields = form_of(asked.text)
    assert "Resume 1 workflow now" in asked.text
    assert "Done for 1 workflow." in (await served.web.post(address, data={**fields, "timeout": "2h"})).text
    nothing = (await served.web.get("/bulk", params={"action": "resume", "id_prefix": "w-1"})).text
    assert "Resume 0 workflows" in nothing, "they are open"
    asked = await served.web.get("/bulk", params={"action": "fork", "forked_from": "w-1"})
    assert "Fork 1 workflow now" in asked.text
    address, fields = form_of(asked.text)
    told = await served.web.post(address, data={**fields, "to": "first-workflow-task", "reason": "try"})
    assert "Forked 1 workflow<" in told.text
    made = [run.workflow_id async for run in served.client.list(forked_from="w-1-trial")]
    assert f'href="/workflows/{made[0]}"' in told.text


async def test_a_closed_run_is_deleted_from_its_page(served: Served) -> None:
    await served.client.execute("Greeting", "ada", id="g-1")
    answer = await served.web.post("/workflows/g-1/delete")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert await served.client.count() == 0


def bulk_links(text: str, action: str) -> list[str]:
    return [html.unescape(one) for one in re.findall(rf'href="(/bulk\?[^"]*action={action}[^"]*)"', text)]


def form_of(text: str) -> tuple[str, dict[str, str]]:
    """The address of the form that confirms, and its hidden fields."""
    (address,) = re.findall(r'<form method="post" action="(/bulk[^"]*)"', text)
    fields = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', text)
    return html.unescape(address), {name: html.unescape(value) for name, value in fields}


async def test_many_are_ended_by_a_page_that_asks_first(served: Served) -> None:
    for number in range(3):
        await served.client.start("Waiting", id=f"m-{number}")
    await served.client.execute("Greeting", "x", id="m-ended")
    (link,) = bulk_links((await served.web.get("/", params={"id_prefix": "m-"})).text, "terminate")
    asked = (await served.web.get(link)).text
    assert "Terminate 3 workflows now" in asked
    assert "4 runs were found" in asked
    assert await served.client.count(open=True) == 3
    address, fields = form_of(asked)
    reader = await served.web.post(address, data=fields, headers=served.bearing("reader"))
    assert reader.status_code == 403
    done = await served.web.post(address, data={**fields, "reason": "seen enough"})
    assert "Done for 3 workflows." in done.text
    assert await served.client.count(status="terminated") == 3
    address, fields = form_of(
        (await served.web.get("/bulk", params={"action": "delete", "id_prefix": "m-"})).text
    )
    assert "Done for 4 workflows." in (await served.web.post(address, data=fields)).text
    assert await served.client.count() == 0


async def test_runs_are_found_by_parent_build_and_worker_and_go_with_their_children(served: Served) -> None:
    for number in range(2):
        await served.client.execute("Leaving", f"child-{number}", id=f"m-{number}")
    worker_id = (await served.client.workers())[0].worker_id
    for query, found in (
        ({"has_parent": "yes"}, ["child-0", "child-1"]),
        ({"has_parent": "no"}, ["m-0", "m-1"]),
        ({"owner": worker_id}, []),
        ({"build_id": "nobody's"}, []),
        ({"workflow_type": "Leaving, Waiting"}, ["m-0", "m-1"]),
    ):
        page = (await served.web.get("/", params=query)).text
        shown = set(re.findall(r'href="/workflows/([^"?]+)\?', page))
        assert shown == set(found), query
    assert (await served.web.get("/", params={"has_parent": "maybe"})).status_code == 422
    gone = await served.web.post("/workflows/m-0/delete", data={"children": "true"}, follow_redirects=False)
    assert gone.status_code == 303
    assert [run.workflow_id async for run in served.client.list()] == ["child-1", "m-1"]
    query = {"action": "delete", "has_parent": "no", "id_prefix": "m-"}
    address, fields = form_of((await served.web.get("/bulk", params=query)).text)
    assert "Done for 1 workflow." in (await served.web.post(address, data={**fields, "children": "yes"})).text
    assert await served.client.count() == 0


async def test_a_bulk_action_reaches_no_run_that_its_page_did_not_count(served: Served) -> None:
    await served.client.start("Waiting", id="m-1")
    address, fields = form_of(
        (await served.web.get("/bulk", params={"action": "cancel", "id_prefix": "m-"})).text
    )
    # What starts later does not match any more, since the page pins the time of the question …
    await served.client.start("Waiting", id="m-2")
    # … and where more match all the same, it asks again.
    more = await served.web.post(address, data={**fields, "number": "0"})
    assert more.status_code == 409
    assert "More match by now" in more.text
    assert await served.client.count(status="cancelled") == 0
    assert "Done for 1 workflow." in (await served.web.post(address, data=fields)).text
    with pytest.raises(WorkflowCancelledError):
        await served.client.handle("m-1").result()
    assert (await served.client.describe("m-2")).run.status == "running"


@pytest.mark.parametrize("query", ["", "?id_prefx=m-", "?status=running&id_prefx=m-"])
async def test_a_bulk_action_without_a_filter_that_is_known_is_refused(served: Served, query: str) -> None:
    await served.client.start("Waiting", id="m-1")
    answer = await served.web.post(f"/bulk{query}", data={"action": "terminate", "number": "5"})
    assert answer.status_code == 422
    assert await served.client.count(open=True) == 1


async def test_selected_runs_are_acted_on_and_no_others(served: Served) -> None:
    handles = [await served.client.start("Waiting", id=f"m-{number}") for number in range(4)]
    ended = await served.client.start("Greeting", "x", id="ended")
    await ended.result()
    run_ids = [handle.run_id or "" for handle in (*handles[1:3], ended)]
    asked = await served.web.get("/bulk", params={"action": "signal", "run_id": run_ids})
    assert "Signal 2 workflows now" in asked.text
    address, fields = form_of(asked.text)
    odd = await served.web.post(address, data={**fields, "name": "say", "args": "yes"})
    assert odd.status_code == 422
    assert 'value="say"' in odd.text
    assert "JSON array" in odd.text
    odd = await served.web.post(address, data={**fields, "name": "say", "to": "nowhere"})
    assert odd.status_code == 422
    assert "to: Input should be" in odd.text
    done = await served.web.post(address, data={**fields, "name": "say", "args": '["yes"]'})
    assert "Done for 2 workflows." in done.text
    for handle in handles[1:3]:
        assert await handle.result() == "yes"
    assert await served.client.count(open=True) == 2
    asked = await served.web.get("/bulk", params={"action": "reset", "run_id": run_ids})
    address, fields = form_of(asked.text)
    assert "Reset 3 workflows now" in asked.text
    assert (
        "Done for 3 workflows."
        in (await served.web.post(address, data={**fields, "to": "first-workflow-task"})).text
    )
    again = (await served.web.get("/bulk", params={"action": "reset", "run_id": run_ids})).text
    assert "Reset 0 workflows" in again, "these runs have been followed by others"


async def test_chips_count_the_runs_of_each_status_within_the_other_filters(served: Served) -> None:
    for number in range(3):
        await served.client.start("Waiting", id=f"c-{number}")
    await served.client.execute("Greeting", "x", id="c-done")
    await served.client.execute("Greeting", "x", id="other")

    async def chips(**params: str) -> dict[str, str]:
        text = (await served.web.get("/", params=params)).text
        found = re.findall(
            r'<a class="chip[^"]*" href="[^"]*"[^>]*>([^<]+) <span class="count">([^<]+)</span>', text
        )
        return {name.strip(): count for name, count in found if count != "0"}

    assert await chips() == {"All": "5", "Running": "3", "Completed": "2"}
    assert await chips(id_prefix="c-", status="failed") == {"All": "4", "Running": "3", "Completed": "1"}
    assert await chips(created_after="1h") == await chips()
    assert await chips(created_before="1h") == {}


async def test_runs_are_listed_in_the_orders_that_an_index_serves(served: Served) -> None:
    await served.client.start("Waiting", id="a-none")
    await served.client.start("Waiting", id="b-far", options=StartOptions(run_timeout=900))
    await served.client.start("Waiting", id="c-near", options=StartOptions(run_timeout=90))
    for order, ids in (
        ("newest", ["c-near", "b-far", "a-none"]),
        ("oldest", ["a-none", "b-far", "c-near"]),
        ("deadline", ["c-near", "b-far"]),
    ):
        text = (await served.web.get("/", params={"order": order})).text
        assert re.findall(r'\?run_id=[^"]+">([^<]+)</a>', text) == ids
    assert (await served.web.get("/", params={"order": "odd"})).status_code == 422


async def test_runs_are_found_by_attribute_on_the_page(served: Served) -> None:
    for number in range(3):
        options = StartOptions(search_attributes={"amount": number, "customer": "c-7"})
        await served.client.start("Waiting", id=f"s-{number}", options=options)
    text = (await served.web.get("/", params={"where": "amount>=1 and amount<2 and customer=c-7"})).text
    assert ("s-1" in text, "s-0" in text, "s-2" in text) == (True, False, False)


async def test_what_is_wrong_is_told_on_a_page(served: Served) -> None:
    await with_a_run(served)
    for answer, status in (
        (await served.web.get("/workflows/nobody"), 404),
        (await served.web.get("/nothing"), 404),
        (await served.web.get("/", params={"status": "odd"}), 422),
        (await served.web.get("/", params={"cursor": "odd"}), 422),
        (await served.web.post("/workflows/w%2F1/signal", data={"name": "say", "args": "yes"}), 422),
    ):
        assert answer.status_code == status
        assert answer.headers["content-type"].startswith("text/html")
        assert 'role="alert"' in answer.text


async def test_what_went_wrong_is_told_with_the_way_back(served: Served) -> None:
    lost = await served.web.get("/workflows/order-77")
    assert lost.status_code == 404
    assert 'href="/?id_prefix=order-77"' in lost.text
    for path in ("/nothing", "/watchdog/nothing"):
        answer = await served.web.get(path)
        assert "There is no page at this address." in answer.text
        assert re.search(r'<a href="/watchdog">Watchdog</a>', answer.text)
    refused = await served.web.get("/start", headers=served.bearing("reader"))
    assert (refused.status_code, "Not allowed" in refused.text) == (403, True)
    assert "You are signed in as reader." in refused.text
    unknown = await served.web.get("/nothing", headers={"authorization": "Bearer wrong"})
    assert "Watchdog" not in unknown.text
    assert ".db" not in unknown.text, "who is not known does not learn the database's name"


async def test_the_database_that_does_not_answer_is_told_with_navigation(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(*_: object, **__: object) -> None:
        raise StoreUnreachableError("the database is locked by another program")

    monkeypatch.setattr(type(served.client.runtime), "read", unavailable)
    answer = await served.web.get("/watchdog")
    assert answer.status_code == 503
    assert "The database does not answer" in answer.text
    assert 'href="/watchdog"' in answer.text


def test_the_bar_names_a_database_without_users_and_passwords() -> None:
    for url, label in (
        ("sqlite://", ("SQLite", "in memory")),
        ("sqlite:////var/lib/orders.db", ("SQLite", "orders.db")),
        ("postgresql://app:s3cret@db.example.com:5433/orders", ("PostgreSQL", "db.example.com/orders")),
    ):
        assert database_label(DatabaseUrl.parse(url)) == label


def test_what_is_due_is_grouped_by_workflow_with_the_nearest_first() -> None:
    now = datetime(2026, 1, 31, tzinfo=UTC)

    def due(run_id: str, seconds: int) -> Due:
        at = now + timedelta(seconds=seconds)
        given: dict[str, Any] = {"workflow_type": "Waiting", "task_queue": "default", "name": None}
        return Due(
            kind=UpcomingKind.TIMER, due_at=at, workflow_id=run_id, run_id=run_id, command_id=1, **given
        )

    a, b, more = due("a", 1), due("b", 2), due("a", 3)
    assert by_workflow([a, b, more]) == [[a, more], [b]]


async def test_runs_are_filtered_and_paged(served: Served) -> None:
    for number in range(55):
        await served.client.start("Waiting", id=f"p-{number:02}")
    await served.client.start("Greeting", "x", id="other")
    first = (await served.web.get("/", params={"workflow_type": "Waiting"})).text
    assert "p-54" in first
    assert "p-04" not in first
    assert ">other<" not in first
    (older,) = re.findall(r'href="(/\?[^"]+)">Next page', first)
    second = (await served.web.get(older.replace("&amp;", "&"))).text
    assert "p-04" in second
    assert "p-54" not in second


# --- coming in ------------------------------------------------------------------------------------------------------


async def test_a_session_stands_for_a_token(sqlite_url: str) -> None:
    token, secret = Token.make("ada", ["read"])
    async with Client.connect(sqlite_url) as client:
        app = control_plane(client, WebSettings(tokens=[token]))
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url="http://localhost"
        ) as web:
            asked = await web.get("/watchdog?x=1")
            assert (asked.status_code, asked.headers["location"]) == (303, "/login?next=%2Fwatchdog%3Fx%3D1")
            wrong = await web.post("/login", data={"token": "outlast_wrong"})
            assert wrong.status_code == 403
            assert "not known" in wrong.text
            came = await web.post("/login", data={"token": secret, "next": "/watchdog"})
            assert (came.status_code, came.headers["location"]) == (303, "/watchdog")
            cookie = came.headers["set-cookie"].lower()
            assert "httponly" in cookie
            assert "samesite=strict" in cookie
            assert secret.lower() not in cookie
            assert (await web.get("/watchdog")).status_code == 200
            assert (await web.get("/api/workers")).status_code == 200
            left = await web.post("/logout")
            assert left.headers["location"] == "/login"
            assert (await web.get("/api/workers")).status_code == 401


async def test_a_session_ends_by_itself(sqlite_url: str) -> None:
    class Hand:
        at = 0.0

        def monotonic(self) -> float:
            return self.at

        def now(self) -> int:
            return 0

    clock = Hand()
    token, secret = Token.make("ada", ["read"])
    async with Client.connect(sqlite_url) as client:
        app = control_plane(client, WebSettings(tokens=[token]), clock=clock)
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url="http://localhost"
        ) as web:
            await web.post("/login", data={"token": secret})
            assert (await web.get("/")).status_code == 200
            clock.at = 12 * 3600.0
            assert (await web.get("/")).status_code == 303


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "evil",
        "",
        "http://[",
    ],
)
def test_nobody_is_sent_elsewhere_after_signing_in(target: str) -> None:
    assert _local(target) == "/"


async def test_it_can_be_mounted_inside_another_application(sqlite_url: str) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    async with Client.connect(sqlite_url) as client:
        app = Starlette(routes=[Mount("/ops/outlast", control_plane(lambda: client))])
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url="http://localhost"
        ) as web:
            await client.start("Waiting", id="a/b")
            text = (await web.get("/ops/outlast/")).text
            assert 'href="/ops/outlast/workflows/a%2Fb?run_id=' in text
            assert (await web.get("/ops/outlast/workflows/a%2Fb")).status_code == 200
            assert (await web.get("/ops/outlast/api/workflows/a%2Fb")).json()["workflow_id"] == "a/b"
            for source in re.findall(r'(?:src|href)="(/[^"]*static[^"]+)"', text):
                assert (await web.get(source)).status_code == 200


# --- what people type, and what activities say ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("details", "shown"),
    [
        ((3, 10), (3.0, 10.0)),
        ((3, 10, "rows"), (3.0, 10.0)),
        (({"done": 1, "total": 4},), (1.0, 4.0)),
        (([1, 4],), (1.0, 4.0)),
        ((), None),
        ((3,), None),
        ((11, 10), None),
        ((0, 0), None),
        ((True, 10), None),
        (("3", "10"), None),
        (({"done": 1},), None),
    ],
)
def test_progress_is_read_out_of_heartbeats(details: tuple[object, ...], shown: object) -> None:
    assert progress(details) == shown


def test_arguments_are_a_json_array_or_nothing() -> None:
    assert arguments(" ") == []
    assert arguments('["a", 1]') == ["a", 1]
    for text in ("yes", '"yes"', "{}"):
        with pytest.raises(InvalidOptionError, match="JSON array"):
            arguments(text)


def test_of_a_short_timeout_only_the_last_quarter_is_near() -> None:
    now = datetime(2026, 1, 31, tzinfo=UTC)
    looks = [nearness(now + timedelta(seconds=left), now, 30) for left in (29, 15, 7, 0)]
    assert looks == ["far", "soon", "near", "passed"]
    shown = until(now + timedelta(seconds=29), now, 30)
    assert ('class="until far"' in shown, 'data-near="7.5" data-soon="15"' in shown) == (True, True)
    assert nearness(now + timedelta(seconds=29), now, 7200) == "near"


async def test_a_heartbeat_that_has_just_come_is_not_red(served: Served) -> None:
    await served.client.start("Importing", 10, id="i-1")
    async with ChangeSignal(served.client) as changed:
        while not (await served.client.describe("i-1")).pending_activities[0].heartbeat_details:
            await changed.wait()
    text = (await served.web.get("/workflows/i-1")).text
    assert re.search(
        r'Heartbeat <span[^>]*>30 s</span></dt><dd>\s*<span class="metered"><time class="until far"', text
    )
    assert re.search(r'<progress class="meter *" value="3.0" max="10.0"', text)


def test_a_deadline_is_coloured_as_it_nears_and_what_is_meant_to_happen_only_when_it_is_late() -> None:
    now = datetime(2026, 1, 31, tzinfo=UTC)
    soon, gone = now + timedelta(seconds=9), now - timedelta(seconds=9)
    assert ('class="until near"' in until(soon, now), ">9 s left<" in until(soon, now)) == (True, True)
    assert ('class="ahead far"' in ahead(soon, now), ">in 9 s<" in ahead(soon, now)) == (True, True)
    assert ('class="ahead passed"' in ahead(gone, now), ">9 s over<" in ahead(gone, now)) == (True, True)


def test_a_deadline_is_a_bar_of_what_is_used() -> None:
    now = datetime(2026, 1, 31, tzinfo=UTC)
    bar = used(now + timedelta(seconds=20), now - timedelta(seconds=60), now, "run timeout")
    assert 'class="meter near" value="60.0" max="80.0"' in bar
    assert 'aria-label="Run timeout: time used"' in bar
    over = used(now - timedelta(seconds=20), now - timedelta(seconds=60), now)
    assert 'class="meter passed" value="40.0" max="40.0"' in over


def test_a_page_on_which_only_time_has_passed_is_not_sent_again() -> None:
    start = datetime(2026, 1, 31, tzinfo=UTC)
    deadline = start + timedelta(seconds=80)

    def page(after: int, status: str) -> str:
        now = start + timedelta(seconds=after)
        times = (until(deadline, now), ahead(deadline, now), since(start, now), lasted(start, None, now))
        return f"<td>{status}</td>" + "".join((*times, used(deadline, start, now)))

    assert page(1, "running") != page(70, "running")
    assert without_counting(page(1, "running")) == without_counting(page(70, "running"))
    assert without_counting(page(1, "running")) != without_counting(page(1, "failed"))
    moved = page(1, "running").replace("2026-01-31T00:01:20", "2026-01-31T00:02:20")
    assert without_counting(page(1, "running")) != without_counting(moved)
