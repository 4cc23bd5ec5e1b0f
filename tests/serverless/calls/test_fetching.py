"""What documents fetch: functions of catalogs and at URLs, schemas and scripts; a run fetches the same thing once."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from fastapi import FastAPI, Request, Response
from tests.serverless.cases import HEAD, continue_everywhere, whole
from tests.serverless.server import serving

from outlast import Client, Worker
from outlast.errors import FaultedError, FaultedTimeoutError
from outlast_serverless import Document, HttpPolicy, ProcessPolicy, Runtime, Secrets
from outlast_serverless.interpreter.faults import BASE

Run: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]
TOKEN = "a-token-of-a-catalog"
DOUBLE = """
input: {schema: {document: {type: object, required: [n]}}}
output: {schema: {document: {type: object, required: [doubled]}}}
set: {doubled: '${ .n * 2 }'}
"""


class Texts:
    """A server that gives texts by their paths, and notes which ones."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.asked: list[str] = []
        self.authorizations: list[str | None] = []
        self.url = ""

    def mount(self, app: FastAPI) -> None:
        @app.get("/texts/{path:path}")
        async def text(request: Request, path: str) -> Response:
            self.asked.append(path)
            self.authorizations.append(request.headers.get("authorization"))
            found = self.texts.get(path)
            return Response("" if found is None else found, 404 if found is None else 200)


@pytest.fixture
async def texts() -> AsyncGenerator[Texts]:
    made = Texts()
    async with serving(made.mount) as server:
        made.url = f"{server.url}/texts"
        yield made


@pytest.fixture
def run(sqlite_url: str, texts: Texts) -> Run:
    """Runs a document whose `TEXTS` is the server, and returns its output. Its workflow is replayed at each task."""

    async def run(text: str, input: Any = None, check: bool = False, **options: Any) -> Any:
        document = Document.parse(whole(text.replace("TEXTS", texts.url)))
        policy = options.setdefault("http", HttpPolicy())
        assert isinstance(policy, HttpPolicy)
        async with (
            Client.connect(sqlite_url) as client,
            Runtime(client, secrets=Secrets.mapping({"token": TOKEN}), **options) as runtime,
            Worker(
                client,
                workflows=runtime.workflows,
                activities=runtime.activities,
                max_cached_workflows=0,
            ),
        ):
            return await (await runtime.start(document, input, check=check)).result(timeout=30)

    return run


async def fault(run: Run, *args: Any, **options: Any) -> dict[str, Any]:
    with pytest.raises(FaultedError) as caught:
        await run(*args, **options)
    return caught.value.error


def call(called: str, more: str = "", name: str = "c") -> str:
    return f"- {name}: {{call: '{called}', with: {{n: '${{ .n }}'}}{more}}}\n"


# --- where functions are ----------------------------------------------------------------------------------------------


async def test_a_function_at_a_url(run: Run, texts: Texts) -> None:
    texts.texts["double.yaml"] = DOUBLE
    assert await run(call("TEXTS/double.yaml"), {"n": 2}) == {"doubled": 4}


async def test_a_function_of_a_catalog(run: Run, texts: Texts) -> None:
    texts.texts["root/functions/double/1.0.0/function.yaml"] = DOUBLE
    use = "use: {catalogs: {global: {endpoint: TEXTS/root/}}}\ndo:\n"
    assert await run(use + call("double:1.0.0@global"), {"n": 3}) == {"doubled": 6}
    assert texts.asked == ["root/functions/double/1.0.0/function.yaml"]


