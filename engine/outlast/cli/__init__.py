"""The command line, ``outlast``: one module for each group of commands. ``docs/cli.md`` describes them."""
