"""A rule and a webhook: the receiver checks who sent an alert, with `standardwebhooks`, and takes a delivery once."""

import asyncio
import base64
import os
import secrets
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from threading import Thread

from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from outlast import AlertPolicy, Client, Worker, workflow
from outlast.alerts import Webhook
from outlast.watchdog import AlertRule, TaskWatchdog

SECRET = os.environ["ONCALL_SECRET"] = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
RULES = [AlertRule(workflow_type="load*", policy=AlertPolicy(after=[0.5], channels=["oncall"]))]
taken: Queue[str] = Queue()
seen: set[str] = set()


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            alerts = Verifier(SECRET).verify(body, dict(self.headers))["alerts"]
        except WebhookVerificationError:
            return self.send_error(401)
        if self.headers["webhook-id"] not in seen:
            seen.add(self.headers["webhook-id"])
            for alert in alerts:
                taken.put(f"{alert['workflow_id']}: {alert['text']}")
        self.send_response(204)
        self.end_headers()


@workflow.defn
async def load_table() -> str:
    return await workflow.receive("loaded", result_type=str)


async def main(database: str, endpoint: str) -> None:
    oncall = Webhook(endpoint, secret_env="ONCALL_SECRET", allow_http=True, allow_private=True)
    async with (
        Client.connect(database) as client,
        Worker(client, workflows=[load_table], alert_channels={"oncall": oncall}, watchdog=False),
    ):
        watchdog = TaskWatchdog(client, rules=RULES)
        watchdog.start()
        handle = await client.start(load_table, id="load-1")
        print("told:", await asyncio.to_thread(taken.get))
        await handle.signal("loaded", "7 rows")
        print(await handle.result())
        await watchdog.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        asyncio.run(main(f"sqlite:///{folder}/a.db", f"http://127.0.0.1:{server.server_port}/"))