@pytest.mark.parametrize("kind", ["url", "folder", "file"])
async def test_the_default_catalog(run: Run, texts: Texts, tmp_path: Path, kind: str) -> None:
    path = "functions/double/1.2.0-rc.1/function.yaml"
    texts.texts[f"root/{path}"] = DOUBLE
    file = tmp_path / "catalog" / path
    file.parent.mkdir(parents=True)
    file.write_text(DOUBLE)
    catalog = {
        "url": f"{texts.url}/root",
        "folder": tmp_path / "catalog",
        "file": f"file://{tmp_path}/catalog",
    }
    policy = HttpPolicy(files=(tmp_path,))
    text = call("double:1.2.0-rc.1@default")
    assert await run(text, {"n": 2}, catalog=catalog[kind], http=policy) == {"doubled": 4}
    other = await fault(run, call("other:1.0.0@default"), {"n": 2}, catalog=catalog[kind], http=policy)
    assert other["type"] == BASE + ("configuration" if kind == "folder" else "communication")
    assert "no default catalog" in (await fault(run, text, {"n": 2}))["detail"]
    use = "use: {catalogs: {default: {endpoint: TEXTS/root}}}\ndo:\n"
    assert await run(use + text, {"n": 4}) == {"doubled": 8}, "a document has one of its own"


@pytest.mark.parametrize("name", ["../x", "a/b", "..", ".a", "a%2fb", "ä"])
async def test_no_name_leads_out_of_a_catalog(run: Run, tmp_path: Path, name: str) -> None:
    error = await fault(run, call(f"{name}:1.0.0@default"), {"n": 1}, catalog=tmp_path)
    assert (error["type"], error["status"]) == (f"{BASE}configuration", 400)
    assert "is no name of a function" in error["detail"]


async def test_pages_of_repositories_are_read_as_raw_texts(run: Run, texts: Texts) -> None:
    texts.texts["o/r/refs/tags/v1/functions/double/1.0.0/function.yaml"] = DOUBLE
    policy = HttpPolicy(rewrite={"https://raw.githubusercontent.com": texts.url})
    use = "use: {catalogs: {c: {endpoint: 'https://github.com/o/r/tree/v1'}}}\ndo:\n"
    assert await run(use + call("double:1.0.0@c"), {"n": 1}, http=policy) == {"doubled": 2}
    assert texts.asked == [
        f"o/r/refs/{kind}/v1/functions/double/1.0.0/function.yaml" for kind in ("heads", "tags")
    ]


# --- once for a run ---------------------------------------------------------------------------------------------------


