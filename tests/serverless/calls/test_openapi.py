"""`call: openapi`: which request an operation becomes, and what is told where it becomes none."""

from __future__ import annotations

import textwrap
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.serverless.calls.test_http import Run, fault, run, server
from tests.serverless.server import Server

from outlast_serverless import HttpPolicy
from outlast_serverless.calls.described import DescriptionError
from outlast_serverless.calls.openapi.description import Description
from outlast_serverless.calls.openapi.requests import arguments_of

__all__ = ["run", "server"]

URL = "https://a.example.com/v1/openapi.json"


def operation(parameters: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Return the request of an operation `o` with parameters, whose values are in them."""
    given = {one["name"]: one.pop("value") for one in parameters if "value" in one} | more.pop("given", {})
    path = more.pop("path", "/p")
    head = {"swagger": "2.0", "host": "h"} if more.pop("old", False) else {"openapi": "3.1.0"}
    found = {"operationId": "o", "parameters": parameters, **more}
    described = Description({**head, "paths": {path: {"post": found}}}, URL)
    return arguments_of(described.operation("o"), given)


ARRAY, OBJECT = ["blue", "black"], {"R": 100, "G": 200}


@pytest.mark.parametrize(
    ("style", "explode", "value", "expected"),
    [
        ("simple", False, "a/b c", "a%2Fb%20c"),
        ("simple", False, ARRAY, "blue,black"),
        ("simple", True, ARRAY, "blue,black"),
        ("simple", False, OBJECT, "R,100,G,200"),
        ("simple", True, OBJECT, "R=100,G=200"),
        ("label", False, "x", ".x"),
        ("label", True, ARRAY, ".blue.black"),
        ("label", False, ARRAY, ".blue,black"),
        ("label", True, OBJECT, ".R=100.G=200"),
        ("matrix", False, "x", ";c=x"),
        ("matrix", False, ARRAY, ";c=blue,black"),
        ("matrix", True, ARRAY, ";c=blue;c=black"),
        ("matrix", False, OBJECT, ";c=R,100,G,200"),
        ("matrix", True, OBJECT, ";R=100;G=200"),
        ("simple", False, True, "true"),
        ("simple", False, 1.5, "1.5"),
    ],
)
def test_a_path_is_filled_in_by_style(style: str, explode: bool, value: Any, expected: str) -> None:
    one = {"name": "c", "in": "path", "style": style, "explode": explode, "value": value}
    assert operation([one], path="/x/{c}/y")["endpoint"] == f"https://a.example.com/x/{expected}/y"


@pytest.mark.parametrize(
    ("how", "value", "expected"),
    [
        ({}, ARRAY, "c=blue&c=black"),
        ({"explode": False}, ARRAY, "c=blue,black"),
        ({}, OBJECT, "R=100&G=200"),
        ({"explode": False}, OBJECT, "c=R,100,G,200"),
        ({"style": "spaceDelimited"}, ARRAY, "c=blue%20black"),
        ({"style": "pipeDelimited"}, ARRAY, "c=blue|black"),
        ({"style": "deepObject", "explode": True}, OBJECT, "c[R]=100&c[G]=200"),
        ({"content": {"application/json": {}}}, {"a": 1}, "c=%7B%22a%22%3A1%7D"),
        ({}, "a&b=c", "c=a%26b%3Dc"),
        ({}, "", "c="),
    ],
)
def test_a_query_is_written_by_style(how: dict[str, Any], value: Any, expected: str) -> None:
    assert (
        operation([{"name": "c", "in": "query", **how, "value": value}])["endpoint"].partition("?")[2]
        == expected
    )


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        (None, "c=blue,black"),
        ("csv", "c=blue,black"),
        ("ssv", "c=blue%20black"),
        ("tsv", "c=blue%09black"),
        ("pipes", "c=blue|black"),
        ("multi", "c=blue&c=black"),
    ],
)
def test_a_query_of_2_0_is_written_by_collection_format(format: str | None, expected: str) -> None:
    how = {} if format is None else {"collectionFormat": format}
    made = operation([{"name": "c", "in": "query", **how, "value": ARRAY}], old=True)
    assert made["endpoint"] == f"https://h/p?{expected}"


def test_headers_and_cookies() -> None:
    made = operation(
        [
            {"name": "X-A", "in": "header", "value": ARRAY},
            {"name": "X-O", "in": "header", "explode": True, "value": OBJECT},
            {"name": "k", "in": "cookie", "value": "a b"},
            {"name": "l", "in": "cookie", "value": 2},
            {"name": "unset", "in": "header", "value": None},
        ]
    )
    assert made["headers"] == {"X-A": "blue,black", "X-O": "R=100,G=200", "cookie": "k=a%20b; l=2"}
    assert made["body"] is None


def test_what_is_no_parameter_is_the_body() -> None:
    body: dict[str, Any] = {"requestBody": {"content": {"text/plain": {}, "application/json": {}}}}
    query = {"name": "q", "in": "query"}
    made = operation([query], given={"q": 1, "a": 2, "b": 3}, **body)
    assert (made["body"], made["headers"]) == ({"a": 2, "b": 3}, {"content-type": "application/json"})
    assert operation([], given={"body": [1]}, **body)["body"] == [1]
    assert operation([], given={"body": [1], "x": 1}, **body)["body"] == {"body": [1], "x": 1}
    form: dict[str, Any] = {"requestBody": {"content": {"application/x-www-form-urlencoded": {}}}}
    assert operation([], given={"a": 1}, **form)["headers"]["content-type"].endswith("urlencoded")
    old = operation([{"name": "pet", "in": "body", "value": {"id": 1}}], old=True)
    assert old["body"] == {"id": 1}
    fields = operation([{"name": "f", "in": "formData", "value": 1}], old=True)
    assert (fields["body"], fields["headers"]["content-type"]) == (
        {"f": 1},
        "application/x-www-form-urlencoded",
    )


@pytest.mark.parametrize(
    ("parameters", "more", "why"),
    [
        ([{"name": "c", "in": "path"}], {"path": "/{c}"}, "needs the parameter 'c' (path)"),
        ([{"name": "c", "in": "query", "required": True}], {}, "needs the parameter 'c' (query)"),
        ([{"name": "colour", "in": "query"}], {"given": {"color": 1}}, "did you mean 'colour'?"),
        ([], {"given": {"x": 1}}, "it takes none"),
        ([], {"path": "/{d}"}, "which no parameter describes"),
        ([], {"requestBody": {"required": True, "content": {}}}, "needs a body"),
        (
            [],
            {"requestBody": {"content": {"image/png": {}}}, "given": {"body": 1}},
            "only JSON, forms and text",
        ),
        ([{"$ref": "#/components/parameters/gone"}], {}, "which it does not have"),
        ([{"$ref": "other.json#/x"}], {}, "is not fetched"),
    ],
)
def test_what_does_not_fit_is_told(parameters: list[dict[str, Any]], more: dict[str, Any], why: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        operation(parameters, **more)
    assert why in str(caught.value)


YAML = """
openapi: 3.0.3
servers: [{url: "{base}/v2/", variables: {base: {default: /api}}}]
paths:
  /pets/{id}:
    parameters: [{$ref: '#/components/parameters/id'}]
    get: {operationId: getPet, parameters: [{name: id, in: path, style: label}]}
    put: {operationId: putPet, servers: [{url: 'https://b.example.com'}]}
components: {parameters: {id: {name: id, in: path, required: true}}}
"""


def test_a_description_is_yaml_and_refers_to_itself() -> None:
    described = Description.parse(YAML.encode(), URL)
    get = arguments_of(described.operation("getPet"), {"id": 7})
    assert get["endpoint"] == "https://a.example.com/api/v2/pets/.7"
    put = arguments_of(described.operation("putPet"), {"id": 7})
    assert (put["endpoint"], put["method"]) == ("https://b.example.com/pets/7", "put")
    with pytest.raises(DescriptionError, match="did you mean 'getPet'"):
        described.operation("getPets")


@pytest.mark.parametrize("text", ["[]", "{", "openapi: 4.0.0", '{"swagger": 2}', "a: &a [*a]", "\x00"])
def test_what_is_no_description_is_refused(text: str) -> None:
    with pytest.raises(DescriptionError):
        Description.parse(text.encode(), URL)


PLAIN = st.text(min_size=1, max_size=8) | st.integers(-(2**63), 2**64 - 1) | st.booleans()


@given(st.dictionaries(st.text(min_size=1, max_size=6), PLAIN, max_size=4))
def test_no_value_leaves_its_place_in_the_query(values: dict[str, Any]) -> None:
    parameters = [{"name": name, "in": "query", "value": value} for name, value in values.items()]
    query = urlsplit(operation(parameters)["endpoint"]).query
    told = {
        name: value if isinstance(value, str) else orjson.dumps(value).decode()
        for name, value in values.items()
    }
    assert dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(values))) == told


# --- against a server -------------------------------------------------------------------------------------------------

CALL = """- c:
    call: openapi
    with:
      document: {endpoint: 'SERVER/described/{which}'}
      operationId: say
      parameters: {word: "${ .word }", n: "${ .n }"}
      output: content
"""


async def test_an_operation_is_called(run: Run, server: Server) -> None:
    twice = CALL + CALL.replace("- c:", "- d:").replace("${ .word }", "${ $workflow.input.word }").replace(
        "${ .n }", "${ 5 }"
    ).replace("{which}", "json")
    said = await run(twice, {"word": "a b", "n": 3, "which": "json"})
    assert (said["method"], said["path"], said["body"]) == ("POST", "/echo/a b", '{"n":5}')
    paths = [one["path"] for one in server.seen]
    assert paths == ["/described/json", "/echo/a b", "/echo/a b"], "a description is kept for a while"
    said = await run(CALL, {"word": "x", "n": 1, "which": "yaml"})
    assert said["path"] == "/echo/x"


async def test_an_operation_authenticates(run: Run, server: Server) -> None:
    text = textwrap.dedent(
        """\
        use: {secrets: [token]}
        do:
          - c:
              call: openapi
              with:
                document: {endpoint: {uri: "SERVER/described/json", authentication: {bearer: {token: abc}}}}
                operationId: say
                parameters: {word: "${ $secrets.token | length | tostring }"}
                authentication: {bearer: {token: "${ $secrets.token }"}}
        """
    )
    said = await run(text)
    assert said["path"] == "/echo/21"
    assert [one["headers"]["authorization"] for one in server.seen] == [
        "Bearer abc",
        "Bearer tok-en/with=odd~chars",
    ]


@pytest.mark.parametrize(
    ("change", "kind", "why"),
    [
        (("operationId: say", "operationId: sya"), "configuration", "did you mean 'say'"),
        (('"${ .word }"', "null"), "configuration", "needs the parameter 'word'"),
        (("{which}", "nothing"), "communication", "answered 404"),
        (("described/{which}", "content/text"), "configuration", "no description of OpenAPI"),
    ],
)
async def test_a_fault_says_why(run: Run, change: tuple[str, str], kind: str, why: str) -> None:
    error = await fault(run, CALL.replace(*change), {"word": "w", "which": "json"})
    assert error["type"].endswith(kind), error
    assert why in error["detail"]
    assert error["instance"] == "/do/0/c"


async def test_the_policy_holds_for_descriptions_too(run: Run) -> None:
    error = await fault(run, CALL, {"which": "json"}, policy=HttpPolicy(deny_private=True))
    assert error["status"] == 403
