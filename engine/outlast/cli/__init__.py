"""The command line: ``outlast``. One module a group of commands; see ``docs/cli.md``."""
