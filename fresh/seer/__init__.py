"""SEER: which recorded run is the best example for the step an agent is about to take.

Stepwise ExperiencE Recall (Cui et al., "Self-Guided Function Calling in Large Language Models via Stepwise
Experience Recall", arXiv 2508.15214, EMNLP 2025) keeps a growing pool of successful runs, ranks them anew at every step
by the similarity of the whole history, the tools called so far and the intent, and shows the best four as examples.

>>> pool = ExperiencePool(load_encoder())
>>> pool.add(runs)
>>> exemplars = pool.recall(History.live(parse_messages(messages)))
>>> exemplar_text(exemplars, budget=300)

:class:`ExperiencePool` is the method; :class:`SeerIndex` turns its scores into features of a graph's tasks.
"""

from fresh.seer.eviction import Eviction
from fresh.seer.experience import Experience, Step
from fresh.seer.index import SeerIndex
from fresh.seer.intent import Intents, LLMIntents, RuleIntents
from fresh.seer.pool import Exemplar, ExperiencePool, PoolSettings, succeeded
from fresh.seer.render import exemplar_text
from fresh.seer.storage import load_pool, save_pool
from fresh.seer.text import Situation, trajectory_text
from fresh.seer.weights import Score, Weights, learn_weights, same_writes

__all__ = [
    "Eviction",
    "Exemplar",
    "Experience",
    "ExperiencePool",
    "Intents",
    "LLMIntents",
    "PoolSettings",
    "RuleIntents",
    "Score",
    "SeerIndex",
    "Situation",
    "Step",
    "Weights",
    "exemplar_text",
    "learn_weights",
    "load_pool",
    "same_writes",
    "save_pool",
    "succeeded",
    "trajectory_text",
]
