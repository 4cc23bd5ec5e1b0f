"""``outlast demo``."""

from __future__ import annotations

import typer


def demo(context: typer.Context) -> None:
    """Import 50,000 rows, kill a worker half-way, watch another one finish."""
    from outlast.demo.main import main

    try:
        main(context.args)
    except SystemExit as end:
        code = end.code
    else:
        code = 0
    raise typer.Exit(code if isinstance(code, int) else 1)
