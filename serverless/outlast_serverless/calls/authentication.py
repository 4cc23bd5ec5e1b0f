"""Authentication of calls: basic, bearer and digest."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Final

from outlast_serverless.calls.request import CallRequest, Filling
from outlast_serverless.interpreter.faults import fault
from outlast_serverless.plan.pointers import child

SCHEMES: Final = ("basic", "bearer", "digest")


@dataclass(frozen=True, slots=True)
class Authentication:
    """How a call authenticates.

    Attributes:
        scheme: ``basic``, ``bearer`` or ``digest``.
        parameters: What the scheme needs, filled in.
    """

    scheme: str
    parameters: dict[str, Any]

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
    policy: Any, pointer: str, request: CallRequest, filling: Filling
) -> Authentication | None:
    """Return how a call authenticates.

    Args:
        policy: What is written under ``authentication``: a policy, the reference to one, or nothing.
        pointer: Where that stands.
        request: The call.
        filling: Fills in and fetches secrets.

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
        raise fault("configuration", "this authentication cannot be used here yet", request.pointer)
    written, place = policy[scheme], f"{pointer}/{scheme}"
    if isinstance(written, dict) and isinstance(written.get("use"), str):
        found = await filling.secret(written["use"])
        parameters = {"token": found} if scheme == "bearer" and isinstance(found, str) else found
    else:
        parameters = await filling.filled(written, place)
    needed = ("token",) if scheme == "bearer" else ("username", "password")
    if not isinstance(parameters, dict) or any(parameters.get(name) is None for name in needed):
        raise fault("configuration", f"{scheme} authentication needs {' and '.join(needed)}", request.pointer)
    filling.masking.add(*(parameters[name] for name in needed if name != "username"))
    made = Authentication(scheme, parameters)
    if made.authorization is not None:
        filling.masking.add(made.authorization["parameter"])
    return made
