"""Published packages behind the interface of this package's own memories.

Each is given the same items, keeps and finds them as it does, and what it finds is shown in the same words; so what is
compared is the package's memory, not its prompt. None is installed with the project: see ``docs/baselines.md``.
"""

from inference.baselines.adapters.langgraph_store import LangGraphStore
from inference.baselines.adapters.mem0_package import Mem0Package
from inference.baselines.adapters.mimir_package import MimirPackage
from inference.baselines.adapters.reasoning_bank_package import ReasoningBankPackage

__all__ = ["ADAPTERS", "LangGraphStore", "Mem0Package", "MimirPackage", "ReasoningBankPackage"]

ADAPTERS = (LangGraphStore, Mem0Package, MimirPackage, ReasoningBankPackage)
