"""``outlast demo``, whose options the demonstration parses itself."""

from __future__ import annotations

import typer

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(
    add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def demo(context: typer.Context) -> None:
    """Import 50,000 rows, kill a worker half-way, and watch another one finish."""
    from outlast.demo.main import main

    try:
        main(context.args)
    except SystemExit as end:
        code = end.code
    else:
        code = 0
    raise typer.Exit(code if isinstance(code, int) else 1)
