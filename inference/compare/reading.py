"""The uniform reader: which tools a memory's text recommends, which calls, and what it warns of.

No memory is asked what it meant. All are read by the same conventions, which fit prose, lists, logs and JSON alike:

- One statement a line; several sentences on a line are several statements. Bullets, numbers, emphasis, code fences and
  labels such as ``Check:`` carry no meaning. A block of JSON is read for its calls and for the texts in it.
- A statement that begins with *Done* is ignored.
- A statement that begins with *Avoid*, *Do not*, *Don't*, *Never*, *Must not*, *Beware*, *Caution* or *Warning* warns
  of the tools it names; what stands in it after *before*, *until*, *unless*, *without*, *instead* or *but use* is
  recommended.
- A clause that says that a tool fails, failed, was rejected or returned an error warns of that tool, with the message
  it quotes; other tools in the clause, and a remedy that begins with *then*, are neither warned of nor recommended.
  That a run, a task or an attempt failed says nothing of a tool.
- In *before X: call Y*, and in *call Y before X*, Y is recommended and X is not; the statement is a warning of X about
  the condition it names.
- Any other tool named is recommended, unless it is negated (*without X*, *instead of X*, *no need to call X*) or is
  named as the place of a value (*from X*, *X's result*).
- Text in double quotes is data, unless it is a tool's name. A tool whose name is an ordinary word (*calculate*) counts
  only where it is marked as a tool: in quotes or backticks, with brackets, after a verb such as *call*, between arrows.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

MAX_WORDS = 40
"""Content words of a warning that count, so that no warning can match everything by its length."""


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP_WORDS = _word_set(
    """
    a about after again all already also am an and any are as at avoid be because been before being both but by call
    called calling calls can cannot could did do does doing done each either error errors exactly fail failed fails
    first for from further get gets got had has have having he her here his how i if in into is it its itself just
    may me might more most must my never new no nor not now of off on once one only or other our out over own same
    shall she should so some still such than that the their them then there these they this those through to too
    tool tools under until up upon us use used using very via was we were what when where whether which while who
    whom why will with within without would yes yet you your
    """
)
"""Words without content for the comparison of a warning with an error."""

_FENCE = re.compile(r"^\s*(?:```|~~~)")
_BULLET = re.compile(r"^\s*(?:(?:[-*+•>#|]+|\(?\d{1,3}[.)])\s+)*")
_LABEL = re.compile(r"^([A-Za-z][\w /'-]{0,28}):\s+")
_DONE = re.compile(r"(?:already\s+)?done\b", re.IGNORECASE)
_WARNS = re.compile(
    r"(?:avoid|do\s+not|don['’]t|never|(?:you\s+)?(?:must|should)\s+not|(?:you\s+)?(?:mustn|shouldn)['’]t|beware|caution"
    r"|warning)\b",
    re.IGNORECASE,
)
_FORGET = re.compile(r"(?:do\s+not|don['’]t|never)\s+(?:skip|forget|omit|miss)\b(?:\s+to\b)?", re.IGNORECASE)
"""*Never skip X* asks for X."""
_SENTENCE = re.compile(r"(?<![eE]\.g\.)(?<!i\.e\.)(?<=[.!?])\s+(?=\S)")
_FAILS = re.compile(
    r"\b(?:fail(?:s|ed|ing)?|(?:was|were|is|are|be|got|gets)\s+(?:rejected|refused)"
    r"|(?:gave|gives|give|got|gets|get|returned|returns|return|raised|raises|raise|hit|hits|with)\s+(?:an?\s+|the\s+)?"
    r"(?:\w+\s+)?error)\b|\b\w*error\s*:|(?:->|→|=>)\s*\w*error\b",
    re.IGNORECASE,
)
_NOT_FAILING = re.compile(
    r"\b(?:avoid|prevent|without|no|not|never|cannot|can't|n't|than)(?:\s+\w+){0,2}\s+$", re.IGNORECASE
)
_OF_A_RUN = re.compile(
    r"\b(?:run|task|attempt|episode|trajectory|trial|case|conversation)s?\s+(?:(?:that|which|has|have|had)\s+)*$",
    re.IGNORECASE,
)
_RUN_AFTER = re.compile(r"^\s+(?:run|task|attempt|episode|trajectory|trial|case|conversation)", re.IGNORECASE)
_NAMES_FAILURE = re.compile(r"(?:\bwith|\bbecause|\bwhen|\bif|:|->|→|=>|\bas)\s*\S", re.IGNORECASE)
_TURN = re.compile(
    r"\b(?:before|until|unless|without|instead)\b|(?:,\s*(?:but\s+)?|\bbut\s+)(?:use|call|prefer|try|do)\b",
    re.IGNORECASE,
)
"""Where a warning turns to what is to be done."""
_REMEDY = re.compile(r"\s*(?:then|so|it|and\s+then|if\s+so|in\s+that\s+case)\b", re.IGNORECASE)
_STEP = re.compile(r",\s*(?:and\s+)?then\b", re.IGNORECASE)
"""Where the next step begins: what it names is no argument of the call before."""
_BEFORE = re.compile(r"\bbefore\b(?:\s+[\w'’]+){0,4}?\s*[`\"'(]*$", re.IGNORECASE)
_NEGATED = re.compile(
    r"(?:\bnot|n['’]t|\bnever|\bwithout|\binstead\s+of|\brather\s+than|\bno\s+need\s+(?:to|for)|\bavoid(?:s|ing)?"
    r"|\bskip(?:s|ping)?|\bno)(?:\s+\w+){0,2}\s*[`\"'(]*$",
    re.IGNORECASE,
)
_ORDERED_NOT = re.compile(
    r"(?:\b(?:do|must|should)\s+not|n['’]t|\bnever|\bavoid)(?:\s+\w+){0,2}\s*[`\"'(]*$", re.IGNORECASE
)
_DENIED = re.compile(
    r"^[`\"')]*\s*(?:is|are|was|were|should|must|need|needs|can)?\s*(?:not\b|never\b|n['’]t|un\w+)", re.IGNORECASE
)
_SOURCE = re.compile(
    r"\b(?:from|of|returned\s+by|given\s+by|shown\s+by|output\s+by)\s+(?:the\s+)?"
    r"(?:(?:result|output|answer|response|reply|data)s?\s+of\s+)?[`\"'(]*$",
    re.IGNORECASE,
)
_NOT_A_SOURCE = re.compile(r"\b(?:instead|use|call)\s+of\s+[`\"'(]*$", re.IGNORECASE)
_POSSESSIVE = re.compile(r"^[`\"]?['’]s?\s+\w|^\s+(?:result|output|response)s?\b", re.IGNORECASE)
_JOIN = re.compile(r"^[`\"')\s]*(?:,|/|&|\band\b|\bor\b|,\s*(?:and|or)\b)+[`\"'(\s]*$", re.IGNORECASE)
_MARK_BEFORE = re.compile(
    r"(?:[`\"']|->|→|=>|\b(?:call|calls|calling|called|use|uses|using|used|invoke|invokes|run|try|tool|tools|function"
    r"|before|after|via|then|avoid|never|next|do)(?:\s+the)?[\s:]+[`\"']?)\s*$",
    re.IGNORECASE,
)
_MARK_AFTER = re.compile(
    r"^(?:[`\"'(]|\s*(?:->|→|=>)|\s*:|\s+(?:tool|function|can\s+fail|fails?|failed)\b)", re.IGNORECASE
)
_PLAIN_WORD = re.compile(r"[A-Za-z]+")
_QUOTED = re.compile(r"\"([^\"\n]*)\"|“([^”\n]*)”")
_WORD = re.compile(r"[^\W\d_]{2,}")
_PLACEHOLDER = re.compile(r"<[A-Z][A-Z_0-9]*>")
_NAME_KEYS = ("name", "tool", "tool_name", "action", "function", "api")
_ARGUMENT_KEYS = ("arguments", "args", "parameters", "params", "input", "kwargs", "action_input")
_MAX_BLOCK = 200
"""Lines of a JSON block at most."""


@dataclass(frozen=True, slots=True)
class RecommendedCall:
    """A call that a text recommends: the tool, and the arguments it names for it, maybe none."""

    tool: str
    arguments: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning of a tool.

    Attributes:
        tool: The tool.
        words: Content words of what is said of it, see `content_words`.
        names_failure: It says how the tool fails; otherwise it names a condition, or only says to leave it alone.
    """

    tool: str
    words: frozenset[str] = frozenset()
    names_failure: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text says.

    Attributes:
        calls: Recommended calls in the order of the text; the same one once.
        warnings: Warnings in the order of the text; the same one once.
    """

    calls: tuple[RecommendedCall, ...] = ()
    warnings: tuple[Warned, ...] = ()

    @property
    def tools(self) -> tuple[str, ...]:
        """Recommended tools in order, each once."""
        return tuple(dict.fromkeys(call.tool for call in self.calls))


def content_words(text: str) -> frozenset[str]:
    """Words that say something: lower case, without stop words, placeholders and numbers, common endings cut off."""
    return frozenset(_ordered_words(text))


def _ordered_words(text: str) -> dict[str, None]:
    words = (word.lower() for word in _WORD.findall(_PLACEHOLDER.sub(" ", text).replace("_", " ")))
    return {_stem(word): None for word in words if word not in STOP_WORDS}


def _stem(word: str) -> str:
    """*payments* and *payment*, *exceeded* and *exceeds* are one; no more is needed to compare messages."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4 and not word.endswith("ss"):
            return word[: -len(ending)].rstrip("e")
    return word.rstrip("e") if len(word) > 4 else word


