"""The user of a run: scripted from the task's scenario, or played by a model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fresh.mining.patterns import in_words
from fresh.values import identifiers_in, normalise, scalars
from inference.evaluate.executors.agent import ChatModel
from inference.evaluate.tau2.plan import first_person

if TYPE_CHECKING:
    from tau2.data_model.tasks import Action, Task

STOP = "###STOP###"
"""How tau2's users end a conversation."""

_ASKS_CONSENT = re.compile(
    r"yes/no|yes or no|\bconfirm|\bproceed|\bgo ahead|\bshall i\b|\bshould i\b|\bwould you like (?:me )?to\b"
    r"|\bdo you want (?:me )?to\b|\bis (?:this|that|it) (?:correct|right|ok)|\bare you sure\b|\bdo you agree\b",
    re.IGNORECASE,
)
_BETWEEN = 12
"""Characters that can stand between an argument's name and its value, as in ``order id is now #R12``."""


@dataclass(frozen=True)
class Words:
    """What the user says.

    Attributes:
        text: The words.
        ends: The user hangs up after them.
    """

    text: str
    ends: bool = False


class User(Protocol):
    """Whoever the executor talks to."""

    def opening(self) -> str:
        """The first words."""

    def reply(self, history: Sequence[Mapping[str, Any]], waiting: Sequence[Action]) -> Words:
        """What the user says to the executor's last words.

        Args:
            history: The conversation, the executor's words last.
            waiting: Gold writes that have not been made yet.
        """


@dataclass(frozen=True)
class Scenario:
    """A task's scenario in the first person: why the user calls, who they are, and the rest."""

    request: str
    identity: str
    details: str

    @classmethod
    def of(cls, task: Task) -> Scenario:
        """Reads a task."""
        instructions = task.user_scenario.instructions
        if isinstance(instructions, str):
            return cls(first_person(instructions), "", "")
        parts = (instructions.reason_for_call, instructions.known_info, instructions.task_instructions)
        texts = (first_person(text) if text and text.strip(" .") else "" for text in parts)
        return cls(*texts)

    @property
    def whole(self) -> str:
        """All of it."""
        return " ".join(text for text in (self.request, self.identity, self.details) if text)


class ScriptedUser:
    """Says who they are and what they want, gives the rest when asked, and agrees to what they want alone.

    A question for consent is compared with the gold writes still to be made: it gets a yes if every identifier in it
    is one of a gold write's or the user's own, if each argument of a gold write that it names is followed by the gold
    value, if no list of a gold write is named in part, and if it speaks of no other kind of write. Anything else gets a
    no, with what is wanted said again.

    Args:
        task: The task.
        writes: Names of the domain's writing tools; the kinds of write that a question can speak of.
        max_turns: Answers after which the user hangs up.
    """

    def __init__(self, task: Task, writes: Sequence[str], max_turns: int) -> None:
        self._scenario = Scenario.of(task)
        self._verbs = {_verb(tool) for tool in writes}
        self._own = set(_identifiers(self._scenario.whole))
        self._left = max_turns
        self._asked = 0

    def opening(self) -> str:
        """The reason for the call, and who is calling."""
        return f"{self._scenario.request} {self._scenario.identity}".strip()

    def reply(self, history: Sequence[Mapping[str, Any]], waiting: Sequence[Action]) -> Words:
        """A yes or a no to a question for consent, the details to any other words."""
        if not waiting:
            return Words(f"Thank you, that is all. {STOP}", ends=True)
        if self._left == 0:
            return Words(f"This leads nowhere. I will try again another time. {STOP}", ends=True)
        self._left -= 1
        text = str(history[-1]["content"] or "")
        if asks_consent(text):
            if any(self._agrees(text, action) for action in waiting):
                return Words("Yes, please go ahead.")
            return Words(f"No. {self._scenario.request} {self._scenario.details}".strip())
        self._asked += 1
        if self._asked == 1 and self._scenario.details:
            return Words(self._scenario.details)
        return Words(f"As I said: {self._scenario.whole}")

    def _agrees(self, question: str, action: Action) -> bool:
        wanted = {form for value in scalars(action.arguments) if (form := normalise(value)) is not None}
        named = set(_identifiers(question)) - set(map(normalise, action.arguments))  # address1 is no identifier
        if named - wanted - self._own:
            return False
        if _contradicts(question, action.arguments):
            return False
        spoken = {verb for verb in self._verbs if re.search(rf"\b{re.escape(_stem(verb))}", question, re.IGNORECASE)}
        if spoken and _verb(action.name) not in spoken:
            return False
        if not named & wanted and not spoken:
            return False  # consent to what?
        for value in action.arguments.values():
            members = {form for item in scalars(value) if (form := normalise(item)) is not None}
            if isinstance(value, list) and members & named and not members <= named:
                return False
        return True


