"""Rules on what is named: timeouts, retries, errors, functions, authentications, catalogs, secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from semver import Version

from outlast_serverless.plan.durations import LOOKS_ISO
from outlast_serverless.plan.kinds import PROTOCOLS, is_url
from outlast_serverless.plan.pointers import child, keys
from outlast_serverless.plan.templates import wrapped
from outlast_serverless.rules.finding import Finding, Names, meant, quoted
from outlast_serverless.rules.subject import Subject, mapping

SCHEMES: Final = ("basic", "bearer", "digest", "oauth2", "oidc")


def check_references(subject: Subject) -> Iterator[Finding]:
    """Yield what is named and is not there, and what is there and is not named."""
    return _References(subject).check()


class _References:
    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.used: set[tuple[str, str]] = set()
        self.callable = Names([*subject.names("functions"), *PROTOCOLS])

    def check(self) -> Iterator[Finding]:
        definition = self.subject.definition
        yield from self._timeout(definition.get("timeout"), "/timeout")
        for task in self.subject.tasks:
            yield from self._timeout(task.value.get("timeout"), f"{task.pointer}/timeout")
            if task.kind == "try":
                yield from self._named(
                    "retries",
                    "unknown_retry",
                    "retry policy",
                    mapping(task.value, "catch").get("retry"),
                    f"{task.pointer}/catch/retry",
                )
            elif task.kind == "raise":
                yield from self._named(
                    "errors",
                    "unknown_error",
                    "error",
                    mapping(task.value, "raise").get("error"),
                    f"{task.pointer}/raise/error",
                )
            elif task.kind == "call":
                yield from self._call(task.value["call"], f"{task.pointer}/call")
        yield from self._authentications(definition, "")
        yield from self._circles()
        yield from self._unused()

    def _named(self, kind: str, code: str, what: str, name: Any, pointer: str) -> Iterator[Finding]:
        if not isinstance(name, str):
            return
        names = self.subject.names(kind)
        self.used.add((kind, name))
        if name not in names:
            yield Finding(
                code,
                pointer,
                f"there is no {what} {quoted(name)} in use.{kind}",
                meant(name, names, f"define it under use.{kind}, or write it here"),
            )

    def _timeout(self, timeout: Any, pointer: str) -> Iterator[Finding]:
        if not isinstance(timeout, str):
            return
        if timeout not in self.subject.component("timeouts") and LOOKS_ISO.fullmatch(timeout):
            yield Finding(
                "unknown_timeout",
                pointer,
                f"a text here names a timeout of use.timeouts, and none is named {quoted(timeout)}",
                f"did you mean `timeout: {{after: {timeout}}}`?",
            )
            return
        yield from self._named("timeouts", "unknown_timeout", "timeout", timeout, pointer)

    def _call(self, called: Any, pointer: str) -> Iterator[Finding]:
        if not isinstance(called, str) or called in PROTOCOLS or is_url(called) or wrapped(called):
            return
        functions = self.subject.names("functions")
        if called in functions or "@" not in called:
            self.used.add(("functions", called))
            if called not in functions:
                yield Finding(
                    "unknown_function",
                    pointer,
                    f"there is no function {quoted(called)} in use.functions",
                    meant(
                        called,
                        self.callable,
                        "define it under use.functions, or name it as name:version@catalog",
                    ),
                )
            return
        function, _, catalog = called.rpartition("@")
        name, _, version = function.partition(":")
        if not name or not _is_version(version):
            yield Finding(
                "catalog_function",
                pointer,
                f"{quoted(function)} names no function of a catalog",
                "write it as name:version@catalog, with a semantic version",
            )
        self.used.add(("catalogs", catalog))
        catalogs = self.subject.component("catalogs")
        if catalog not in catalogs and catalog != "default":
            yield Finding(
                "unknown_catalog",
                pointer,
                f"there is no catalog {quoted(catalog)} in use.catalogs",
                meant(catalog, [*catalogs, "default"], "define it under use.catalogs"),
            )

    def _authentications(self, value: Any, pointer: str) -> Iterator[Finding]:
        """Look into every authentication, wherever it stands."""
        if isinstance(value, list):
            for index, inner in enumerate(value):
                yield from self._authentications(inner, child(pointer, index))
        elif isinstance(value, dict):
            for key, inner in value.items():
                place = child(pointer, key)
                if pointer == "/use" and key == "authentications" and isinstance(inner, dict):
                    for name, policy in inner.items():
                        yield from self._policy(policy, child(place, name))
                elif key == "authentication" and isinstance(inner, dict):
                    yield from self._policy(inner, place)
                elif key not in ("set", "metadata", "document", "data", "body"):
                    yield from self._authentications(inner, place)

    def _policy(self, policy: Any, pointer: str) -> Iterator[Finding]:
        if not isinstance(policy, dict):
            return
        yield from self._named(
            "authentications", "unknown_authentication", "authentication", policy.get("use"), f"{pointer}/use"
        )
        secrets = self.subject.secrets
        for scheme in SCHEMES:
            secret = mapping(policy, scheme).get("use")
            if isinstance(secret, str):
                self.used.add(("secrets", secret))
                if secret not in secrets:
                    yield Finding(
                        "unknown_secret",
                        f"{pointer}/{scheme}/use",
                        f"there is no secret {quoted(secret)} in use.secrets",
                        meant(secret, secrets, "name it under use.secrets"),
                    )

    def _circles(self) -> Iterator[Finding]:
        functions = self.subject.component("functions")
        calls: dict[str, set[str]] = {name: set() for name in functions}
        for task in self.subject.tasks:
            called = task.value.get("call")
            if task.kind == "call" and isinstance(called, str) and called in functions:
                place = keys(task.pointer)
                if place[:2] == ["use", "functions"]:
                    calls[place[2]].add(called)
        for name in functions:
            seen: set[str] = set()
            waiting = list(calls[name])
            while waiting:
                one = waiting.pop()
                if one not in seen:
                    seen.add(one)
                    waiting += calls[one]
            if name in seen:
                yield Finding(
                    "recursive_function",
                    child("/use/functions", name),
                    f"the function {quoted(name)} calls itself",
                    "use a loop, or a workflow of its own",
                    key=True,
                )

    def _unused(self) -> Iterator[Finding]:
        for kind in ("timeouts", "retries", "errors", "functions", "authentications", "catalogs"):
            for name in self.subject.component(kind):
                if (kind, name) not in self.used:
                    yield Finding(
                        "unused_component",
                        child("/use", kind, name),
                        f"nothing uses {quoted(name)}",
                        "remove it, or name it where it is meant",
                        key=True,
                    )


def _is_version(text: str) -> bool:
    return len(text) <= 200 and Version.is_valid(text)