class _Mention(NamedTuple):
    """A tool's name in a statement."""

    start: int
    end: int
    tool: str


@dataclass
class _Found:
    """What has been read so far, as sets that keep order."""

    calls: dict[RecommendedCall, None] = field(default_factory=dict)
    warnings: dict[Warned, None] = field(default_factory=dict)

    def reading(self) -> Reading:
        return Reading(tuple(self.calls), tuple(self.warnings))


class Reader:
    """Reads advice about a set of tools.

    Args:
        tools: Names of the tools that count, each with the names of its arguments.
    """

    def __init__(self, tools: Mapping[str, Collection[str]]) -> None:
        self.tools = {name: frozenset(arguments) for name, arguments in tools.items() if name.strip()}
        names = sorted(self.tools, key=lambda name: (-len(name), name))
        inside = "|".join(map(re.escape, names))
        self._names = re.compile(rf"(?<![\w])(?:{inside})(?![\w])") if names else None

    def read(self, text: str) -> Reading:
        """What a text recommends and warns of."""
        found = _Found()
        for statement in _statements(text):
            if isinstance(statement, str):
                self._read_line(statement, found)
            else:
                self._read_value(statement, found)
        return found.reading()

    # -- JSON ----------------------------------------------------------------------------------------------------

    def _read_value(self, value: Any, found: _Found) -> None:
        if isinstance(value, str):
            for line in value.splitlines():
                self._read_line(line, found)
        elif isinstance(value, list):
            for item in value:
                self._read_value(item, found)
        elif isinstance(value, dict):
            self._read_object(value, found)

    def _read_object(self, value: dict[str, Any], found: _Found) -> None:
        name_key = next((key for key in _NAME_KEYS if self._is_tool(value.get(key))), None)
        if name_key is None:
            for item in value.values():
                self._read_value(item, found)
            return
        tool = value[name_key]
        failure = _failure_in(value)
        if failure is not None:
            found.warnings[Warned(tool, content_words(failure), True)] = None
            return
        passed: Any = next((value[key] for key in _ARGUMENT_KEYS if key in value), {})
        if isinstance(passed, str):
            passed = _json(passed)
        names = frozenset(passed) if isinstance(passed, dict) else frozenset()
        found.calls[RecommendedCall(tool, names & self.tools[tool])] = None
        for key, item in value.items():
            if key != name_key and key not in _ARGUMENT_KEYS:
                self._read_value(item, found)

    def _is_tool(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.tools

    # -- text ----------------------------------------------------------------------------------------------------

    def _read_line(self, line: str, found: _Found) -> None:
        for sentence in _SENTENCE.split(_bare(line)):
            statement = self._without_labels(_bare(sentence))
            if statement is None:
                return  # what was done, with all that follows on the line
            if _FORGET.match(statement):
                self._read_statement(_FORGET.sub("", statement, count=1), found)
            elif _WARNS.match(statement):
                self._read_warning(statement, found)
            else:
                self._read_statement(statement, found)

    def _without_labels(self, statement: str) -> str | None:
        """The statement after labels that only say what kind of line it is; None for a line of what is done."""
        while not _WARNS.match(statement):
            if _DONE.match(statement):
                return None
            label = _LABEL.match(statement)
            if label is None or self._mentions(label.group()) or _fails(label.group()) is not None:
                return statement
            statement = statement[label.end() :]
        return statement

    def _mentions(self, text: str) -> list[_Mention]:
        """Tools named in a text outside quoted data."""
        if self._names is None:
            return []
        masked = _QUOTED.sub(self._mask, text)
        found = [_Mention(m.start(), m.end(), m.group()) for m in self._names.finditer(masked)]
        return [mention for mention in found if self._is_marked(masked, mention)]

    def _mask(self, match: re.Match[str]) -> str:
        inside = match[1] if match[1] is not None else match[2]
        return match.group() if inside.strip() in self.tools else '"' + " " * (len(match.group()) - 2) + '"'

    def _is_marked(self, text: str, mention: _Mention) -> bool:
        """Whether a name that is an ordinary word stands for the tool here."""
        if not _PLAIN_WORD.fullmatch(mention.tool) or not mention.tool.islower():
            return True
        before, after = text[: mention.start], text[mention.end :]
        return not text.replace(mention.tool, "", 1).strip(" .,`\"'") or bool(
            _MARK_BEFORE.search(before) or _MARK_AFTER.match(after)
        )

    def _read_warning(self, statement: str, found: _Found) -> None:
        """A statement that begins as warnings do."""
        clauses = statement.split(";")
        mentions = self._mentions(clauses[0])
        turn = next((m for m in _TURN.finditer(clauses[0]) if mentions and m.start() > mentions[0].start), None)
        border = turn.start() if turn else len(clauses[0])
        warned = [m for m in mentions if m.start < border and not _is_source(clauses[0], m)]
        for mention in warned:
            found.warnings[self._warning(mention.tool, statement, clauses[0])] = None
        names = {m.tool for m in warned}
        for mention in mentions:
            if mention.start >= border and mention.tool not in names and not _is_source(clauses[0], mention):
                self._recommend(clauses[0], mention, mentions, found)
        if not any(_REMEDY.match(clause) for clause in clauses[1:]):
            for clause in clauses[1:]:
                self._read_statement(clause, found)

    def _read_statement(self, statement: str, found: _Found) -> None:
        """A statement that is no warning from the start."""
        if self._read_condition(statement, found):
            return
        failed = False
        for clause in statement.split(";"):
            if failed and _REMEDY.match(clause):
                return
            mentions = self._mentions(clause)
            failed = bool(mentions) and self._read_failure(clause, mentions, found)
            if failed:
                continue
            for mention in mentions:
                self._read_mention(clause, mention, mentions, found)

    def _read_condition(self, statement: str, found: _Found) -> bool:
        """*before X: call Y*, in either order; False where the statement is none."""
        mentions = self._mentions(statement)
        guarded = [m for m in mentions if _BEFORE.search(statement[: m.start])]
        if not guarded:
            return False
        for earlier, later in itertools.pairwise(mentions):
            if earlier in guarded and _JOIN.match(statement[earlier.end : later.start]):
                guarded.append(later)
        names = {m.tool for m in guarded}
        for mention in guarded:
            found.warnings[self._warning(mention.tool, statement, statement)] = None
        for mention in mentions:
            if mention.tool not in names:
                self._read_mention(statement, mention, mentions, found)
        return True

    def _read_failure(self, clause: str, mentions: Sequence[_Mention], found: _Found) -> bool:
        """A clause that says that a tool fails; False where it says nothing of the kind."""
        place = _fails(_QUOTED.sub(self._mask, clause))
        if place is None:
            return False
        before = [m for m in mentions if m.start < place]
        warned = _last_group(clause, before) if before else list(mentions[:1])
        for mention in warned:
            found.warnings[self._warning(mention.tool, clause, clause[place:])] = None
        return True

    def _read_mention(self, clause: str, mention: _Mention, mentions: Sequence[_Mention], found: _Found) -> None:
        before, after = clause[: mention.start], clause[mention.end :]
        if _ORDERED_NOT.search(before):
            found.warnings[self._warning(mention.tool, clause, clause)] = None
        elif not (_NEGATED.search(before) or _DENIED.match(after) or _is_source(clause, mention)):
            self._recommend(clause, mention, mentions, found)

    def _recommend(self, clause: str, mention: _Mention, mentions: Sequence[_Mention], found: _Found) -> None:
        later = (m.start for m in mentions if m.start > mention.start and not _is_source(clause, m))
        segment = _own_brackets(clause[mention.end :]) or _STEP.split(clause[mention.end : next(later, len(clause))])[0]
        named = {a for a in self.tools[mention.tool] if re.search(rf"(?<!\w){re.escape(a)}(?!\w)", segment)}
        found.calls[RecommendedCall(mention.tool, frozenset(named))] = None

    def _warning(self, tool: str, statement: str, told: str) -> Warned:
        """A warning with its content: the quoted message where there is one, else the words of the statement."""
        quoted = [match[1] or match[2] or "" for match in _QUOTED.finditer(statement)]
        messages = [text for text in quoted if text.strip() not in self.tools and content_words(text)]
        place = _fails(told)
        if messages and _fails(_QUOTED.sub(self._mask, statement)) is not None:
            return Warned(tool, _first_words(" ".join(messages)), True)
        explains = place is not None and _NAMES_FAILURE.search(told, place) is not None
        said = told[place:] if explains else statement
        return Warned(tool, _first_words(self._names.sub(" ", said) if self._names else said), explains)


def _first_words(text: str) -> frozenset[str]:
    return frozenset(list(_ordered_words(text))[:MAX_WORDS])


def _bare(line: str) -> str:
    """A line without what only lays it out."""
    return _BULLET.sub("", line, count=1).replace("**", "").replace("__", "").strip()


def _fails(text: str) -> int | None:
    """Where a text says that something fails; None where it does not."""
    for match in _FAILS.finditer(text):
        before, after = text[: match.start()], text[match.end() :]
        if not (_NOT_FAILING.search(before) or _OF_A_RUN.search(before) or _RUN_AFTER.match(after)):
            return match.start()
    return None


def _is_source(clause: str, mention: _Mention) -> bool:
    """Whether a tool is named only as the place where a value stands."""
    before = clause[: mention.start]
    if _SOURCE.search(before) and not _NOT_A_SOURCE.search(before):
        return True
    return _POSSESSIVE.match(clause[mention.end :]) is not None


def _last_group(clause: str, mentions: Sequence[_Mention]) -> list[_Mention]:
    """The last tool named, with those joined to it by commas and conjunctions."""
    group = [mentions[-1]]
    for mention in reversed(mentions[:-1]):
        if not _JOIN.match(clause[mention.end : group[0].start]):
            break
        group.insert(0, mention)
    return group


def _own_brackets(text: str) -> str:
    """The bracketed arguments that follow a name at once; empty where none do."""
    if not text.lstrip("`\"'").startswith("("):
        return ""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and letter == ")":
            return text[: i + 1]
    return text


def _failure_in(value: Mapping[str, Any]) -> str | None:
    """What an object says of its own call's failure; None for a call that went well."""
    error = value.get("error")
    if isinstance(error, str) and error.strip():
        return error
    denied = value.get("success") is False or str(value.get("status", "")).lower() in ("error", "failed", "failure")
    if not denied and error is not True:
        return None
    told = (value.get(key) for key in ("message", "result", "observation", "output", "response"))
    return next((text for text in told if isinstance(text, str)), "")


def _statements(text: str) -> Iterator[str | Any]:
    """Lines of a text; blocks of JSON as values."""
    lines = [line for line in text.splitlines() if line.strip() and not _FENCE.match(line)]
    position = 0
    while position < len(lines):
        value, used = _json_block(lines[position : position + _MAX_BLOCK])
        yield lines[position] if value is None else value
        position += used


def _json_block(lines: Sequence[str]) -> tuple[Any, int]:
    """The JSON value that the lines begin with and how many it takes; ``(None, 1)`` where they begin with none."""
    first = _BULLET.sub("", lines[0], count=1).strip()
    if not first.startswith(("{", "[")):
        return None, 1
    depth = 0
    for count, line in enumerate(lines, 1):
        bare = _QUOTED.sub("", line)
        depth += sum(bare.count(c) for c in "{[") - sum(bare.count(c) for c in "}]")
        if depth <= 0:
            value = _json("\n".join([first, *lines[1:count]]))
            return (value, count) if isinstance(value, dict | list) else (None, 1)
    return None, 1


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
