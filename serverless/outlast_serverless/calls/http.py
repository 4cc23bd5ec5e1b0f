"""``call: http``: one request, its redirects, and what of the answer is the output."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote, urlencode

import httpx2
import orjson

from outlast import activity
from outlast_serverless.calls.authentication import Authentication, TokenSource, authentication
from outlast_serverless.calls.heartbeats import beating
from outlast_serverless.calls.policy import DeniedError, HttpPolicy
from outlast_serverless.calls.request import CallRequest, Filling
from outlast_serverless.calls.tls import tls_context
from outlast_serverless.interpreter.data_flow import filled_uri
from outlast_serverless.interpreter.faults import fault
from outlast_serverless.jq import Evaluator
from outlast_serverless.plan.templates import is_uri_template
from outlast_serverless.secrets import SecretSource

_MOST_REDIRECTS: Final = 20
FORM: Final = "application/x-www-form-urlencoded"
_SAFE: Final = frozenset({"GET", "HEAD"})
_SENSITIVE: Final = frozenset({"authorization", "cookie", "proxy-authorization"})


@dataclass(frozen=True, slots=True)
class HttpCall:
    """A request that is ready to be sent.

    Attributes:
        method: The method.
        url: The URL.
        headers: The headers.
        content: The body.
        output: ``content``, ``raw`` or ``response``.
        redirect: Whether redirects are followed, and an answer of 3xx is no error.
        authentication: How it authenticates.
    """

    method: str
    url: str
    headers: dict[str, str]
    content: bytes | None
    output: str
    redirect: bool
    authentication: Authentication | None


def http_activity(
    evaluator: Evaluator, secrets: SecretSource | None, policy: HttpPolicy, tokens: TokenSource
) -> Any:
    """Return the activity of ``call: http``.

    Args:
        evaluator: Evaluates expressions.
        secrets: Where secrets come from.
        policy: What may be called.
        tokens: Where access tokens come from.
    """

    @activity.defn(name="serverless.http")
    async def http(request: dict[str, Any]) -> Any:
        asked = CallRequest.of(request)
        filling = Filling(asked, evaluator, secrets)
        with filling.telling():
            call = await _prepared(asked, filling, tokens)
            return await in_time(asked, policy, filling, call)

    return http


async def in_time(asked: CallRequest, policy: HttpPolicy, filling: Filling, call: HttpCall) -> Any:
    """Send a request and return the output, within the time of the policy; beat the heart meanwhile.

    Args:
        asked: The call.
        policy: What may be called.
        filling: Knows what is to be masked.
        call: The request.

    Raises:
        Fault: It was not answered, or not with success.
    """
    headers, answer = await answered(asked, policy, filling, call)
    return _output(filling, call, headers, answer)


async def answered(
    asked: CallRequest, policy: HttpPolicy, filling: Filling, call: HttpCall
) -> tuple[Mapping[str, str], httpx2.Response]:
    """Send a request and return the headers that were sent and the answer, within the time of the policy.

    Args:
        asked: The call.
        policy: What may be called.
        filling: Knows what is to be masked.
        call: The request.

    Raises:
        Fault: It was not answered, or not with success.
    """
    try:
        async with beating(asked.timeout), asyncio.timeout(policy.timeout):
            return await _sent(asked, policy, filling, call)
    except TimeoutError:
        detail = f"{call.method} {_shown(call.url)} was not answered within {policy.timeout:g} s"
        raise fault("communication", filling.masking.text(detail), asked.pointer, status=504) from None


async def _prepared(asked: CallRequest, filling: Filling, tokens: TokenSource) -> HttpCall:
    given, place = asked.written, asked.place
    if not isinstance(given, dict):
        raise fault("configuration", "the arguments of the call are no object", asked.pointer)
    endpoint = given.get("endpoint")
    policy = endpoint.get("authentication") if isinstance(endpoint, dict) else None
    known = await authentication(policy, f"{place}/endpoint/authentication", asked, filling, tokens)
    if asked.deferred is not None:
        # The policy is not part of what is filled in: it was, above.
        uri: Any = endpoint["uri"] if isinstance(endpoint, dict) else endpoint
        written = {**given, "endpoint": uri}
        variables = (
            {} if known is None or known.authorization is None else {"authorization": known.authorization}
        )
        arguments = await filling.filled(written, place, **variables)
        if is_uri_template(uri):
            filled = filled_uri(uri, asked.deferred.get("data"), asked.pointer)
            arguments = {**arguments, "endpoint": filled}
    else:
        arguments = asked.value
    return made(arguments, known, asked)


def made(arguments: dict[str, Any], known: Authentication | None, asked: CallRequest) -> HttpCall:
    """Return the request that arguments describe.

    Args:
        arguments: What stands under ``with``, filled in.
        known: How it authenticates.
        asked: The call.

    Raises:
        Fault: It describes none.
    """
    endpoint = arguments.get("endpoint")
    url = endpoint.get("uri") if isinstance(endpoint, dict) else endpoint
    headers = {str(name).lower(): scalar(value) for name, value in (arguments.get("headers") or {}).items()}
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise fault(
            "configuration", f"the endpoint must be an http or https URL{asked.shown(url)}", asked.pointer
        )
    query = arguments.get("query")
    if query:
        if not isinstance(query, dict):
            raise fault("configuration", "the query must be an object", asked.pointer)
        pairs = [
            (name, scalar(one))
            for name, value in query.items()
            if value is not None
            for one in (value if isinstance(value, list) else [value])
        ]
        before, hash_, fragment = url.partition("#")
        url = f"{before}{'&' if '?' in before else '?'}{urlencode(pairs)}{hash_}{fragment}"
    content = _content(arguments.get("body"), headers)
    if known is not None and known.authorization is not None:
        headers.setdefault(
            "authorization", f"{known.authorization['scheme']} {known.authorization['parameter']}"
        )
    return HttpCall(
        str(arguments.get("method", "get")).upper(),
        url,
        headers,
        content,
        str(arguments.get("output", "content")),
        arguments.get("redirect") is True,
        known,
    )


def _content(body: Any, headers: dict[str, str]) -> bytes | None:
    if body is None:
        return None
    kind = headers.get("content-type", "")
    if kind.startswith(FORM) and isinstance(body, dict):
        return urlencode({name: scalar(value) for name, value in body.items()}).encode()
    if isinstance(body, str) and kind and "json" not in kind:
        return body.encode()
    headers.setdefault("content-type", "application/json")
    return orjson.dumps(body)


def idempotency_key(asked: CallRequest) -> str:
    """Return what tells a call from all others, in characters that a header may have."""
    return quote(asked.key, safe="/:#=,")


def encoded(headers: Mapping[str, str]) -> dict[bytes, bytes]:
    """Return headers as they are sent: what is not ASCII as UTF-8."""
    return {name.encode(): value.encode() for name, value in headers.items()}


def scalar(value: Any) -> str:
    """Return a value as it stands in a header, a query or a form."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


