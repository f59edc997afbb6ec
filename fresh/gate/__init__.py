"""The gate in front of an agent's risky actions."""

from fresh.gate.decision import REFUSAL, Decision, Finding, Todo, Verdict
from fresh.gate.gate import Gate
from fresh.gate.settings import GateSettings

__all__ = ["REFUSAL", "Decision", "Finding", "Gate", "GateSettings", "Todo", "Verdict"]
