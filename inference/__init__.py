"""A frozen memory in front of an agent.

>>> from inference import load
>>> memory = load("checkpoints/sample")
>>> guidance = memory.guide(messages, tools=tools)
>>> decision = memory.gate(tool_call, messages, tools=tools)
"""

from inference.guarded import GuardedStep, corrected, guarded_step, offered
from inference.memory import FrozenMemory, load

__all__ = ["FrozenMemory", "GuardedStep", "corrected", "guarded_step", "load", "offered"]
