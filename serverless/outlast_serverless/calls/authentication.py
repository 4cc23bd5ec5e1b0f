"""Authentication of calls: basic, bearer and digest, and the tokens of OAuth 2.0 and OpenID Connect."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from outlast_serverless.calls.request import CallRequest, Filling
from outlast_serverless.interpreter.faults import fault
from outlast_serverless.plan.pointers import child

SCHEMES: Final = ("basic", "bearer", "digest", "oauth2", "oidc")
_TOKENS: Final = ("oauth2", "oidc")


class TokenSource(Protocol):
    """Where access tokens come from."""

    async def token(
        self, scheme: str, parameters: dict[str, Any], asked: CallRequest, filling: Filling
    ) -> tuple[str, str]:
        """Return an access token, and the key to forget it by."""
        ...

    def forget(self, key: str) -> None:
        """Forget a token that a server has refused."""
        ...


@dataclass(frozen=True, slots=True)
class Authentication:
    """How a call authenticates.

    Attributes:
        scheme: ``basic``, ``bearer`` or ``digest``.
        parameters: What the scheme needs, filled in.
        refused: Is called when a server answers that it does not accept it.
    """

    scheme: str
    parameters: dict[str, Any]
    refused: Callable[[], None] | None = None

    @property
    def authorization(self) -> dict[str, str] | None:
        """What ``$authorization`` is; nothing for digest, which the answer of the server decides."""
        if self.scheme == "bearer":
            return {"scheme": "Bearer", "parameter": str(self.parameters["token"])}
        if self.scheme == "basic":
            pair = f"{self.parameters['username']}:{self.parameters['password']}"
            return {"scheme": "Basic", "parameter": base64.b64encode(pair.encode()).decode()}
        return None


async def authentication(
    policy: Any, pointer: str, request: CallRequest, filling: Filling, tokens: TokenSource
) -> Authentication | None:
    """Return how a call authenticates.

    Args:
        policy: What is written under ``authentication``: a policy, the reference to one, or nothing.
        pointer: Where that stands.
        request: The call.
        filling: Fills in and fetches secrets.
        tokens: Where access tokens come from.

    Raises:
        Fault: There is no such policy, or something that it needs is not there.
    """
    if policy is None:
        return None
    if isinstance(policy, dict) and isinstance(policy.get("use"), str):
        name = policy["use"]
        policy, pointer = request.authentications.get(name), child("/use/authentications", name)
    scheme = next((one for one in SCHEMES if isinstance(policy, dict) and one in policy), None)
    if scheme is None:
        raise fault(
            "configuration", f"this is no authentication: there are {', '.join(SCHEMES)}", request.pointer
        )
    written, place = policy[scheme], f"{pointer}/{scheme}"
    if isinstance(written, dict) and isinstance(written.get("use"), str):
        found = await filling.secret(written["use"])
        parameters = {"token": found} if scheme == "bearer" and isinstance(found, str) else found
    else:
        parameters = await filling.filled(written, place)
    if scheme in _TOKENS:
        if not isinstance(parameters, dict):
            raise fault("configuration", f"{scheme} authentication needs an object", request.pointer)
        token, key = await tokens.token(scheme, parameters, request, filling)
        return Authentication("bearer", {"token": token}, lambda: tokens.forget(key))
    needed = ("token",) if scheme == "bearer" else ("username", "password")
    if not isinstance(parameters, dict) or any(parameters.get(name) is None for name in needed):
        raise fault("configuration", f"{scheme} authentication needs {' and '.join(needed)}", request.pointer)
    filling.masking.add(*(parameters[name] for name in needed if name != "username"))
    made = Authentication(scheme, parameters)
    if made.authorization is not None:
        filling.masking.add(made.authorization["parameter"])
    return made