async def test_a_run_fetches_the_same_thing_once(
    run: Run, texts: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In loops, in branches and in another function; each workflow task replays the whole run."""
    monkeypatch.setattr("outlast_serverless.calls.resources._KEPT_S", 0)
    texts.texts["s"] = '{"type": "object"}'
    texts.texts["double.yaml"] = DOUBLE
    texts.texts["twice.yaml"] = f"do: [{{a: {{call: {texts.url}/double.yaml, with: {{n: '${{ .n }}'}}}}}}]"
    text = """do:
- loop:
    for: {in: '${ [1, 2, 3] }'}
    do:
    - w: {wait: PT0.01S}
    - a: {call: TEXTS/double.yaml, with: {n: '${ $item }'}, output: {schema: {resource: {endpoint: TEXTS/s}}}}
- both:
    fork:
      branches:
      - a: {call: TEXTS/double.yaml, with: {n: 10}}
      - b: {call: TEXTS/twice.yaml, with: {n: 20}}
      - c: {call: TEXTS/twice.yaml, with: {n: 30}}
"""
    assert await run(text) == [{"doubled": 20}, {"doubled": 40}, {"doubled": 60}]
    assert sorted(texts.asked) == ["double.yaml", "s", "twice.yaml"]


async def test_what_was_fetched_goes_with_a_run_that_continues_as_new(
    run: Run, texts: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the midst of a function."""
    continue_everywhere(monkeypatch)
    monkeypatch.setattr("outlast_serverless.calls.resources._KEPT_S", 0)
    texts.texts["f.yaml"] = "do: [{a: {set: '${ . + {a: $runtime.name} }'}}, {b: {set: '${ . + {b: 1} }'}}]"
    texts.texts["s"] = '{"type": "object"}'
    output = "output: {schema: {resource: {endpoint: TEXTS/s}}}"
    task = f"{{call: TEXTS/f.yaml, with: {{n: 1}}, {output}}}"
    text = f"{output}\ndo: [{{x: {task}}}, {{y: {task}}}]"
    assert await run(text) == {"n": 1, "a": "outlast", "b": 1}
    assert texts.asked == ["s", "f.yaml"]


async def test_what_was_fetched_stays_the_same_for_the_run(
    texts: Texts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast_serverless.calls.resources._KEPT_S", 0)
    texts.texts["f.yaml"] = "set: {v: 1}"
    texts.texts["s.json"] = '{"type": "object"}'
    text = """do:
- a: {call: TEXTS/f.yaml, output: {schema: {resource: {endpoint: TEXTS/s.json}}}}
- g: {listen: {to: {one: {with: {type: go}}}}}
- b: {call: TEXTS/f.yaml, output: {schema: {resource: {endpoint: TEXTS/s.json}}}}
"""
    document = Document.parse(whole(text.replace("TEXTS", texts.url)))
    async with Client.connect(f"sqlite:///{tmp_path}/w.db") as client, Runtime(client) as runtime:
        started = await runtime.start(document)
        async with Worker(client, workflows=runtime.workflows, activities=runtime.activities):
            while (state := await started.describe()).error is None:
                if any(one.kind == "listen" for one in state.open):
                    break
                await asyncio.sleep(0.01)
            assert state.error is None
        texts.texts["f.yaml"], texts.texts["s.json"] = "set: {v: 2}", "false"
        async with Worker(client, workflows=runtime.workflows, activities=runtime.activities):
            await started.publish({"id": "1", "source": "/t", "type": "go"})
            assert await started.result(timeout=30) == {"v": 1}
            again = await runtime.start(document)
            with pytest.raises(FaultedError, match="does not fit its schema"):
                await again.result(timeout=30)
    assert sorted(texts.asked) == ["f.yaml", "f.yaml", "s.json", "s.json"]


async def test_a_failed_fetch_is_tried_again_by_a_retry(run: Run, texts: Texts) -> None:
    retry = "catch: {do: [{s: {set: '${ $error.status }'}}]}"
    text = f"do: [{{t: {{try: [{call('TEXTS/f.yaml')[2:-1]}], {retry}}}}}, {{s: {{set: '${{ . }}'}}}}]"
    assert await run(text, {"n": 1}) == 404
    assert texts.asked == ["f.yaml"]


# --- what is wrong with functions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("[]", "it is no mapping"),
        ("a: [", "cannot be used: 1:"),
        ("set: {}\nwiat: PT1S", "[unknown_property] /wiat"),
        ("do:\n- a: {wait: PT0S}\n- a: {wait: PT1S}", "2:13: "),
        ("do:\n- a: {wait: PT0S}\n- a: {wait: PT1S}", "[duplicate_task]"),
        ("call: other", "[unknown_function] /call"),
        ("call: x:1.0.0@global", "[unknown_catalog] /call"),
        ("set: {v: '${ $secrets.token }'}", "[secret_recorded]"),
        (
            "call: http\nwith: {method: get, endpoint: 'http://x', headers: {a: '${ $secrets.token }'}}",
            "[unknown_secret]",
        ),
        ("set: {v: '${ .a | nothing }'}", "[invalid_expression] /set/v"),
        ("wait: PT1S\ntimeout: none", "[unknown_timeout] /timeout"),
        ("call: '${ .name }'", "cannot run here: /: which function is called must be written out"),
        ("#" + "x" * (256 << 10) + "\nset: {}", "more than 262144 bytes"),
    ],
)
async def test_all_that_is_wrong_with_a_function_is_told(
    run: Run, texts: Texts, function: str, why: str
) -> None:
    texts.texts["f.yaml"] = function
    error = await fault(run, call("TEXTS/f.yaml"), {"n": 1})
    assert why in error["detail"], error["detail"]
    assert error["instance"] == "/do/0/c"
    assert error["type"] == BASE + ("communication" if "bytes" in why else "configuration")


async def test_a_function_that_calls_itself_is_found_out(run: Run, texts: Texts) -> None:
    texts.texts["a.yaml"] = f"do: [{{b: {{call: {texts.url}/b.yaml}}}}]"
    texts.texts["b.yaml"] = f"do: [{{a: {{call: {texts.url}/a.yaml}}}}]"
    error = await fault(run, call("TEXTS/a.yaml"), {"n": 1})
    assert error["type"] == f"{BASE}configuration"
    assert "a.yaml calls itself" in error["detail"]
    assert error["instance"] == "/do/0/c"
    for number in range(40):
        texts.texts[f"{number}.yaml"] = f"do: [{{b: {{call: {texts.url}/{number + 1}.yaml}}}}]"
    assert "more than 32 functions" in (await fault(run, call("TEXTS/0.yaml"), {"n": 1}))["detail"]


