"""How a DAG runs: the pure core, and the workflow around it.

:mod:`~outlast_dag.run.progress` decides, from outcomes alone, what starts, what is cancelled and how the DAG ends.
:mod:`~outlast_dag.run.interpreter` is the workflow that carries that out. Both are version 1 of the interpreter: what
they decide for a spec never changes, because runs have recorded it.
"""
