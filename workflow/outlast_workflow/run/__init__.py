"""One run of a workflow's code: the machine, its calls and handlers, and replay."""
