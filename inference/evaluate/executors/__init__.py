"""The closed loop with a real language model behind an OpenAI-compatible endpoint, in the tau2-bench environments."""

from inference.evaluate.executors.advice import MemoryAdviser, SequenceNotes
from inference.evaluate.executors.agent import ChatModel, Executor, SlotFile
from inference.evaluate.executors.compare import Helpers, check_unseen, choose_tasks, run_arms
from inference.evaluate.executors.report import LoopReport
from inference.evaluate.executors.settings import Arm, LoopSettings, Protocol
from inference.evaluate.executors.user import ModelUser, ScriptedUser

__all__ = [
    "Arm",
    "ChatModel",
    "Executor",
    "Helpers",
    "LoopReport",
    "LoopSettings",
    "MemoryAdviser",
    "ModelUser",
    "Protocol",
    "ScriptedUser",
    "SequenceNotes",
    "SlotFile",
    "check_unseen",
    "choose_tasks",
    "run_arms",
]
