"""The evaluator and the summariser that ask a language model."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import orjson
from pydantic import BaseModel, Field

from fresh.expg.cache import AnswerCache
from fresh.expg.endpoint import ChatEndpoint, EndpointSettings, Usage, run
from fresh.expg.evaluate import RuleEvaluator
from fresh.expg.evidence import Evidence
from fresh.expg.experience import Experience, Judgement, canonical, digest
from fresh.expg.guidance import Advice
from fresh.expg.prompts import fill, load_prompt
from graph_schema.errors import EvaluatorError
from graph_schema.trajectory import ToolSpec, Trajectory

Progress = Callable[[int, int, Usage], None]
"""Called with the questions answered, the questions in all, and what they took so far."""

_EXPLANATION_CHARACTERS = 600
_MAX_LINES = 8
_LINE_CHARACTERS = 400
Reply = TypeVar("Reply", bound=BaseModel)


class Verdict(BaseModel):
    """What the model must answer on one call."""

    scores: Annotated[list[Literal[0, 1]], Field(min_length=10, max_length=10)]
    explanation: str


class Summary(BaseModel):
    """What the model must answer on one tool."""

    core_function: Annotated[str, Field(min_length=1)]
    success_patterns: list[str]
    common_issues: list[str]
    best_practices: str


class LLMEvaluator:
    """Judges calls by asking a model.

    What happened in a call is recorded as :class:`~fresh.expg.evaluate.RuleEvaluator` does it; only the scores and the
    explanation are the model's. Each answer is cached under the experience's h as it comes: a second run asks only
    what is missing.
    """

    def __init__(
        self,
        settings: EndpointSettings,
        cache: Path | str | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Makes an evaluator; nothing is asked yet.

        Args:
            settings: Endpoint, limits and prices.
            cache: SQLite file for the answers; None keeps them in memory only.
            progress: Called after each answer.
        """
        self.endpoint = ChatEndpoint(settings)
        self.cache = AnswerCache(cache)
        self._progress = progress

    def __repr__(self) -> str:
        return f"LLMEvaluator({self.endpoint!r}, {self.cache!r})"

    def evaluate(
        self, trajectories: Sequence[Trajectory], tools: Mapping[str, ToolSpec] | None = None
    ) -> list[Experience]:
        """Judges the agent's answered calls of all runs.

        Raises:
            EvaluatorError: The endpoint failed for good or a limit is reached; answers got so far are in the cache.
        """
        return self.judge(RuleEvaluator().evaluate(trajectories, tools))

    def judge(self, experiences: Sequence[Experience]) -> list[Experience]:
        """Gives experiences the model's judgement in place of their own; see :meth:`evaluate`."""
        asker = _asker(self.endpoint, "judge")
        questions = {e.key: _judge_prompt(e) for e in experiences}
        answers = _answers(self.endpoint, self.cache, asker, questions, Verdict, self._progress)
        return [_judged(e, answers[e.key]) for e in experiences]


