"""`outlast watchdog --alerts` delivers with no worker alive, and `outlast alerts test` says whether it does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from tests.cli.conftest import Command, Running
from tests.endpoint import Endpoint, endpoint

from outlast import Client, StartOptions

SECRET = "whsec_MTIzNDU2Nzg5MDEyMzQ1Njc4OTA="


@pytest.fixture
def there() -> Iterator[Endpoint]:
    """An endpoint on a thread of its own."""
    ready = threading.Event()
    found: list[Endpoint] = []
    over = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        async with endpoint("404", "200") as made:
            found.append(made)
            loops.append(asyncio.get_running_loop())
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(30)
    yield found[0]
    loops[0].call_soon_threadsafe(over.set)
    thread.join()


def test_a_watchdog_delivers_with_no_worker_alive(
    outlast: Command,
    url: str,
    there: Endpoint,
    start_process: Callable[..., Running],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONCALL_SECRET", SECRET)
    file = tmp_path / "alerts.toml"
    file.write_text(
        f"""
        [channels.oncall]
        url = "{there.url()}"
        secret_env = "ONCALL_SECRET"
        allow_http = true
        allow_private = true
        [[rules]]
        workflow_type = "Ord*"
        at = [0.001]
        channels = ["oncall"]
        """
    )

    async def start() -> None:
        async with Client.connect(url) as client:
            await client.start("Order", id="w", options=StartOptions(execution_timeout=1000))

    asyncio.run(start())
    unserved = outlast("alerts", "test", "oncall", "--timeout", "100ms")
    assert unserved.code == 1
    assert "channel oncall has not taken it within 100ms: nobody serves it" in unserved.err
    watchdog = start_process("watchdog", "--alerts", str(file), "--interval", "100ms", "--json", "--url", url)
    watchdog.line()
    # The first request of all is refused for good, whichever it is.
    codes = [outlast("alerts", "test", "oncall", "--json").code for _ in range(2)]
    assert codes[-1] == 0
    there.wait(lambda request: any(one["workflow_id"] == "w" for one in request.alerts))
    for request in there.taken:
        Verifier(SECRET).verify(request.body, request.headers)
    [alert] = outlast("alerts", "list", "--json").lines
    assert alert["workflow_id"] == "w"
    assert [one["channel"] for one in alert["deliveries"]] == ["oncall"]
    assert watchdog.stop().code == 0


def test_a_test_that_is_refused_says_why(
    outlast: Command, url: str, there: Endpoint, start_process: Callable[..., Running], tmp_path: Path
) -> None:
    file = tmp_path / "alerts.toml"
    settings = f'url = "{there.url()}"\nallow_http = true\nallow_private = true\n'
    file.write_text(f"[channels.oncall]\n{settings}")
    outlast("migrate")
    watchdog = start_process("watchdog", "--alerts", str(file), "--json", "--url", url)
    watchdog.line()
    refused = outlast("alerts", "test", "oncall")
    assert refused.code == 1
    assert "channel oncall did not take it: WebhookRefused: 127.0.0.1 answered 404" in refused.err
    assert "hidden" not in refused.err
    taken = outlast("alerts", "test", "oncall")
    assert taken.code == 0
    assert "channel oncall has taken a test" in taken.out
    assert watchdog.stop().code == 0


def test_a_file_that_cannot_be_used_starts_nothing(outlast: Command, url: str, tmp_path: Path) -> None:
    outlast("migrate")
    file = tmp_path / "alerts.toml"
    file.write_text("[channels.oncall]\nurl = 'http://a.example'\n[[rules]]\nat = [0.5]\n")
    done = outlast("watchdog", "--alerts", str(file))
    assert done.code == 2
    assert "channels.oncall: the webhook's url must begin with https://" in done.err
    assert "rule 1: a rule of alerts names workflow_type or task_queue" in done.err
