"""The kinds of tasks: what each does, one module for each."""