@pytest.mark.parametrize(
    ("function", "kind", "status"),
    [
        (DOUBLE, "validation", 400),
        ("set: '${ error(1) }'", "expression", 400),
        ("do: [{a: {do: [{b: {raise: {error: {type: 'http://x/y', status: 418}}}}]}}]", "http://x/y", 418),
        ("output: {schema: {document: {type: string}}}\nset: {v: 1}", "validation", 400),
    ],
)
async def test_errors_inside_have_the_pointer_of_the_caller(
    run: Run, texts: Texts, function: str, kind: str, status: int
) -> None:
    texts.texts["f.yaml"] = function
    error = await fault(run, "do: [{c: {call: TEXTS/f.yaml, with: {x: 1}}}]")
    assert error["type"] in (kind, BASE + kind)
    assert (error["status"], error["instance"]) == (status, "/do/0/c")


async def test_a_function_has_a_scope_of_its_own(run: Run, texts: Texts) -> None:
    texts.texts["f.yaml"] = "set: {input: '${ . }', names: '${ [$task.name, $workflow.input.n] }'}"
    text = "do: [{l: {for: {in: '${ [7] }'}, do: [{c: {call: TEXTS/f.yaml, with: {x: '${ $item }'}}}]}}]"
    assert await run(text, {"n": 1}) == {"input": {"x": 7}, "names": [f"{texts.url}/f.yaml", 1]}
    texts.texts["g.yaml"] = "set: '${ $item }'"
    assert "there is no variable `$item`" in (await fault(run, text.replace("f.yaml", "g.yaml")))["detail"]


async def test_a_timeout_bounds_the_fetch_and_the_function(run: Run, texts: Texts) -> None:
    texts.texts["wait.yaml"] = "wait: '${ .d }'"
    fetched = "{b: {call: TEXTS/wait.yaml, with: {d: PT0.01S}}}"
    for text in (
        "do: [FETCHED, {c: {call: TEXTS/wait.yaml, with: {d: PT1H}, timeout: {after: PT0.3S}}}]".replace(
            "FETCHED", fetched
        ),
        "do: [{c: {call: SERVER/slow, timeout: {after: PT0.3S}}}]",
        "do: [{c: {timeout: {after: PT0.3S}, do: [{s: {set: {v: 1}, OUTPUT}}]}}]".replace(
            "OUTPUT", "output: {schema: {resource: {endpoint: SERVER/slow}}}"
        ),
    ):
        with pytest.raises(FaultedTimeoutError) as caught:
            await run(text.replace("SERVER", texts.url.removesuffix("/texts")))
        assert caught.value.error["instance"].endswith("/c")


# --- schemas ----------------------------------------------------------------------------------------------------------

SCHEMA = '{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}'


@pytest.mark.parametrize("place", ["input", "output", "export"])
@pytest.mark.parametrize("level", ["task", "workflow"])
async def test_a_schema_is_fetched(run: Run, texts: Texts, place: str, level: str) -> None:
    texts.texts["s"] = SCHEMA
    schema = (
        f"{place}: {{schema: {{resource: {{endpoint: TEXTS/s}}}}{', as: .' if place == 'export' else ''}}}"
    )
    task = "{a: {set: '${ . }'" + (f", {schema}" if level == "task" else "") + "}}"
    text = f"do: [{task}, {{b: {{wait: PT0.01S}}}}, {task.replace('{a:', '{c:')}]"
    if level == "workflow":
        if place == "export":
            return
        text = f"{schema}\n{text}"
    assert await run(text, {"n": 1}) == {"n": 1}
    assert texts.asked == ["s"]
    error = await fault(run, text, {"n": "x"})
    assert (error["type"], error["status"]) == (f"{BASE}validation", 400)
    assert error["instance"] == ("/do/0/a" if level == "task" else "/")
    assert "at /n" in error["detail"]


