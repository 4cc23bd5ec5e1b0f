"""The command line: ``holdfast``. One module a group of commands; see ``docs/cli.md``."""
