"""The gate in front of an agent's risky actions."""

from fresh.gate.audit import AuditLog
from fresh.gate.decision import REFUSAL, Decision, Evidence, Finding, GuardState, Mode, State, Todo, Verdict
from fresh.gate.gate import Gate
from fresh.gate.policy import Policy, PolicyRule, load_policy
from fresh.gate.settings import GateSettings

__all__ = [
    "REFUSAL",
    "AuditLog",
    "Decision",
    "Evidence",
    "Finding",
    "Gate",
    "GateSettings",
    "GuardState",
    "Mode",
    "Policy",
    "PolicyRule",
    "State",
    "Todo",
    "Verdict",
    "load_policy",
]
