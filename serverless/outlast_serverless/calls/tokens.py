"""Tokens of OAuth 2.0 and OpenID Connect: asked for, kept in memory until they expire, never written."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections import OrderedDict
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

import orjson

from outlast_serverless.calls.http import FORM, in_time, made
from outlast_serverless.calls.policy import HttpPolicy
from outlast_serverless.calls.request import CallRequest, Filling
from outlast_serverless.interpreter.data_flow import filled_uri
from outlast_serverless.interpreter.faults import Fault, fault

_MOST_KEPT: Final = 256
_EARLY_S: Final = 30.0
_UNSAID_S: Final = 60.0
"""How long a token is kept whose server does not say how long it is good."""
_ASSERTED: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_WELL_KNOWN: Final = "/.well-known/openid-configuration"


class Tokens:
    """Gets access tokens. Those of one client and grant are asked for once until they expire.

    Args:
        policy: What may be called.
    """

    def __init__(self, policy: HttpPolicy) -> None:
        self._policy = policy
        self._kept: OrderedDict[str, tuple[float, str]] = OrderedDict()
        self._asking: dict[str, asyncio.Lock] = {}

    async def token(
        self, scheme: str, parameters: dict[str, Any], asked: CallRequest, filling: Filling
    ) -> tuple[str, str]:
        """Return an access token, and the key to forget it by.

        Args:
            scheme: ``oauth2`` or ``oidc``.
            parameters: What stands under it, filled in.
            asked: The call that needs it.
            filling: Knows what is to be masked.

        Raises:
            Fault: There is none.
        """
        client: dict[str, Any] = parameters.get("client") or {}
        subject: dict[str, Any] = parameters.get("subject") or {}
        actor: dict[str, Any] = parameters.get("actor") or {}
        filling.masking.add(
            *(
                one
                for one in (
                    client.get("secret"),
                    client.get("assertion"),
                    parameters.get("password"),
                    subject.get("token"),
                    actor.get("token"),
                )
                if one
            )
        )
        key = hashlib.sha256(orjson.dumps([scheme, parameters], option=orjson.OPT_SORT_KEYS)).hexdigest()
        lock = self._asking.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                found = self._kept.get(key)
                if found is None or found[0] <= _now():
                    found = self._kept[key] = await self._asked_for(scheme, parameters, asked, filling)
                    if len(self._kept) > _MOST_KEPT:
                        self._kept.popitem(last=False)
        finally:
            if not lock.locked():
                self._asking.pop(key, None)
        filling.masking.add(found[1])
        return found[1], key

    def forget(self, key: str) -> None:
        """Forget a token that a server has refused."""
        self._kept.pop(key, None)

    async def _asked_for(
        self, scheme: str, parameters: dict[str, Any], asked: CallRequest, filling: Filling
    ) -> tuple[float, str]:
        """Ask for a token; return until when it is good, and the token."""
        endpoint = await self._endpoint(scheme, parameters, asked, filling)
        pairs = _grant(parameters, asked)
        headers, pairs = _authenticated(parameters.get("client") or {}, endpoint, pairs, asked)
        encoding = (parameters.get("request") or {}).get("encoding", FORM)
        body: Any = urlencode(pairs)
        if encoding != FORM:
            body = {name: value for name, value in pairs if name != "audience"}
            audiences = [value for name, value in pairs if name == "audience"]
            if audiences:
                body["audience"] = audiences
        answer = await self._content(
            {
                "method": "post",
                "endpoint": endpoint,
                "headers": {**headers, "content-type": encoding, "accept": "application/json"},
                "body": body,
            },
            asked,
            filling,
        )
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(token, str) or not token:
            raise fault("authentication", f"{endpoint} answered without an access token", asked.pointer)
        filling.masking.add(token)
        issuers = parameters.get("issuers")
        if issuers and _issuer(token) not in issuers:
            raise fault(
                "authentication",
                f"the token is of the issuer {_issuer(token)!r:.200}, which `issuers` does not name",
                asked.pointer,
            )
        lifetime = answer.get("expires_in")
        good = float(lifetime) - _EARLY_S if isinstance(lifetime, int | float) else _UNSAID_S
        return _now() + good, token

    async def _endpoint(
        self, scheme: str, parameters: dict[str, Any], asked: CallRequest, filling: Filling
    ) -> str:
        """Return where tokens are asked for."""
        authority = parameters.get("authority")
        if not isinstance(authority, str) or not authority:
            raise fault("configuration", f"{scheme} authentication needs an authority", asked.pointer)
        data = (asked.deferred or {}).get("data")
        authority = str(filled_uri(authority, data, asked.pointer)).rstrip("/")
        if scheme == "oauth2":
            path = str((parameters.get("endpoints") or {}).get("token") or "/oauth2/token")
            return f"{authority}/{path.lstrip('/')}"
        url = authority + _WELL_KNOWN
        told = await self._content({"method": "get", "endpoint": url}, asked, filling)
        endpoint = told.get("token_endpoint") if isinstance(told, dict) else None
        if not isinstance(endpoint, str):
            raise fault("configuration", f"{url} names no token_endpoint", asked.pointer)
        return endpoint

    async def _content(self, arguments: dict[str, Any], asked: CallRequest, filling: Filling) -> Any:
        call = made({**arguments, "redirect": True}, None, asked)
        try:
            return await in_time(asked, self._policy, filling, call)
        except Fault as error:
            status = error.error.get("status")
            if (
                isinstance(status, int)
                and 400 <= status < 500
                and error.error["type"].endswith("communication")
            ):
                detail = f"no token was given: {error.error.get('detail')}"
                raise fault("authentication", detail, asked.pointer) from None
            raise


def _now() -> float:
    return asyncio.get_running_loop().time()


def _grant(parameters: dict[str, Any], asked: CallRequest) -> list[tuple[str, str]]:
    """Return what a token is asked for with, but for the client."""
    grant = str(parameters.get("grant"))
    subject: dict[str, Any] = parameters.get("subject") or {}
    actor: dict[str, Any] = parameters.get("actor") or {}
    needed: dict[str, Any] = {}
    if grant == "password":
        needed = {"username": parameters.get("username"), "password": parameters.get("password")}
    elif grant == "refresh_token":
        needed = {"refresh_token": subject.get("token")}
    elif grant == "authorization_code":
        needed = {"code": subject.get("token")}
    elif grant == _EXCHANGE:
        needed = {"subject_token": subject.get("token"), "subject_token_type": subject.get("type")}
        if actor:
            needed |= {"actor_token": actor.get("token"), "actor_token_type": actor.get("type")}
    elif grant != "client_credentials":
        raise fault("configuration", f"the grant {grant!r:.100} cannot be used", asked.pointer)
    for name, value in needed.items():
        if not value:
            where = name if grant == "password" else f"{name.partition('_')[0]} (`subject` or `actor`)"
            raise fault("configuration", f"the grant {grant} needs {where}", asked.pointer)
    pairs = [("grant_type", grant), *((name, str(value)) for name, value in needed.items())]
    if parameters.get("scopes"):
        pairs.append(("scope", " ".join(map(str, parameters["scopes"]))))
    pairs += [("audience", str(one)) for one in parameters.get("audiences") or ()]
    return pairs


def _authenticated(
    client: dict[str, Any], endpoint: str, pairs: list[tuple[str, str]], asked: CallRequest
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the headers and what is asked with, once the client has authenticated."""
    method, id, secret = (
        client.get("authentication", "client_secret_post"),
        client.get("id"),
        client.get("secret"),
    )
    if not id and method != "none":
        raise fault("configuration", f"the client needs an id for {method}", asked.pointer)
    if method in ("client_secret_jwt", "private_key_jwt"):
        assertion = client.get("assertion")
        if not assertion:
            if not secret:
                raise fault("configuration", f"the client needs an assertion for {method}", asked.pointer)
            # Signing takes long to import, and few documents need it.
            from outlast_serverless.calls.signing import signed

            try:
                assertion = signed(method, str(secret), str(id), endpoint)
            except ValueError:
                raise fault(
                    "configuration", f"the client's secret is no key for {method}", asked.pointer
                ) from None
        named = [("client_id", str(id))] if id else []
        return {}, [
            *pairs,
            *named,
            ("client_assertion_type", _ASSERTED),
            ("client_assertion", str(assertion)),
        ]
    if not id:
        return {}, pairs
    if method == "client_secret_post":
        return {}, [*pairs, ("client_id", str(id)), *([("client_secret", str(secret))] if secret else [])]
    if method == "none":
        return {}, [*pairs, ("client_id", str(id))]
    pair = f"{quote_plus(str(id))}:{quote_plus(str(secret or ''))}"
    return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}, pairs


def _issuer(token: str) -> Any:
    """Return the issuer that a token names, if it is a JWT. Its own server gave it, so nothing is verified."""
    try:
        payload = token.split(".")[1]
        claims = orjson.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError):
        return None
    return claims.get("iss") if isinstance(claims, dict) else None
