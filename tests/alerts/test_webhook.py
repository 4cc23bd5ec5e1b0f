"""Webhooks: one signed request, bounded in time and size, to where it was allowed to go."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError
from tests.endpoint import certificate, endpoint

from outlast import ApplicationError
from outlast.alerts import Alert, Webhook
from outlast.alerts.http_post import is_public
from outlast.errors import InvalidOptionError
from outlast_workflow.environment import SystemClock
from outlast_workflow.primitives.enums import AlertKind

OLD = "whsec_" + base64.b64encode(b"o" * 24).decode()
NEW = "whsec_" + base64.b64encode(b"n" * 32).decode()
AT = datetime(2026, 11, 23, 12, tzinfo=UTC)
ALERT = Alert(
    alert_id="a-1",
    workflow_id="ordér-1",
    run_id="r-1",
    workflow_type="Order",
    task_queue="default",
    activity_id=None,
    activity_type=None,
    attempt=None,
    kind=AlertKind.RUN,
    mark="80%",
    text="80% of its run timeout is used up",
    deadline_at=AT + timedelta(seconds=100),
    due_at=AT,
    fired_at=AT,
)


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLD", OLD)
    monkeypatch.setenv("BOTH", f"{OLD} {NEW}")


def near(url: str, **options: Any) -> Webhook:
    given: dict[str, Any] = {"allow_http": True, "allow_private": True, "timeout": 2, **options}
    return Webhook(url, **given)


async def post(webhook: Webhook, **options: Any) -> None:
    await webhook.post("d-1", SystemClock().now(), [ALERT], **options)


async def refused(webhook: Webhook) -> ApplicationError:
    with pytest.raises(ApplicationError) as caught:
        await post(webhook)
    assert "hidden" not in str(caught.value), "the path of a URL may be a secret"
    return caught.value


async def test_a_request_is_verified_by_a_library_that_is_not_ours() -> None:
    async with endpoint() as there:
        await post(near(there.url(), secret_env="BOTH"))
        await post(near(there.url(), secret_env="OLD"), test=True)
        await post(near(there.url()))
        both, old, unsigned = there.requests
        assert both.line == "POST /hooks?token=hidden HTTP/1.1"
        assert both.headers["content-type"] == "application/json"
        for secret in (OLD, NEW):
            assert Verifier(secret).verify(both.body, both.headers) == {"alerts": both.alerts}
        assert Verifier(OLD).verify(old.body, old.headers)["test"] is True
        with pytest.raises(WebhookVerificationError):
            Verifier(NEW).verify(old.body, old.headers)
        with pytest.raises(WebhookVerificationError):
            Verifier(OLD).verify(old.body + b" ", old.headers)
        assert {one.headers["webhook-id"] for one in there.requests} == {"d-1"}
        assert "webhook-signature" not in unsigned.headers
        [document] = both.alerts
        assert document["workflow_id"] == "ordér-1"
        assert document["deadline_at"] == "2026-11-23T12:01:40+00:00"
        assert document.keys() & {"deliveries", "acknowledged_at"} == set()


@pytest.mark.parametrize(
    ("behaviour", "says", "for_good"),
    [
        ("500", "answered 500", False),
        ("400", "answered 400", True),
        ("404", "answered 404", True),
        ("408", "answered 408", False),
        ("425", "answered 425", False),
        ("429", "answered 429", False),
        ("301 location: http://169.254.169.254/\r\n", "redirects are not followed", False),
        ("close", "closed before an answer came", False),
        ("garbage", "not HTTP/1.1", False),
        ("flood", "more than 65536 bytes of headers", False),
        ("hang", "did not answer within 0.5 s", False),
        ("drip", "did not answer within 0.5 s", False),
    ],
)
async def test_what_an_endpoint_answers_decides_whether_it_is_asked_again(
    behaviour: str, says: str, for_good: bool
) -> None:
    async with endpoint(behaviour) as there:
        error = await refused(near(there.url(), timeout=0.5))
        assert says in str(error)
        assert error.non_retryable is for_good
        assert error.next_retry_delay is None
        assert there.connections == 1


async def test_an_answer_that_has_no_end_is_an_answer() -> None:
    async with endpoint("endless") as there:
        await post(near(there.url()))
        assert len(there.taken) == 1


@pytest.mark.parametrize(
    ("wait", "seconds"),
    [("120", 120), ("99999999999", 3600), ("soon", None), ("-1", None), (None, 60), ("0", 5), ("1", 5)],
)
async def test_retry_after_is_obeyed(wait: str | None, seconds: float | None) -> None:
    if wait is None:
        wait = format_datetime(datetime.now(UTC) + timedelta(seconds=61), usegmt=True)
    async with endpoint(f"503 retry-after: {wait}\r\n") as there:
        found = (await refused(near(there.url()))).next_retry_delay
        assert found == seconds or (seconds == 60 and 55 < (found or 0) < 62)


@pytest.mark.parametrize(
    "wait", ["\xe9", "Mon, 01 Jan 99999999999999999999999 00:00:00 GMT", "Mon, 00 Jan 0000 00:00:00 GMT"]
)
async def test_a_retry_after_that_means_nothing_decides_nothing(wait: str) -> None:
    async with endpoint(f"204 retry-after: {wait}\r\n") as there:
        await post(near(there.url()))
    async with endpoint(f"400 retry-after: {wait}\r\n") as there:
        error = await refused(near(there.url()))
        assert (error.non_retryable, error.next_retry_delay) == (True, None)


async def test_tls_is_checked_against_the_name(tmp_path: Path) -> None:
    trusted, right = certificate(tmp_path, "127.0.0.1")
    _, wrong = certificate(tmp_path, "elsewhere.example")
    async with endpoint(context=right) as there, endpoint(context=wrong) as liar, endpoint() as plain:
        await post(near(there.url("https"), ca_file=trusted))
        assert len(there.taken) == 1
        for url, options in (
            (there.url("https"), {}),
            (liar.url("https"), {"ca_file": trusted}),
            (plain.url("https"), {"ca_file": trusted}),
        ):
            error = await refused(near(url, **options))
            says = (
                "did not take the connection in time"
                if url == plain.url("https")
                else "no TLS with 127.0.0.1"
            )
            assert says in str(error)
            assert not error.non_retryable
        other = tmp_path / "elsewhere.example.pem"
        error = await refused(near(liar.url("https"), ca_file=other))
        assert "IP address mismatch" in str(error)
        assert liar.requests == plain.requests == []


async def test_it_connects_to_what_it_has_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is public when it is looked at, and private afterwards, leads nowhere else."""
    loop = asyncio.get_running_loop()
    asked: list[str] = []
    right = loop.getaddrinfo

    async def lying(host: Any, port: Any, **options: Any) -> Any:
        asked.append(host)
        if host == "rebinding.example":
            address = "198.51.100.7" if len(asked) == 1 else "127.0.0.1"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]
        return await right(host, port, **options)

    monkeypatch.setattr(loop, "getaddrinfo", lying)
    monkeypatch.setattr("outlast.alerts.http_post.is_public", lambda address: str(address) == "198.51.100.7")
    connected: list[str] = []

    async def connect(host: str, port: int, **options: Any) -> Any:
        connected.append(host)
        raise OSError(111, "refused")

    monkeypatch.setattr(asyncio, "open_connection", connect)
    error = await refused(Webhook("https://rebinding.example/hooks?token=hidden"))
    assert "no connection to rebinding.example" in str(error)
    assert asked == ["rebinding.example"]
    assert connected == ["198.51.100.7"]


