"""Building a DAG: with :class:`~outlast_dag.build.builder.DagBuilder`, or by tracing a function.

Both fill a :class:`~outlast_dag.build.draft.Draft`, which :mod:`~outlast_dag.build.compiling` turns into a spec. What
is wrong is kept until then, so that all of it is told at once.
"""