class LLMSummariser:
    """Writes guidance by asking a model, then takes out every value that guidance must not show."""

    def __init__(
        self,
        settings: EndpointSettings,
        cache: Path | str | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Makes a summariser; nothing is asked yet. Arguments are those of :class:`LLMEvaluator`."""
        self.endpoint = ChatEndpoint(settings)
        self.cache = AnswerCache(cache)
        self._progress = progress

    def __repr__(self) -> str:
        return f"LLMSummariser({self.endpoint!r}, {self.cache!r})"

    def summarise(self, evidence: Evidence) -> Advice:
        """Asks about the selected experiences of one tool.

        Raises:
            EvaluatorError: The endpoint failed for good or a limit is reached.
        """
        prompt = _summary_prompt(evidence)
        asker = _asker(self.endpoint, "summarise")
        key = digest(prompt)
        answers = _answers(self.endpoint, self.cache, asker, {key: prompt}, Summary, self._progress)
        said = answers[key]

        def clean(text: str) -> str:
            return evidence.scrubber.clean(text)[:_LINE_CHARACTERS]

        return Advice(
            core_function=clean(said.core_function),
            success_patterns=tuple(map(clean, said.success_patterns[:_MAX_LINES])),
            common_issues=tuple(map(clean, said.common_issues[:_MAX_LINES])),
            best_practices=evidence.scrubber.clean(said.best_practices),
        )


def _asker(endpoint: ChatEndpoint, prompt: str) -> str:
    return digest(f"{endpoint.settings.model}\0{load_prompt(prompt)}")


def _answers(
    endpoint: ChatEndpoint,
    cache: AnswerCache,
    asker: str,
    questions: Mapping[str, str],
    shape: type[Reply],
    progress: Progress | None,
) -> dict[str, Reply]:
    """Answers by key, from the cache where they are there."""
    known = {key: answer for key in questions if (answer := cache.get(key, asker, shape)) is not None}
    missing = [key for key in questions if key not in known]

    def took(key: str, answer: Reply) -> None:
        cache.put(key, asker, answer)
        known[key] = answer
        if progress is not None:
            progress(len(known), len(questions), endpoint.usage)

    if progress is not None:
        progress(len(known), len(questions), endpoint.usage)
    if missing:
        failure = run(_ask_all(endpoint, {key: questions[key] for key in missing}, shape, took))
        if failure is not None:
            left = len(questions) - len(known)
            kept = f"{len(known)} of {len(questions)} answers are kept" if cache.path else "no cache was given"
            raise EvaluatorError(f"{failure}; {left} questions are open, {kept}: mend the cause and run again")
    return known


async def _ask_all(
    endpoint: ChatEndpoint,
    questions: Mapping[str, str],
    shape: type[Reply],
    took: Callable[[str, Reply], None],
) -> EvaluatorError | None:
    """Asks everything with a fixed number of workers; after a failure no new question is begun."""
    import asyncio

    waiting = deque(questions.items())
    failures: list[EvaluatorError] = []

    async def work(client: Any) -> None:
        while waiting and not failures:
            key, prompt = waiting.popleft()
            try:
                took(key, await endpoint.ask(client, prompt, shape))
            except EvaluatorError as error:
                failures.append(error)

    async with endpoint.client() as client:
        workers = min(endpoint.settings.concurrency, len(questions))
        await asyncio.gather(*(work(client) for _ in range(workers)))
    return failures[0] if failures else None


def _judged(experience: Experience, verdict: Verdict) -> Experience:
    scores: Any = tuple(verdict.scores)
    judgement = Judgement(scores=scores, explanation=verdict.explanation[:_EXPLANATION_CHARACTERS])
    return Experience(key=experience.key, invocation=experience.invocation, judgement=judgement)


def _judge_prompt(experience: Experience) -> str:
    m = experience.invocation
    return fill(
        "judge",
        tool=_described(m.tool),
        context=m.context,
        input=m.raw_input if m.input is None else canonical(m.input),
        response=m.response,
    )


def _described(spec: ToolSpec) -> str:
    return canonical({"name": spec.name, "description": spec.description, "parameters": spec.parameters})


def _summary_prompt(evidence: Evidence) -> str:
    statistics = evidence.statistics
    numbers = {
        "calls": statistics.experiences,
        "success_rate": statistics.success_rate,
        "mean_of_each_score": [round(mean, 3) for mean in statistics.aspect_means],
    }
    selected = evidence.selection.experiences
    return fill(
        "summarise",
        tool=_described(evidence.spec),
        count=str(statistics.experiences),
        numbers=orjson.dumps(numbers).decode(),
        shown=str(len(selected)),
        calls="\n\n".join(_record(e) for e in selected),
    )


def _record(experience: Experience) -> str:
    m = experience.invocation
    given = m.raw_input if m.input is None else canonical(m.input)
    scores = " ".join(map(str, experience.scores))
    return (
        f"context: {m.context}\ninput: {given}\nresponse: {m.response}\n"
        f"scores: {scores}\njudgement: {experience.judgement.explanation}"
    )
