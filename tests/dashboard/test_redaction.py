"""What interceptors write beside a call is the users' own, as payloads are."""

from __future__ import annotations

from typing import Any

import httpx2
from tests.dashboard import programs
from tests.dashboard.conftest import make_tokens

from outlast import Client, Worker
from outlast.interceptors import Interceptor
from outlast_dashboard import WebSettings, control_plane


class Tenants(Interceptor):
    """A tenant goes with whatever is asked for."""

    async def start_workflow(self, call: Any, next: Any) -> Any:
        call.headers["tenant"] = "s3cret"
        return await next(call)

    async def signal_workflow(self, call: Any, next: Any) -> Any:
        call.headers["tenant"] = "s3cret"
        return await next(call)

    async def update_workflow(self, call: Any, next: Any) -> Any:
        call.headers["tenant"] = "s3cret"
        return await next(call)

    def start_activity(self, call: Any, next: Any) -> Any:
        call.headers["tenant"] = "s3cret"
        return next(call)


async def test_headers_are_hidden_like_payloads() -> None:
    tokens, secrets = make_tokens()
    async with Client.connect("sqlite://", interceptors=[Tenants()]) as client:
        async with Worker(client, workflows=programs.WORKFLOWS, activities=programs.ACTIVITIES):
            await client.execute("Greeting", "ada", id="g")
            waiting = await client.start("Waiting", id="w")
            await waiting.signal("say", "")
            await waiting.execute_update("correct", "over")
            await waiting.result()
        transport = httpx2.ASGITransport(control_plane(client, WebSettings(tokens=tokens)))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as web:
            carrying = set()
            for id in ("g", "w"):
                for path in (
                    f"/api/workflows/{id}/history",
                    f"/api/workflows/{id}/history/live",
                    f"/workflows/{id}",
                ):
                    blind = await web.get(path, headers={"authorization": f"Bearer {secrets['reader']}"})
                    assert blind.status_code == 200
                    assert "s3cret" not in blind.text, path
                    sees = await web.get(path, headers={"authorization": f"Bearer {secrets['seer']}"})
                    assert "s3cret" in sees.text, path
                seen = await web.get(
                    f"/api/workflows/{id}/history", headers={"authorization": f"Bearer {secrets['seer']}"}
                )
                carrying |= {one["type"] for one in seen.json()["events"] if one["payload"].get("headers")}
    assert carrying == {"WorkflowStarted", "ActivityScheduled", "SignalReceived", "UpdateAccepted"}
