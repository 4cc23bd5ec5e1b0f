"""Endpoints of calls: where a document says that something is, and how one authenticates there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from outlast_serverless.calls.authentication import Authentication, TokenSource, authentication
from outlast_serverless.calls.request import CallRequest, Filling
from outlast_serverless.interpreter.data_flow import filled_uri
from outlast_serverless.interpreter.faults import fault
from outlast_serverless.plan.templates import is_uri_template


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint.

    Attributes:
        uri: Its URL.
        known: How one authenticates there.
    """

    uri: str
    known: Authentication | None

    @property
    def variables(self) -> dict[str, Any]:
        """The variables that it adds for the other arguments of the call."""
        authorization = None if self.known is None else self.known.authorization
        return {} if authorization is None else {"authorization": authorization}

    @property
    def shown(self) -> str:
        """Its URL without user, password and query."""
        target = self.uri.partition("#")[0].partition("?")[0]
        scheme, _, rest = target.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"


async def endpoint(
    written: Any, place: str, asked: CallRequest, filling: Filling, tokens: TokenSource
) -> Endpoint:
    """Return an endpoint, filled in.

    Args:
        written: What stands in the document: a URI, a URI template, or an object with one.
        place: Where that stands.
        asked: The call.
        filling: Fills in and fetches secrets.
        tokens: Where access tokens come from.

    Raises:
        Fault: It is no URL, or something that it needs is not there.
    """
    policy = written.get("authentication") if isinstance(written, dict) else None
    uri = written.get("uri") if isinstance(written, dict) else written
    if asked.deferred is not None:
        if is_uri_template(uri):
            uri = filled_uri(uri, asked.deferred.get("data"), asked.pointer)
        else:
            uri = await filling.filled(uri, f"{place}/uri" if isinstance(written, dict) else place)
    if not isinstance(uri, str) or not uri.startswith(("http://", "https://")):
        raise fault(
            "configuration", f"the endpoint must be an http or https URL{asked.shown(uri)}", asked.pointer
        )
    return Endpoint(uri, await authentication(policy, f"{place}/authentication", asked, filling, tokens))
