"""What the activity of a call or process is given, and how its arguments are filled in where secrets are in them."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from outlast_serverless.interpreter.faults import Fault, as_application_error, fault
from outlast_serverless.jq import Evaluator, ExpressionFailed
from outlast_serverless.plan.data import template
from outlast_serverless.plan.model import Constant, Expression, Value
from outlast_serverless.rules.jq_text import glance
from outlast_serverless.secrets import Masking, Secrets, SecretSource

_SECRET: Final = frozenset({"secrets", "authorization"})
"""The variables that hold secrets."""


@dataclass(frozen=True, slots=True)
class CallRequest:
    """One call or process.

    Attributes:
        pointer: The task that it is of.
        document: The document: ``namespace/name:version``.
        key: What tells this execution from all others.
        value: The arguments; ``None`` if they are filled in here.
        deferred: The arguments as they are written, and what their expressions see.
        secrets: The secrets that the document declares.
        authentications: The authentications that it defines.
        timeout: How many seconds it may take.
        awaits: Whether a process is waited for.
        returns: What of a process is the output.
        name: The name of the task.
    """

    pointer: str
    document: str
    key: str
    value: Any
    deferred: dict[str, Any] | None = None
    secrets: tuple[str, ...] = ()
    authentications: Mapping[str, Any] = field(default_factory=dict)
    timeout: float | None = None
    awaits: bool = True
    returns: str = "stdout"
    name: str = ""

    @classmethod
    def of(cls, request: dict[str, Any]) -> CallRequest:
        """Return the request that the interpreter made."""
        return cls(
            request["pointer"],
            request["document"],
            request["key"],
            request.get("value"),
            request.get("deferred"),
            tuple(request.get("secrets") or ()),
            request.get("authentications") or {},
            request.get("timeout"),
            request.get("await", True),
            request.get("return", "stdout"),
            request.get("name", ""),
        )

    @property
    def written(self) -> Any:
        """The arguments as far as they are known: as they are written, where they are filled in here."""
        return self.value if self.deferred is None else self.deferred.get("value")

    @property
    def place(self) -> str:
        """Where the arguments stand that are filled in here; empty where none are."""
        return "" if self.deferred is None else str(self.deferred.get("pointer", ""))

    def shown(self, value: Any) -> str:
        """Return the end of a message about a value that is no good; nothing where it may have a secret."""
        return "" if self.deferred is not None else f", not {value!r:.100}"


class Filling:
    """Fills in the arguments of one call, and fetches the secrets that it needs.

    Args:
        request: The call.
        evaluator: Evaluates expressions.
        source: Where secrets come from, if anywhere.

    Attributes:
        masking: Masks the secrets that were fetched.
    """

    def __init__(self, request: CallRequest, evaluator: Evaluator, source: SecretSource | None) -> None:
        self._request = request
        self._evaluator = evaluator
        self._source = source
        self._secrets: dict[str, Any] = {}
        self.masking = Masking()

    @contextmanager
    def telling(self) -> Generator[None]:
        """Let an error of the DSL leave the activity, without the values of secrets."""
        try:
            yield
        except Fault as error:
            raise as_application_error(Fault(self.masking.json(error.error))) from None

    async def arguments(self, **variables: Any) -> Any:
        """Return the arguments.

        Args:
            **variables: Further variables.

        Raises:
            Fault: An expression failed, or a secret is not there.
        """
        deferred = self._request.deferred
        if deferred is None:
            return self._request.value
        return await self.filled(deferred["value"], deferred["pointer"], **variables)

    async def filled(self, written: Any, pointer: str, **variables: Any) -> Any:
        """Return something that stands in the document with its expressions evaluated.

        Args:
            written: What is written.
            pointer: Where it stands.
            **variables: Further variables.

        Raises:
            Fault: An expression failed, or a secret is not there.
        """
        deferred = self._request.deferred or {}
        value = template(written, pointer, not deferred.get("strict", True))
        known: dict[str, Any] = {**(deferred.get("variables") or {}), **variables}
        known["secrets"] = await self.fetched(value)
        try:
            return self._evaluator.evaluate(value, deferred.get("data"), known, deferred.get("now", 0.0))
        except ExpressionFailed as error:
            told = self.told(error, value)
            raise fault("expression", f"{told} at {error.pointer}", self._request.pointer) from None

    def told(self, error: ExpressionFailed, value: Value) -> str:
        """Return what is told of an expression that failed. What jq says may have a part of a secret, or change it.

        Args:
            error: How it failed.
            value: What it stands in.
        """
        failed = next((one for one in _expressions(value) if one.pointer == error.pointer), None)
        if failed is None or _SECRET.isdisjoint(glance(failed.text).used):
            return self.masking.text(error.message)
        return f"`{failed.text:.100}`: it failed, and why is not told, since that may have a part of a secret"

    async def secret(self, name: str) -> Any:
        """Return a secret.

        Args:
            name: Its name.

        Raises:
            Fault: The document does not declare it, or it is not there.
        """
        if name not in self._secrets:
            if name not in self._request.secrets:
                raise fault(
                    "authorization", f"the document does not declare the secret {name}", self._request.pointer
                )
            found = None if self._source is None else await self._source.get(name)
            if found is None:
                why = self._missing(name)
                raise fault(
                    "authorization", f"the secret {name} cannot be used: {why}", self._request.pointer
                )
            self.masking.add(found)
            self._secrets[name] = found
        return self._secrets[name]

    def _missing(self, name: str) -> str:
        if self._source is None:
            return "the worker has none: give it `--secrets-env PREFIX`, or Runtime(secrets=…)"
        looked = f": {self._source.missing(name)}" if isinstance(self._source, Secrets) else ""
        return f"it is not there{looked}"

    async def fetched(self, value: Value) -> dict[str, Any]:
        """Return the secrets that expressions name; all that are declared where they take the whole.

        Args:
            value: What has expressions.

        Raises:
            Fault: The document does not declare one, or it is not there.
        """
        names: set[str] = set()
        for expression in _expressions(value):
            seen = glance(expression.text)
            named = {field for variable, field in seen.paths if variable == "secrets"}
            if "secrets" in seen.used:
                names |= named or set(self._request.secrets)
        return {name: await self.secret(name) for name in sorted(names)}


def _expressions(value: Value) -> tuple[Expression, ...]:
    if isinstance(value, Constant):
        return ()
    return (value,) if isinstance(value, Expression) else value.expressions
