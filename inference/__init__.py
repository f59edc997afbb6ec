"""A frozen memory in front of an agent.

>>> from inference import load
>>> memory = load("checkpoints/sample")
>>> guidance = memory.guide(messages, tools=tools)
>>> decision = memory.gate(tool_call, messages, tools=tools)
"""

from inference.memory import FrozenMemory, load

__all__ = ["FrozenMemory", "load"]