async def test_a_schema_is_yaml_and_of_a_draft(run: Run, texts: Texts) -> None:
    texts.texts["s"] = "items: [{type: string}]\n"
    text = "do: [{a: {set: '${ . }', input: {schema: {FORMATresource: {endpoint: TEXTS/s}}}}}]"
    assert (await fault(run, text.replace("FORMAT", ""), [1]))["type"] == f"{BASE}configuration"
    assert (await fault(run, text.replace("FORMAT", "format: 'json:draft-07', "), [1]))[
        "type"
    ] == f"{BASE}validation"
    assert await run(text.replace("FORMAT", "format: 'json:draft-07', "), ["a"]) == ["a"]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("[1]", "a JSON Schema is a mapping"),
        ('{"type": 3}', "cannot be used"),
        ('{"$ref": "http://127.0.0.1:1/other"}', "is not fetched"),
        ('{"$ref": "file:///etc/hostname"}', "is not fetched"),
        ("a: [", "cannot be read"),
        ('{"x": "' + "y" * (256 << 10) + '"}', "more than 262144 bytes"),
    ],
)
async def test_a_schema_that_cannot_be_used(run: Run, texts: Texts, schema: str, why: str) -> None:
    texts.texts["s"] = schema
    text = "do: [{a: {set: {n: 1}, output: {schema: {resource: {endpoint: TEXTS/s}}}}}]"
    error = await fault(run, text)
    assert why in error["detail"], error["detail"]
    assert error["instance"] == "/do/0/a"


async def test_nothing_is_done_whose_output_cannot_be_checked(run: Run, texts: Texts) -> None:
    server = texts.url.removesuffix("/texts")
    call = f"call: http, with: {{method: post, endpoint: {server}/texts/post}}"
    await fault(run, f"do: [{{a: {{{call}, output: {{schema: {{resource: {{endpoint: TEXTS/none}}}}}}}}}}]")
    assert texts.asked == ["none"]


async def test_where_a_schema_is_may_depend_on_the_input_of_the_workflow(run: Run, texts: Texts) -> None:
    texts.texts["a"] = texts.texts["b"] = SCHEMA
    text = (
        "do: [{s: {set: {n: 1, which: none}}}, "
        "{x: {set: '${ . }', input: {schema: {resource: {endpoint: 'TEXTS/{which}'}}}}}, "
        "{y: {set: '${ . }', input: {schema: {resource: {endpoint: '${ \"TEXTS/\" + $workflow.input.other }'}}}}}]"
    )
    await run(text, {"which": "a", "other": "b"})
    assert texts.asked == ["a", "b"]


async def test_an_input_is_checked_by_a_fetched_schema_before_the_start(
    texts: Texts, sqlite_url: str
) -> None:
    texts.texts["s"] = SCHEMA
    endpoint = "{uri: TEXTS/s, authentication: {bearer: {token: '${ $secrets.token }'}}}"
    text = f"""
use: {{secrets: [token]}}
input: {{schema: {{resource: {{endpoint: {endpoint.replace("TEXTS", texts.url)}}}}}}}
do: [{{a: {{set: '${{ . }}'}}}}]
"""
    document = Document.parse(HEAD + text)
    async with (
        Client.connect(sqlite_url) as client,
        Runtime(client, secrets=Secrets.mapping({"token": TOKEN})) as runtime,
    ):
        with pytest.raises(FaultedError, match="does not fit its schema at /n"):
            await runtime.start(document, {"n": "x"}, check=True)
        texts.texts.clear()
        with pytest.raises(FaultedError, match="answered 404"):
            await runtime.start(document, {"n": 1}, check=True)
        assert await client.count() == 0
        assert texts.authorizations == [f"Bearer {TOKEN}"] * 2
        texts.texts["s"] = SCHEMA
        await runtime.start(document, {"n": 1}, check=True)
        await runtime.start(document, {"n": "x"})
        assert await client.count() == 2


# --- authentication and scripts ---------------------------------------------------------------------------------------