async def _sent(
    asked: CallRequest, policy: HttpPolicy, filling: Filling, call: HttpCall
) -> tuple[Mapping[str, str], httpx2.Response]:
    """Send a request and follow its redirects, each of which is looked at by the policy."""
    headers = dict(call.headers)
    if policy.idempotency_key and call.method not in _SAFE:
        headers.setdefault("idempotency-key", idempotency_key(asked))
    method, url, content = call.method, policy.rewritten(call.url), call.content
    async with httpx2.AsyncClient(
        verify=tls_context(), trust_env=False, timeout=None, follow_redirects=False
    ) as client:
        for _ in range(_MOST_REDIRECTS):
            answer = await _once(asked, policy, filling, client, method, url, headers, content, call)
            following = answer.headers.get("location")
            if not (call.redirect and answer.is_redirect and following):
                _check_status(asked, filling, call, answer)
                return headers, answer
            before = httpx2.URL(url)
            try:
                target = httpx2.URL(policy.rewritten(str(before.join(following))))
            except httpx2.InvalidURL as error:
                told = filling.masking.text(f"{call.method} {_shown(url)} redirects to no URL: {error}")
                raise fault("communication", told, asked.pointer) from None
            url = str(target)
            if answer.status_code == 303 or (answer.status_code in (301, 302) and method == "POST"):
                method, content = "GET", None
                headers.pop("content-type", None)
            if not _trusted(target, before):
                # What was meant for one host is not told to another, and not in the clear.
                headers = {
                    name: value
                    for name, value in headers.items()
                    if name not in _SENSITIVE and not filling.masking.finds(value)
                }
                if content is not None and filling.masking.finds(content.decode(errors="replace")):
                    told = (
                        f"{call.method} {_shown(call.url)} redirects to another origin, {_shown(url)}, "
                        "which is not told the secrets in the body"
                    )
                    raise fault("communication", filling.masking.text(told), asked.pointer)
                call = replace(call, authentication=None)
    raise fault("communication", f"more than {_MOST_REDIRECTS} redirects", asked.pointer)