def asks_consent(text: str) -> bool:
    """Whether words ask for a yes before something is done."""
    return "?" in text and _ASKS_CONSENT.search(text) is not None


def _identifiers(text: str) -> list[str]:
    found = (match.group() for match in identifiers_in(text))
    return [str(normalise(token)) for token in found if not token.startswith("$")]


def _contradicts(question: str, arguments: Mapping[str, Any]) -> bool:
    """Whether an argument's name, ``order_id`` or ``order id``, is followed by anything but its value."""
    values = {form.lower(): value for name, value in arguments.items() for form in (name, in_words(name))}
    names = "|".join(map(re.escape, sorted(values, key=len, reverse=True)))  # the longest that fits, if several do
    for found in re.finditer(rf"\b(?:{names})\b", question, re.IGNORECASE) if names else ():
        items = [str(item).casefold() for item in scalars(values[found[0].lower()])]
        after = question[found.end() : found.end() + _BETWEEN + max(map(len, items), default=0)].casefold()
        if items and not any(item in after for item in items):
            return True
    return False


def _verb(tool: str) -> str:
    """``cancel`` of ``cancel_order``."""
    return tool.split("_")[0].lower()


def _stem(verb: str) -> str:
    """What all forms of a verb begin with: ``cancel``, ``chang`` of ``change`` and ``changing``."""
    return verb.rstrip("ey")


_ROLE = """You play a customer who talks to a support agent. Stay in this role.
Your situation: {scenario}
Say only what a customer would say, one short message at a time. Give details when you are asked for them; do not make
up any that are not in your situation. Agree only to what you want. When what you want has been done, or cannot be
done, answer with {stop} alone."""


class ModelUser:
    """A user played by a model.

    Args:
        model: The model.
        task: The task.
        max_turns: Answers after which the user hangs up.
        max_tokens: Most tokens of one answer.
    """

    def __init__(self, model: ChatModel, task: Task, max_turns: int, max_tokens: int = 120) -> None:
        self._model = model
        self._scenario = Scenario.of(task)
        self._left = max_turns
        self._max_tokens = max_tokens

    def opening(self) -> str:
        """What the model says to the executor's greeting; the scenario's own words if it says nothing."""
        said = self._say([{"role": "user", "content": "Hi! How can I help you today?"}])
        return said.replace(STOP, "").strip() or self._scenario.request

    def reply(self, history: Sequence[Mapping[str, Any]], waiting: Sequence[Action]) -> Words:
        """What the model says to the conversation so far."""
        if self._left == 0:
            return Words(f"I have to go. {STOP}", ends=True)
        self._left -= 1
        turned = {"assistant": "user", "user": "assistant"}
        spoken = [
            {"role": turned[message["role"]], "content": message["content"]}
            for message in history
            if message["role"] in turned and message.get("content") and not message.get("tool_calls")
        ]
        said = self._say(spoken) or STOP
        return Words(said, ends=STOP in said)

    def _say(self, messages: list[dict[str, Any]]) -> str:
        role = _ROLE.format(scenario=self._scenario.whole, stop=STOP)
        asked = [{"role": "system", "content": role}, *messages]
        completion = self._model.complete(messages=asked, max_tokens=self._max_tokens)
        return (completion.choices[0].message.content or "").strip()
