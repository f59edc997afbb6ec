"""The gate on recorded runs: by kind of mistake, by guard, over thresholds, and on tools of another domain."""

from inference.evaluate.gate.curve import Curve, draw_curves, make_curve
from inference.evaluate.gate.judging import Judged, cross_judge, data_set, format_of, judge_runs
from inference.evaluate.gate.report import GateReport, gate_table, report_each, summarise
from inference.evaluate.gate.run import Evaluation, cross_validate, evaluate_gate, read_runs
from inference.evaluate.gate.solutions import Label, Solutions
from inference.evaluate.gate.transfer import Transfer, measure_transfer

__all__ = [
    "Curve",
    "Evaluation",
    "GateReport",
    "Judged",
    "Label",
    "Solutions",
    "Transfer",
    "cross_judge",
    "cross_validate",
    "data_set",
    "draw_curves",
    "evaluate_gate",
    "format_of",
    "gate_table",
    "judge_runs",
    "make_curve",
    "measure_transfer",
    "read_runs",
    "report_each",
    "summarise",
]