async def _once(
    asked: CallRequest,
    policy: HttpPolicy,
    filling: Filling,
    client: httpx2.AsyncClient,
    method: str,
    url: str,
    headers: Mapping[str, str],
    content: bytes | None,
    call: HttpCall,
) -> httpx2.Response:
    """Send one request to the address that was looked at, under the name that was asked for."""
    shown = filling.masking.text(_shown(url))
    try:
        target = httpx2.URL(url)
        if target.scheme not in ("http", "https") or not target.host:
            raise fault("configuration", f"{shown} is no http or https URL", asked.pointer)
        address = await policy.address(target.host, _origin(target)[2])
        request = client.build_request(
            method,
            target.copy_with(host=str(address)),
            headers=encoded({"host": target.netloc.decode("ascii"), **headers}),
            content=content,
            extensions={"sni_hostname": target.host},
        )
        auth = None
        if call.authentication is not None and call.authentication.scheme == "digest":
            given = call.authentication.parameters
            auth = httpx2.DigestAuth(str(given["username"]), str(given["password"]))
        answer = await client.send(request, stream=True, auth=auth)
        try:
            body = bytearray()
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > policy.max_response_bytes:
                    raise fault(
                        "communication",
                        f"{method} {shown} answered with more than {policy.max_response_bytes} bytes",
                        asked.pointer,
                    )
        finally:
            await answer.aclose()
    except DeniedError as error:
        raise fault("authorization", str(error), asked.pointer) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        why = filling.masking.text(str(error)) or type(error).__name__
        raise fault("communication", f"{method} {shown} was not answered: {why}", asked.pointer) from None
    return httpx2.Response(answer.status_code, headers=_plain(answer.headers), content=bytes(body))


def _trusted(target: httpx2.URL, before: httpx2.URL) -> bool:
    """Return whether what was meant for one URL may be told to another: the same origin, or its https."""
    upgraded = ("http", before.host, 80, "https", before.host, 443)
    return _origin(target) == _origin(before) or (*_origin(before), *_origin(target)) == upgraded


def _origin(url: httpx2.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)


def _plain(headers: httpx2.Headers) -> list[tuple[str, str]]:
    """Return the headers of an answer whose body was decoded already."""
    return [
        (name, value)
        for name, value in headers.items()
        if name not in ("content-encoding", "transfer-encoding")
    ]


def _check_status(asked: CallRequest, filling: Filling, call: HttpCall, answer: httpx2.Response) -> None:
    """Raise the error that an answer is."""
    status = answer.status_code
    if status == 401 and call.authentication is not None and call.authentication.refused is not None:
        call.authentication.refused()
    if not (200 <= status < 300 or (call.redirect and 300 <= status < 400)):
        shown = filling.masking.text(_shown(call.url))
        # What is cut has no part of a secret at its end.
        told = filling.masking.text(answer.text)[:500] if answer.content else ""
        detail = f"{call.method} {shown} answered {status}" + (f": {told}" if told else "")
        raise fault("communication", detail, asked.pointer, status=status, title=answer.reason_phrase or None)


def _output(filling: Filling, call: HttpCall, headers: Mapping[str, str], answer: httpx2.Response) -> Any:
    if call.output == "raw":
        return base64.b64encode(answer.content).decode()
    content = _read(answer)
    if call.output == "content":
        return content
    masking = filling.masking
    return {
        "request": {
            "method": call.method.lower(),
            "uri": masking.text(call.url),
            "headers": masking.json(dict(headers)),
        },
        "statusCode": answer.status_code,
        "headers": dict(answer.headers),
        "content": content,
    }


def _read(answer: httpx2.Response) -> Any:
    """Return the content of an answer: JSON by its type, text, or Base64 of what is neither."""
    if not answer.content:
        return None
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        try:
            return orjson.loads(answer.content)
        except orjson.JSONDecodeError:
            return answer.text
    if (
        kind.startswith("text/")
        or kind in ("", "application/xml", "application/yaml")
        or kind.endswith("+xml")
    ):
        try:
            return answer.content.decode(answer.encoding or "utf-8")
        except (UnicodeDecodeError, LookupError):
            pass
    return base64.b64encode(answer.content).decode()


def _shown(url: str) -> str:
    """Return a URL without user, password and query."""
    target = url.partition("#")[0].partition("?")[0]
    scheme, _, rest = target.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
