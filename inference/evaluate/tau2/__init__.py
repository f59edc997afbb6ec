"""A simulated executor in the tau2-bench environments: recording its runs, and measuring what a gate is worth."""

from inference.evaluate.tau2.ablation import PartialGate, without_check
from inference.evaluate.tau2.closed_loop import ClosedLoopReport, compare, errors_alone, run_closed_loop
from inference.evaluate.tau2.environment import DOMAINS, load_domain
from inference.evaluate.tau2.record import Recording, record_runs
from inference.evaluate.tau2.settings import ErrorKind, Settings, load_settings

__all__ = [
    "DOMAINS",
    "ClosedLoopReport",
    "ErrorKind",
    "PartialGate",
    "Recording",
    "Settings",
    "compare",
    "errors_alone",
    "load_domain",
    "load_settings",
    "record_runs",
    "run_closed_loop",
    "without_check",
]
