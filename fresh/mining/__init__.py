"""Mining: runs to a typed graph of what worked, what failed, why, and what resolved it.

Data kept in a node beside its text, by type:

========== ==========================================================================================
Task       ``domain``; ``tools``, the tool sequences of its successful runs
Tool       ``effect``, ``purpose``, ``parameters``
Action     ``arguments``: for each path its ``sources`` ``[[origin, count], ...]`` and ``choices``; ``effect``
Observation ``fields``
Error      ``message``
Precondition ``condition`` (see `fresh.conditions`), ``support``, ``confidence``, ``lift``, ``necessity``, ``caught``
Repair     ``kind``, ``arguments``, ``tool``, ``message``
========== ==========================================================================================
"""

from fresh.mining.credit import Credit, CreditedCall, credit_run, is_gold
from fresh.mining.miner import EffectResolver, MiningSettings, mine, reduce_evidence
from fresh.mining.preconditions import Thresholds

__all__ = [
    "Credit",
    "CreditedCall",
    "EffectResolver",
    "MiningSettings",
    "Thresholds",
    "credit_run",
    "is_gold",
    "mine",
    "reduce_evidence",
]
