"""What a DAG is, as data: the spec that building gives, that a run records and that the interpreter runs.

A spec is canonical JSON (:mod:`~outlast_dag.spec.writing`). :mod:`~outlast_dag.spec.reading` reads it into typed,
frozen objects: :class:`~outlast_dag.spec.dag.DagSpec`, its :mod:`nodes <outlast_dag.spec.nodes>`, their
:mod:`conditions <outlast_dag.spec.conditions>` and :mod:`values <outlast_dag.spec.values>`. Whether a spec makes sense
(timeouts, cycles) is asked elsewhere: a spec that a run has recorded is read as it is, by every later version.
"""
