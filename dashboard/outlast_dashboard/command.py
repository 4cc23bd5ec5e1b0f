"""``outlast ui``: serve the control plane, and manage its tokens."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Final

import typer

from outlast import Client
from outlast.cli.common.connection import with_client
from outlast.cli.common.exit_codes import CommandFailedError
from outlast.cli.common.options import AsJson, Codec, Url, database_url
from outlast.cli.common.output import document, show, table
from outlast_dashboard.app import control_plane
from outlast_dashboard.security.tokens import TokenFile
from outlast_dashboard.server import Server, proxies
from outlast_dashboard.settings import LOOPBACK_HOSTS, WebSettings
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import integer

DEFAULT_PORT: Final = 8420
NO_TOKENS: Final = (
    "without tokens only this machine has access: make one with `outlast ui token add NAME --tokens FILE`, "
    "and give --tokens FILE"
)

app = typer.Typer(
    help="Serve the dashboard and the HTTP control plane.",
    invoke_without_command=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
token = typer.Typer(help="Manage bearer tokens. The file keeps only their digests.", no_args_is_help=True)
app.add_typer(token, name="token")

Tokens = Annotated[
    Path,
    typer.Option("--tokens", envvar="OUTLAST_TOKENS", metavar="FILE", help="The file with the tokens."),
]


@app.callback()
def serve(
    context: typer.Context,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", help="The port to listen on; 0 for any free one.")
    ] = DEFAULT_PORT,
    host_name: Annotated[
        list[str] | None,
        typer.Option(
            "--host-name",
            metavar="NAME",
            help="A host name under which browsers reach it, besides localhost; repeatable.",
            show_default=False,
        ),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            "--tokens",
            envvar="OUTLAST_TOKENS",
            metavar="FILE",
            help="The file with the tokens.",
            show_default=False,
        ),
    ] = None,
    proxy_headers: Annotated[
        list[str] | None,
        typer.Option(
            "--proxy-headers",
            metavar="ADDRESS",
            help="Believe the X-Forwarded-For and -Proto of a proxy at this address or network; repeatable.",
            show_default=False,
        ),
    ] = None,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Serve the dashboard and the HTTP control plane until SIGINT or SIGTERM."""
    if context.invoked_subcommand is not None:
        return
    database_url(url)
    settings = _settings(host, port, host_name or [], TokenFile(tokens) if tokens is not None else ())
    trusted = proxies(proxy_headers or [])

    async def work(client: Client) -> None:
        server = Server(control_plane(client, settings), host, port, trusted_proxies=trusted)
        try:
            address = server.listen()
        except OSError as error:
            raise CommandFailedError(
                f"{host} port {port} cannot be listened on: {error.strerror}: choose another --port"
            ) from None
        if json:
            document({"event": "serving", "url": address})
        else:
            show(f"the dashboard is at {address}, the API at {address}/api (Ctrl-C stops it)")
        await server.serve()

    with_client(url, work, codec=codec)


def _settings(host: str, port: int, host_names: list[str], tokens: TokenFile | tuple[()]) -> WebSettings:
    """Return the settings: the tokens, and the host names that are served.

    Raises:
        InvalidOptionError: It would be served beyond this machine without tokens.
    """
    integer("port", port, 0, 65_535)
    if tokens == () and not _is_loopback(host):
        raise InvalidOptionError(
            f"host {host} can be reached from other machines, and {NO_TOKENS}", field="host"
        )
    names = [*LOOPBACK_HOSTS, *host_names]
    if host not in ("", "0.0.0.0", "::"):
        names.append(f"[{host}]" if ":" in host else host)
    return WebSettings(tokens=tokens, hosts=names)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@token.command("add")
def add(
    name: Annotated[str, typer.Argument(help="The token's name.", show_default=False)],
    tokens: Tokens,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            help="read, write (includes read and events:write), payloads or events:write; repeatable.",
            show_default=False,
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Make a token and print it, once: only its digest is kept. Without --scope it can only read."""
    secret = TokenFile(tokens).add(name, scope or ["read"])
    if json:
        document({"name": name, "token": secret})
    else:
        show(secret)


@token.command("list")
def list_(tokens: Tokens, json: AsJson = False) -> None:
    """List the tokens by name, with their scopes."""
    found = TokenFile(tokens).read()
    if json:
        for one in found:
            document({"name": one.name, "scopes": sorted(one.scopes)})
        return
    made = table("NAME", "SCOPES")
    for one in found:
        made.add_row(one.name, ", ".join(sorted(one.scopes)))
    show(made)


@token.command("remove")
def remove(
    name: Annotated[str, typer.Argument(help="The token's name.", show_default=False)],
    tokens: Tokens,
    json: AsJson = False,
) -> None:
    """Remove a token. Its sessions and streams end, also on servers that are running."""
    TokenFile(tokens).remove(name)
    if json:
        document({"name": name, "removed": True})
    else:
        show(f"removed the token {name}")
