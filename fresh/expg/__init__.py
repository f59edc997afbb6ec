"""ExpG: what each tool can do, how it fails and how to call it, learnt from recorded calls (arXiv 2608.03403).

Acquisition (:class:`RuleEvaluator`, or a language model), distillation (:func:`distil`) and reuse
(:func:`apply_guidance`) work on their own and as part of a memory.
"""

from fresh.expg.distil import Distilled, DistilSettings, Summariser, distil
from fresh.expg.evaluate import Evaluator, RuleEvaluator
from fresh.expg.experience import ASPECTS, PERFECT, Aspect, AspectGroup, Experience, Invocation, Judgement, Party
from fresh.expg.extract import ExtractiveSummariser
from fresh.expg.guidance import Advice, Constraint, ToolGuidance
from fresh.expg.partition import EquivalenceClass, partition
from fresh.expg.reuse import apply_guidance
from fresh.expg.select import allocate, quota, select
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
    "select",
]
