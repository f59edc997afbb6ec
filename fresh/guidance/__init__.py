"""Guidance for an agent's next step: Do, Avoid, Check, Repair."""

from fresh.guidance.guide import Guide
from fresh.guidance.lines import Guidance, Line, Section, estimate_tokens
from fresh.guidance.ranking import HeuristicRanker, Ranker
from fresh.guidance.settings import GuidanceSettings

__all__ = [
    "Guidance",
    "GuidanceSettings",
    "Guide",
    "HeuristicRanker",
    "Line",
    "Ranker",
    "Section",
    "estimate_tokens",
]