async def test_what_is_fetched_authenticates_and_no_secret_is_written(texts: Texts, tmp_path: Path) -> None:
    texts.texts["root/functions/double/1.0.0/function.yaml"] = DOUBLE
    texts.texts["s"] = "true"
    texts.texts["script.py"] = "print('ran')"
    endpoint = "{uri: TEXTS/PATH, authentication: {use: named}}"
    text = f"""
use:
  secrets: [token]
  authentications: {{named: {{bearer: {{token: '${{ $secrets.token }}'}}}}}}
  catalogs: {{c: {{endpoint: {endpoint.replace("PATH", "root")}}}}}
do:
- a:
    call: double:1.0.0@c
    with: {{n: 1}}
    output: {{schema: {{resource: {{endpoint: {endpoint.replace("PATH", "s")}}}}}}}
- b: {{run: {{script: {{language: python, source: {{endpoint: {endpoint.replace("PATH", "script.py")}}}}}}}}}
""".replace("TEXTS", texts.url)
    folder = tmp_path / "db"
    folder.mkdir()
    async with (
        Client.connect(f"sqlite:///{folder}/w.db") as client,
        Runtime(
            client,
            secrets=Secrets.mapping({"token": TOKEN}),
            processes=ProcessPolicy(scripts={"python": [sys.executable]}),
        ) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        run = await runtime.start(Document.parse(HEAD + text))
        assert await run.result(timeout=30) == "ran\n"
    assert texts.authorizations == [f"Bearer {TOKEN}"] * 3
    assert TOKEN.encode() not in b"".join(file.read_bytes() for file in folder.iterdir())


async def test_calls_that_authenticate_see_the_workflow(run: Run, texts: Texts) -> None:
    """Also the definition, which history has once, if they name it."""
    texts.texts["x"] = "ok"
    password = '${ [$workflow.input.n, $task.name, ($workflow | .definition.document.name)] | join("-") }'
    endpoint = f"{{uri: TEXTS/x, authentication: {{basic: {{username: u, password: '{password}'}}}}}}"
    await run(f"do: [{{c: {{call: http, with: {{method: get, endpoint: {endpoint}}}}}}}]", {"n": "1"})
    assert texts.authorizations == ["Basic " + base64.b64encode(b"u:1-c-a").decode()]


async def test_a_script_is_fetched_if_it_may_run(run: Run, texts: Texts) -> None:
    texts.texts["s.py"] = "import sys; print(sys.argv[1:])"
    arguments = "arguments: {a: 1, yes: true, no: false, none: null, text: x y}"
    text = f"do: [{{a: {{run: {{script: {{language: python, source: {{endpoint: TEXTS/s.py}}, {arguments}}}}}}}}}]"
    error = await fault(run, text)
    assert "not allowed here" in error["detail"]
    assert not texts.asked
    policy = ProcessPolicy(scripts={"python": [sys.executable]})
    assert await run(text, processes=policy) == "['--a', '1', '--yes', '--text', 'x y']\n"
    texts.texts["s.py"] = "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")
    assert await fault(run, text.replace("s.py", "none"), processes=policy)


async def test_the_policy_holds_for_all_that_is_fetched(run: Run, texts: Texts) -> None:
    policy = {
        "http": HttpPolicy(deny_private=True),
        "processes": ProcessPolicy(scripts={"python": ["python3"]}),
    }
    for text in (
        "do: [{a: {call: TEXTS/f.yaml}}]",
        "use: {catalogs: {c: {endpoint: TEXTS}}}\ndo: [{a: {call: 'f:1.0.0@c'}}]",
        "do: [{a: {call: 'f:1.0.0@default'}}]",
        "do: [{a: {set: {v: 1}, input: {schema: {resource: {endpoint: TEXTS/s}}}}}]",
        "do: [{a: {run: {script: {language: python, source: {endpoint: TEXTS/s}}}}}]",
        "do: [{a: {call: 'file:///etc/hostname'}}]",
    ):
        error = await fault(run, text, catalog=texts.url, **policy)
        assert (error["type"], error["status"]) == (f"{BASE}authorization", 403), text
    assert not texts.asked
