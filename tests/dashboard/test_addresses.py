"""Ids and parameters in addresses: what is refused, and what survives every way of showing it."""

from __future__ import annotations

import base64

import httpx2
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape
from tests.dashboard.conftest import Served
from tests.dashboard.serving import serving

from outlast import Client, StartOptions
from outlast.errors import InvalidOptionError
from outlast_dashboard import WebSettings
from outlast_dashboard.encoded_paths import quoted
from outlast_dashboard.pages.login import _local
from outlast_dashboard.pages.streaming import _event

ODD_IDS = ("a/b", "x\u2028y", "x\u2029y", "a b", "é", "%2e%2e", "...", "<b>&\"'", "?#[]", "\u202e", "\\", "~")


@pytest.fixture
def database_url() -> str:
    """Nothing here depends on the database."""
    return "sqlite://"


def data_of(stream: str) -> str:
    """The data of a server-sent event, as a browser reads it (WHATWG HTML, 9.2.6)."""
    lines = stream.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert lines[-2:] == ["", ""]
    assert all(line.startswith("data: ") for line in lines[:-2])
    return "\n".join(line.removeprefix("data: ") for line in lines[:-2])


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("\r\n\u2028\u2029\x85\x0b\x0c\x1c")))
def test_a_live_page_survives_every_character(text: str) -> None:
    assert data_of(_event(text).decode()) == text.replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.parametrize("id", ODD_IDS)
async def test_odd_ids_are_shown_and_streamed_and_linked(id: str) -> None:
    async with Client.connect("sqlite://") as client:
        options = StartOptions(search_attributes={"customer": id}, memo={"m": id})
        await client.start("Nobody", id, id=id, options=options)
        async with serving(client, WebSettings()) as address:
            async with httpx2.AsyncClient(base_url=address) as web:
                path = f"/workflows/{quoted(id)}"
                assert (await web.get(f"/api{path}")).json()["workflow_id"] == id
                page = await web.get(path)
                assert page.status_code == 200
                assert "<b>&" not in page.text
                assert f'href="{path}' in (await web.get("/")).text
                for live in ("/", path):
                    async with web.stream("GET", live, headers={"accept": "text/event-stream"}) as stream:
                        text = ""
                        async for piece in stream.aiter_text():
                            text += piece
                            if text.endswith("\n\n"):
                                break
                    assert f">{escape(id)}<" in data_of(text)
                async with web.stream("GET", f"/api{path}/history/live") as stream:
                    async for line in stream.aiter_lines():
                        if line.startswith("data: "):
                            assert orjson.loads(line[6:])["payload"]["workflow_id"] == id
                            break


async def test_dot_segments_are_no_ids(served: Served) -> None:
    for id in (".", ".."):
        with pytest.raises(InvalidOptionError, match="no URL could name it"):
            await served.client.start("Waiting", id=id)
        for body in ({"workflow_id": id}, {}):
            headers = {} if body else {"idempotency-key": id}
            answer = await served.web.post(
                "/api/workflows", json={"workflow_type": "Waiting", **body}, headers=headers
            )
            assert answer.status_code == 422
            assert answer.json()["field"] == "workflow_id"
        form = await served.web.post("/start", data={"workflow_type": "Waiting", "workflow_id": id})
        assert form.status_code == 422
        handle = await served.client.start("Waiting")
        with pytest.raises(InvalidOptionError, match="signal name must not be"):
            await handle.signal(id)
    assert await served.client.count(workflow_type="Waiting") == 2


async def test_parameters_of_pages_are_bounded_like_those_of_the_api(served: Served) -> None:
    handle = await served.client.start("Waiting", id="w-1")
    huge = "9" * 30
    for path in (
        f"/workflows/w-1?after={huge}",
        f"/workflows/w-1?after={2**63}",
        "/workflows/w-1?after=-1",
        "/workflows/w-1?run_id=%00",
        "/workflows/w-1?run_id=" + "x" * 300,
        "/?cursor=x",
        "/?cursor=" + "A" * 9_000,
        "/?status=nonsense",
        "/?id_prefix=%00",
        "/?id_prefix=" + "x" * 300,
        "/?workflow_type=%1B",
        "/?task_queue=" + "x" * 300,
        "/?where=a",
        "/?where=a%00%3D1",
        "/?where=a%3D" + "x" * 9_000,
        f"/bulk?action=cancel&id_prefix={'x' * 300}",
        "/bulk?action=nonsense",
    ):
        answer = await served.web.get(path)
        assert answer.status_code == 422, (path[:80], answer.status_code)
    assert handle.run_id is not None


async def test_a_forged_cursor_is_refused(served: Served) -> None:
    """The digest in a cursor is no secret: what stands beside it is checked all the same."""
    for number in range(3):
        await served.client.start("Nobody", id=f"w-{number}")
    cursor = (await served.client.list(page_size=1).page()).cursor
    assert cursor is not None
    version, digest, *_ = orjson.loads(base64.urlsafe_b64decode(cursor + "=="))
    for position in (["\x00"], [""], ["x" * 500], ["x", -1], ["x", 2**63], ["x", 2**64 - 1], [1], [None], []):
        text = orjson.dumps([version, digest, *position])
        forged = base64.urlsafe_b64encode(text).decode().rstrip("=")
        for path in ("/", "/api/workflows?page_size=1"):
            joint = "&" if "?" in path else "?"
            answer = await served.web.get(f"{path}{joint}cursor={forged}")
            assert answer.status_code == 422, (path, position)


async def test_names_of_attributes_are_checked_at_every_way_in(served: Served) -> None:
    for name in ("", " ", " a", "a ", "a=b", "a<b", "a>b", "a\x00", "a\x85", "x" * 201):
        with pytest.raises(InvalidOptionError):
            StartOptions(search_attributes={name: "c"})
        with pytest.raises(InvalidOptionError):
            await served.client.list(where={name: "c"}).page()
        answer = await served.web.post(
            "/api/workflows", json={"workflow_type": "Waiting", "search_attributes": {name: "c"}}
        )
        assert answer.status_code == 422, name
        form = {"workflow_type": "Waiting", "search_attributes": orjson.dumps({name: "c"}).decode()}
        assert (await served.web.post("/start", data=form)).status_code == 422, name
    assert await served.client.count() == 0


@pytest.mark.parametrize(
    "target",
    [
        *(
            "//evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "https://evil.example",
            "javascript:alert(1)",
        ),
        *("/\t/evil.example", "/\n/evil.example", " //evil.example", "///evil.example", "evil.example", ""),
        *(
            "/\x00/evil.example",
            "http:evil.example",
            "/x\\..\\..\\evil",
            "/" + "x" * 5_000,
            "//[",
            "\u2028//x",
        ),
    ],
)
def test_nobody_is_led_elsewhere_after_signing_in(target: str) -> None:
    assert _local(target) == "/"


def test_a_page_of_this_site_is_kept() -> None:
    for target in ("/", "/workflows/a%2Fb?after=3", "/?where=a%3E5", "/workflows/%E2%80%A8"):
        assert _local(target) == target
