"""External resources: descriptions, schemas, functions and scripts that documents fetch, all in one way.

A resource is fetched in an activity, under the network policy, with the authentication of its endpoint. Redirects are
followed, and each hop is looked at.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from outlast_serverless.calls.authentication import Authentication, TokenSource, authentication
from outlast_serverless.calls.http import answered, made
from outlast_serverless.calls.policy import DeniedError, HttpPolicy
from outlast_serverless.calls.request import CallRequest, Filling
from outlast_serverless.interpreter.data_flow import filled_uri
from outlast_serverless.interpreter.faults import Fault, fault
from outlast_serverless.plan.templates import is_uri_template

T = TypeVar("T")
MOST_BYTES: Final = 16 << 20
"""A description may be so long, even where answers may not."""
_KEPT_S: Final = 60.0
_MOST_KEPT: Final = 64


@dataclass(frozen=True, slots=True)
class Resource:
    """What was fetched.

    Attributes:
        url: Where it was asked for.
        content: What it holds.
        media_type: Its type as the server tells it, without parameters; empty if that is not told.
    """

    url: str
    content: bytes
    media_type: str = ""


class Resources:
    """Fetches external resources.

    Args:
        policy: What may be fetched.
        tokens: Where access tokens come from.
    """

    def __init__(self, policy: HttpPolicy, tokens: TokenSource) -> None:
        self._policy = policy
        self._tokens = tokens
        self._kept: OrderedDict[tuple[Any, ...], tuple[float, Any]] = OrderedDict()

    async def fetched(
        self,
        resource: Any,
        place: str,
        asked: CallRequest,
        filling: Filling,
        parse: Callable[[Resource], T],
        *,
        most_bytes: int = MOST_BYTES,
        urls: Callable[[str], tuple[str, ...]] | None = None,
    ) -> T:
        """Return a resource, parsed. One of the network that needs no authentication is kept in memory for a minute.

        Args:
            resource: The resource as it stands in the request of the activity: an object with an ``endpoint``, its
                expressions not evaluated yet where the request is deferred.
            place: Where that stands in the document.
            asked: The request.
            filling: Fills in expressions and secrets.
            parse: Reads the content, in a thread; a :class:`ValueError` of it says why that cannot be used.
            most_bytes: How long it may be.
            urls: What makes of the endpoint's URL those where the resource may be. The next one is tried where one
                answers 404.

        Raises:
            Fault: It cannot be fetched or used; nothing of it was kept.
        """
        endpoint = resource.get("endpoint") if isinstance(resource, dict) else None
        place = f"{place}/endpoint"
        policy = endpoint.get("authentication") if isinstance(endpoint, dict) else None
        url = await _url(endpoint, place, asked, filling)
        known = await authentication(policy, f"{place}/authentication", asked, filling, self._tokens)
        candidates = (url,) if urls is None else urls(url)
        key = (parse, *candidates)
        keeps = known is None and not url.startswith("file:")
        found = self._kept.get(key) if keeps else None
        if found is not None and asyncio.get_running_loop().time() - found[0] < _KEPT_S:
            parsed: T = found[1]
            return parsed
        fetched = await self._first(candidates, known, most_bytes, asked, filling)
        try:
            # Reading much, and YAML, takes long.
            parsed = await asyncio.to_thread(parse, fetched)
        except ValueError as error:
            raise fault("configuration", filling.masking.text(str(error)), asked.pointer) from None
        if keeps:
            self._kept[key] = (asyncio.get_running_loop().time(), parsed)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return parsed

    async def _first(
        self,
        urls: tuple[str, ...],
        known: Authentication | None,
        most_bytes: int,
        asked: CallRequest,
        filling: Filling,
    ) -> Resource:
        for url in urls[:-1]:
            try:
                return await self._one(url, known, most_bytes, asked, filling)
            except Fault as error:
                if error.error["status"] != 404:
                    raise
        return await self._one(urls[-1], known, most_bytes, asked, filling)

    async def _one(
        self, url: str, known: Authentication | None, most_bytes: int, asked: CallRequest, filling: Filling
    ) -> Resource:
        if url.startswith("file:"):
            url = self._policy.rewritten(url)
        if url.startswith("file:"):
            return await asyncio.to_thread(self._read, url, most_bytes, asked)
        call = made({"method": "get", "endpoint": url, "redirect": True}, known, asked)
        _, answer = await answered(asked, replace(self._policy, max_response_bytes=most_bytes), filling, call)
        if not 200 <= answer.status_code < 300:
            detail = f"{filling.masking.text(url)} answered {answer.status_code}"
            raise fault("communication", detail, asked.pointer, status=answer.status_code)
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        return Resource(url, answer.content, kind)

    def _read(self, url: str, most_bytes: int, asked: CallRequest) -> Resource:
        try:
            path = self._policy.file(url)
            if not path.is_file():
                raise fault("configuration", f"{url} is no file", asked.pointer)
            with path.open("rb") as file:
                content = file.read(most_bytes + 1)
        except DeniedError as error:
            raise fault("authorization", str(error), asked.pointer) from None
        except OSError as error:
            raise fault("communication", f"{url} cannot be read: {error.strerror}", asked.pointer) from None
        if len(content) > most_bytes:
            raise fault("communication", f"{url} has more than {most_bytes} bytes", asked.pointer)
        return Resource(url, content)


async def _url(endpoint: Any, place: str, asked: CallRequest, filling: Filling) -> str:
    """Return the URL of an endpoint."""
    uri = endpoint.get("uri") if isinstance(endpoint, dict) else endpoint
    deferred = asked.deferred
    if deferred is not None:
        if is_uri_template(uri):
            uri = filled_uri(uri, deferred.get("data"), asked.pointer)
        else:
            uri = await filling.filled(uri, f"{place}/uri" if isinstance(endpoint, dict) else place)
    if not isinstance(uri, str) or not uri.startswith(("http://", "https://", "file:")):
        raise fault(
            "configuration", f"a resource needs an http or https URL{asked.shown(uri)}", asked.pointer
        )
    return uri
