"""ExpG: what each tool can do, how it fails and how to call it, learnt from recorded calls (arXiv 2608.03403).

Acquisition (:class:`RuleEvaluator`, or a language model), distillation (:func:`distil`) and reuse
(:func:`apply_guidance`) work on their own and as part of a memory.

Names are imported when they are first used, so that the command line starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fresh.expg.classes import EquivalenceClass, partition
    from fresh.expg.distillation import Distilled, DistilSettings, Summariser, distil
    from fresh.expg.evaluate import Evaluator, RuleEvaluator
    from fresh.expg.experience import ASPECTS, PERFECT, Aspect, AspectGroup, Experience, Invocation, Judgement, Party
    from fresh.expg.extract import ExtractiveSummariser
    from fresh.expg.guidance import Advice, Constraint, ToolGuidance
    from fresh.expg.reuse import apply_guidance
    from fresh.expg.select import allocate, quota, select_experiences
    from fresh.expg.shapes import ResponseShapes, collect_shapes
    from fresh.expg.stats import FEATURE_NAMES, ClassStatistics, class_statistics, is_stable
    from fresh.expg.store import ExperienceStore

__all__ = [
    "ASPECTS",
    "FEATURE_NAMES",
    "PERFECT",
    "Advice",
    "Aspect",
    "AspectGroup",
    "ClassStatistics",
    "Constraint",
    "DistilSettings",
    "Distilled",
    "EquivalenceClass",
    "Evaluator",
    "Experience",
    "ExperienceStore",
    "ExtractiveSummariser",
    "Invocation",
    "Judgement",
    "Party",
    "ResponseShapes",
    "RuleEvaluator",
    "Summariser",
    "ToolGuidance",
    "allocate",
    "apply_guidance",
    "class_statistics",
    "collect_shapes",
    "distil",
    "is_stable",
    "partition",
    "quota",
    "select_experiences",
]

_MODULES = {
    "ASPECTS": "experience",
    "Advice": "guidance",
    "Aspect": "experience",
    "AspectGroup": "experience",
    "ClassStatistics": "stats",
    "Constraint": "guidance",
    "DistilSettings": "distillation",
    "Distilled": "distillation",
    "EquivalenceClass": "classes",
    "Evaluator": "evaluate",
    "Experience": "experience",
    "ExperienceStore": "store",
    "ExtractiveSummariser": "extract",
    "FEATURE_NAMES": "stats",
    "Invocation": "experience",
    "Judgement": "experience",
    "PERFECT": "experience",
    "Party": "experience",
    "ResponseShapes": "shapes",
    "RuleEvaluator": "evaluate",
    "Summariser": "distillation",
    "ToolGuidance": "guidance",
    "allocate": "select",
    "apply_guidance": "reuse",
    "class_statistics": "stats",
    "collect_shapes": "shapes",
    "distil": "distillation",
    "is_stable": "stats",
    "partition": "classes",
    "quota": "select",
    "select_experiences": "select",
}


def __getattr__(name: str) -> Any:
    """Imports a public name from its module; module-level ``__getattr__`` of PEP 562."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_MODULES[name]}")
    found = getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
