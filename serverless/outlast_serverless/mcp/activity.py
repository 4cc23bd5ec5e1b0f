"""The activity of ``call: mcp``: what is asked, of which server, and what of its answer is the output."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from outlast import activity
from outlast.version import __version__
from outlast_serverless.calls.authentication import TokenSource
from outlast_serverless.calls.endpoints import Endpoint, endpoint
from outlast_serverless.calls.extras import lacking
from outlast_serverless.calls.heartbeats import beating
from outlast_serverless.calls.http import scalar
from outlast_serverless.calls.policy import HttpPolicy
from outlast_serverless.calls.request import CallRequest, Filling
from outlast_serverless.interpreter.data_flow import duration_seconds
from outlast_serverless.interpreter.faults import fault
from outlast_serverless.jq import Evaluator
from outlast_serverless.processes.policy import ProcessPolicy
from outlast_serverless.processes.servers import described_server
from outlast_serverless.secrets import SecretSource

if TYPE_CHECKING:
    from outlast_serverless.mcp.session import Question

_VERSION: Final = "2025-06-18"
_TOLD: Final = 500


def mcp_activity(
    evaluator: Evaluator,
    secrets: SecretSource | None,
    policy: HttpPolicy,
    processes: ProcessPolicy,
    tokens: TokenSource,
) -> Any:
    """Return the activity of ``call: mcp``.

    Args:
        evaluator: Evaluates expressions.
        secrets: Where secrets come from.
        policy: What may be called.
        processes: Which servers may be started.
        tokens: Where access tokens come from.
    """

    @activity.defn(name="serverless.mcp")
    async def mcp(request: dict[str, Any]) -> Any:
        asked = CallRequest.of(request)
        filling = Filling(asked, evaluator, secrets)
        with filling.telling():
            async with beating(asked.timeout):
                return await _Call(asked, filling, policy, processes, tokens).answer()

    return mcp


class _Call:
    """One call of a server."""

    def __init__(
        self,
        asked: CallRequest,
        filling: Filling,
        policy: HttpPolicy,
        processes: ProcessPolicy,
        tokens: TokenSource,
    ) -> None:
        self._asked = asked
        self._filling = filling
        self._policy = policy
        self._processes = processes
        self._tokens = tokens

    async def answer(self) -> dict[str, Any]:
        """Return the result.

        Raises:
            Fault: It was not answered, or with an error.
        """
        asked, filling, pointer = self._asked, self._filling, self._asked.pointer
        missing = lacking("mcp")
        if missing:
            raise fault("configuration", missing, pointer)
        written = asked.written
        if not isinstance(written, dict) or not isinstance(written.get("transport"), dict):
            raise fault("configuration", "the arguments of the call have no transport", pointer)
        place = asked.place
        over, at = written["transport"], None
        if isinstance(over.get("http"), dict):
            http = over["http"]
            at = await endpoint(
                http.get("endpoint"), f"{place}/transport/http/endpoint", asked, filling, self._tokens
            )
            # The endpoint was filled in above, its authentication with it.
            over = {"http": {name: value for name, value in http.items() if name != "endpoint"}}
        given: dict[str, Any] = {**written, "transport": over}
        if asked.deferred is not None:
            given = await filling.filled(given, place, **({} if at is None else at.variables))
        # The library takes long to import, and few documents need it.
        question = await asyncio.to_thread(_question, given, pointer)
        what = filling.masking.text(f"{question.method} of {self._shown(at, given)}")
        patience = given.get("timeout")
        limit = None if patience is None else duration_seconds(patience, pointer)
        try:
            async with asyncio.timeout(limit):
                if at is None:
                    result = await self._by_stdio(given["transport"].get("stdio"), question, what)
                else:
                    result = await self._by_http(at, given["transport"]["http"], question, what)
        except TimeoutError:
            raise fault("timeout", f"{what} was not answered within {limit:g} s", pointer) from None
        if question.method == "tools/call" and result.get("isError") is True:
            told = filling.masking.text(_words(result))[:_TOLD]
            tool = str(question.parameters.get("name"))
            raise fault("runtime", f"the tool {tool!r:.100} failed" + (f": {told}" if told else ""), pointer)
        return result

    def _shown(self, at: Endpoint | None, given: dict[str, Any]) -> str:
        return at.shown if at is not None else str((given["transport"].get("stdio") or {}).get("command"))

    async def _by_http(
        self, at: Endpoint, given: dict[str, Any], question: Question, what: str
    ) -> dict[str, Any]:
        from outlast_serverless.mcp.http import answer_by_http

        headers = {str(name).lower(): scalar(value) for name, value in (given.get("headers") or {}).items()}
        limit = self._policy.timeout
        try:
            async with asyncio.timeout(limit):
                return await answer_by_http(
                    at, headers, question, self._policy, what, self._asked.pointer, self._filling.masking
                )
        except TimeoutError:
            detail = f"{what} was not answered within {limit:g} s"
            raise fault("communication", detail, self._asked.pointer, status=504) from None

    async def _by_stdio(self, given: Any, question: Question, what: str) -> dict[str, Any]:
        from outlast_serverless.mcp.stdio import answer_by_stdio

        described = described_server(given, self._processes, self._asked.pointer)
        return await answer_by_stdio(
            described,
            question,
            self._processes.max_output_bytes,
            what,
            self._asked.pointer,
            self._filling.masking,
        )


def _question(given: dict[str, Any], pointer: str) -> Question:
    """Return what is asked.

    Raises:
        Fault: It cannot be asked.
    """
    from outlast_serverless.mcp.session import VERSIONS, Question

    parameters = {} if given.get("parameters") is None else given["parameters"]
    if not isinstance(parameters, dict):
        raise fault("configuration", "the parameters of the call are no object", pointer)
    version = str(given.get("protocolVersion") or _VERSION)
    if version not in VERSIONS:
        raise fault(
            "configuration",
            f"there is no version {version!r:.40} of the protocol here, but {', '.join(VERSIONS)}",
            pointer,
        )
    client: dict[str, Any] = given.get("client") or {"name": "outlast", "version": __version__}
    return Question(
        str(given.get("method")), parameters, version, str(client.get("name")), str(client.get("version"))
    )


def _words(result: dict[str, Any]) -> str:
    """Return the texts that a tool has answered with."""
    parts = result.get("content") or ()
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and part.get("text"))
