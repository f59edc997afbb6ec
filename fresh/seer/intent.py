"""Which kind of request it is: by rules of English grammar, or by asking a language model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel

from fresh.values import is_identifier
from graph_schema.errors import ConfigError

if TYPE_CHECKING:
    from fresh.expg.endpoint import EndpointSettings

NO_CLASS = "none"
"""What a language model answers where no class fits."""

_MAX_REQUEST = 2_000
_NOUNS = 4
"""Words of a noun phrase that are looked at; its last one names the thing."""

_PHRASE_END = re.compile(r"[.!?;:,\n]+")
_WORD = re.compile(r"(?<![\w-])[^\W\d_]+(?:['-][^\W\d_]+)*(?![\w-])")
_EDGES = ".,;:!?()'\"\n"
_NAME = re.compile(r"(?<=[a-z,] )[A-Z]\w+")
"""A capital within a sentence: a name, a day, a place. It is no class of things, and not to be kept."""
_LOST_E = re.compile(r"(?:[vczu]|[ndr]g|[^aeiou]at)$")
"""Stems that had an e before -ing: moving, exchanging, updating."""
_WISH = re.compile(
    r"\b(?:want|wants|wanted|like|love|need|needs|wish|hope|hoping|try|trying|looking|have|able|possible|plan|planning"
    r"|help|helps|me|us|you)\s+to\s+"
    r"|\b(?:can|could|would|will|do|may|might|should)\s+(?:you|i|we)\s+"
    r"|\b(?:please|let's|let\s+us|help\s+me|help\s+us)\s+"
)
_HELP_WITH = re.compile(
    r"\b(?:help|assistance|assist|issue|issues|problem|problems|trouble|question|questions)(?:\s+(?:me|us))?"
    r"\s+(?:with|about|on|regarding|concerning)\s+"
)
_HAVING = re.compile(r"\b(?:about|in|of|for|with|without)\s+(?P<verb>[^\W\d_]{3,})ing\s+")
_QUESTION = re.compile(
    r"\b(?:what|which|who|where|when|why|how)(?:'s|\s+(?:much|many|is|are|was|were|do|does|did|can))?\s+"
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FILLERS = _words("""
    please kindly just maybe perhaps also then now first firstly next finally so and but or well okay ok hi hello hey
    dear thanks thank sorry yes no actually really quickly possibly
""")
_NOT_VERBS = _words("""
    i you he she it we they this that these those there here my your his her its our their the a an some any all each
    every no not if when while because since as after before of in on at by for from with about to into is are was were
    am be been being do does did have has had can could will would shall should may might must i'm i'd i've it's what
    which who where why how good great morning afternoon evening today
""")
_WEAK_VERBS = _words("help assist be have know like want need ask see")
"""Verbs that say nothing of what is to be done; the one after them does."""
_SKIPPED = _words("""
    the a an my your his her its our their this that these those some any all each every me us him them it both another
    one two three several other couple few lot up out off back
""")
_STOP = _words("""
    of in on at by for from with about to into onto over under between during until since because as if when while where
    which who that and or but so then than i you he she we they is are was were be been do does did have has had can
    could will would not please
