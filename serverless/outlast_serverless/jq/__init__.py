"""Expressions: jq, as deterministic code that can neither hang nor harm the process that asks."""

from outlast_serverless.jq.checker import JqChecker
from outlast_serverless.jq.evaluator import Evaluator
from outlast_serverless.jq.programs import ExpressionFailed

__all__ = ["Evaluator", "ExpressionFailed", "JqChecker"]