async def test_what_is_not_public_is_not_asked() -> None:
    async with endpoint() as there:
        for host in ("127.0.0.1", "localhost"):
            error = await refused(near(there.url(host=host), allow_private=False))
            assert "not a public address" in str(error)
            assert not error.non_retryable, "once the webhook allows it, what waits is delivered"
        assert there.connections == 0
    assert "has no address" in str(await refused(near("http://nowhere.invalid/?token=hidden")))


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2001:4860:4860::8888", True),
        ("10.1.2.3", False),
        ("127.0.0.1", False),
        ("0.0.0.0", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:8.8.8.8", True),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::808:808", True),
        ("2002:7f00:1::", False),
        ("2001:0:53aa:64c:0:0:80ff:fffe", False),
        ("::127.0.0.1", False),
        ("::ffff:0:127.0.0.1", False),
        ("64:ff9b:1::a00:1", False),
        ("fec0::1", False),
        ("5f00::1", False),
    ],
)
def test_public_addresses(address: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) is public


@pytest.mark.parametrize(
    ("url", "options", "field", "message"),
    [
        ("http://a.example/", {}, "url", "anybody on the way"),
        ("ftp://a.example/", {}, "url", "begin with https"),
        ("https:///x", {}, "url", "name a host"),
        ("https://user:password@a.example/", {}, "url", "a user or a password"),
        ("https://a.example:99999/", {}, "url", "is no URL"),
        ("https://a.example/a b", {}, "url", "printable ASCII"),
        ("https://a.example/\r\nx: y", {}, "url", "printable ASCII"),
        (5, {}, "url", "printable ASCII"),
        ("https://a.example/", {"secret_env": "UNSET"}, "secret_env", "'UNSET'.*is not set"),
        ("https://a.example/", {"secret_env": "SHORT"}, "secret_env", "openssl rand"),
        ("https://a.example/", {"secret_env": "EMPTY"}, "secret_env", "is empty"),
        ("https://a.example/", {"timeout": 15}, "timeout", "at most 14 s"),
        ("https://a.example/", {"ca_file": "/nowhere"}, "ca_file", "not there"),
        ("https://a.example/", {"secret": "x"}, "secret", "secret"),
    ],
)
def test_what_cannot_be_used_is_refused(
    url: Any, options: dict[str, Any], field: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHORT", "whsec_hunter2=")
    monkeypatch.setenv("EMPTY", " ")
    with pytest.raises(InvalidOptionError, match=message) as caught:
        Webhook(url, **options)
    assert caught.value.field == field
    assert "hunter2" not in str(caught.value)
    assert "password@" not in str(caught.value)


def test_its_repr_holds_no_secret() -> None:
    assert (
        repr(Webhook("https://a.example/hooks/T00/B00", secret_env="OLD")) == "Webhook(https://a.example/…)"
    )