""")


class Intents(Protocol):
    """Sorts requests into classes."""

    def classify(self, requests: Sequence[str]) -> list[str | None]:
        """The class of each request; None where none can be told."""
        ...


class RuleIntents:
    """A verb and the thing it acts on, such as ``send message``, found by the closed-class words around them.

    It looks, in this order, for a wish or a polite request ("I'd like to ...", "could you ...", "please ..."), an
    imperative, a gerund ("thinking about moving ..."), a call for help with something, and a question; the thing is the
    last word of the noun phrase that follows, in the singular. It needs no list of verbs or of things, so it works for
    any tools; it knows the function words of English alone, and gives None where it finds none of these.
    """

    def classify(self, requests: Sequence[str]) -> list[str | None]:
        """The class of each request; None where no rule applies."""
        return [next(_verbs_and_things(request), None) for request in requests]


class Answer(BaseModel):
    """What the model must answer on one request."""

    intent: str


class LLMIntents:
    """The class that a language model picks, as in the paper, from classes that the caller names.

    Each distinct request is asked about once in the life of the object.

    Args:
        settings: Any endpoint that speaks the chat-completions protocol, with its limits.
        classes: Names of the classes; an answer that is none of them counts as None.

    Raises:
        ConfigError: No class is given, or one is empty or the reserved ``none``.
    """

    def __init__(self, settings: EndpointSettings, classes: Sequence[str]) -> None:
        from fresh.expg.endpoint import ChatEndpoint

        if not classes or any(not name.strip() or name == NO_CLASS for name in classes):
            raise ConfigError(
                f"SEER's intents need at least one class with a name other than {NO_CLASS!r}: {list(classes)}"
            )
        self.endpoint = ChatEndpoint(settings)
        self._classes = {name.strip().lower(): name for name in classes}
        self._known: dict[str, str | None] = {}

    def __repr__(self) -> str:
        return f"LLMIntents({self.endpoint!r}, classes={len(self._classes)})"

    def classify(self, requests: Sequence[str]) -> list[str | None]:
        """The class of each request; None for an empty one, and where no class fits.

        Raises:
            EvaluatorError: The endpoint failed for good or a limit is reached; answers got so far are remembered.
            MissingExtraError: The openai package is not installed.
        """
        from fresh.expg.endpoint import run

        new = [request for request in dict.fromkeys(requests) if request.strip() and request not in self._known]
        if new:
            run(self._ask(new))
        return [self._known.get(request) for request in requests]

    async def _ask(self, requests: Sequence[str]) -> None:
        async with self.endpoint.client() as client:
            for request in requests:
                answer = await self.endpoint.ask(client, self._prompt(request), Answer)
                self._known[request] = self._classes.get(answer.intent.strip().lower())

    def _prompt(self, request: str) -> str:
        text = (files(__package__) / "intent.md").read_text(encoding="utf-8")
        classes = "\n".join(f"- {name}" for name in (*self._classes.values(), NO_CLASS))
        values = {"classes": classes, "request": request[:_MAX_REQUEST]}
        return re.sub(r"\{(classes|request)\}", lambda mark: values[mark[1]], text)


def _verbs_and_things(request: str) -> Iterator[str]:
    """Candidates, the surest first."""
    text = _NAME.sub("", request[:_MAX_REQUEST].replace("’", "'"))
    marked = " ".join("," if is_identifier(word.strip(_EDGES)) else word for word in text.split(" "))
    sentences = [part.strip().lower() for part in _PHRASE_END.split(marked)]
    for sentence in sentences:
        yield from _after(_WISH, sentence)
    for sentence in sentences:
        yield from _phrase(_WORD.findall(sentence))
    for sentence in sentences:
        for match in _HAVING.finditer(sentence):
            yield from _phrase([_infinitive(match["verb"]), *_WORD.findall(sentence[match.end() :])])
    for sentence in sentences:
        for pattern, verb in ((_HELP_WITH, "help"), (_QUESTION, "ask")):
            yield from (f"{verb} {thing}" for m in pattern.finditer(sentence) if (thing := _thing(sentence[m.end() :])))


def _after(pattern: re.Pattern[str], sentence: str) -> Iterator[str]:
    position = 0
    while match := pattern.search(sentence, position):
        yield from _phrase(_WORD.findall(sentence[match.end() :]))
        # Patterns may overlap: "could you help me to ...".
        position = match.start() + 1


def _phrase(words: list[str]) -> Iterator[str]:
    """``verb thing`` of words that start with a verb; nothing where they do not."""
    while words and words[0] in _FILLERS:
        words = words[1:]
    if len(words) < 2 or words[0] in _NOT_VERBS | _WEAK_VERBS or "'" in words[0]:
        return
    thing = _thing(" ".join(words[1:]))
    if thing:
        yield f"{words[0]} {thing}"


def _thing(text: str) -> str:
    """The last word of the noun phrase that a text starts with, one preposition before it allowed; empty if none."""
    nouns: list[str] = []
    words = _WORD.findall(text)
    for position, word in enumerate(words):
        if word in _STOP and (nouns or (position > 1 and word != "of")):
            break
        if word not in _SKIPPED and word not in _STOP and word not in _FILLERS:
            nouns.append(word)
        if len(nouns) == _NOUNS:
            break
    return _singular(nouns[-1]) if nouns else ""


def _infinitive(stem: str) -> str:
    """The verb of a gerund without its -ing: ``cancell`` gives ``cancel``, ``mov`` gives ``move``."""
    if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "aeiousz":
        return stem[:-1]
    return stem + "e" if _LOST_E.search(stem) else stem


def _singular(word: str) -> str:
    word = word.removesuffix("'s")
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 else word
