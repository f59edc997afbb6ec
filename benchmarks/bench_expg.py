"""ExpG's store at ten thousand experiences a tool: time of a retrieve and of an update, and bytes on disk.

    python benchmarks/bench_expg.py [--experiences 10000] [--tools 3]

Beside it stand the figures that the ExpG paper gives for its own implementation (arXiv 2608.03403): 47 ms a retrieve,
170 ms an update, 5.7 KB an experience. They were measured on another machine and with a language model's embeddings, so
they set the scale and are no ratio of like with like. Experiences are drawn from a seed; their texts are as long as
those of recorded customer-service runs.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

from rich.console import Console
from timing import print_table

from fresh.expg import DistilSettings, Experience, ExperienceStore, Invocation, Judgement, distil
from graph_schema.trajectory import ToolSpec

PAPER = {"retrieve": "47 ms", "update": "170 ms", "bytes": "5.7 KB"}
WORDS = 4000
SYLLABLES = ("ba", "ke", "lo", "mi", "nu", "ra", "se", "ti", "vo", "zu")


def vocabulary(generator: random.Random) -> tuple[list[str], list[float]]:
    words = ["".join(generator.choices(SYLLABLES, k=generator.randint(1, 4))) for _ in range(WORDS)]
    return words, [1 / (rank + 3) for rank in range(WORDS)]


def make(tools: int, experiences: int) -> dict[str, list[Experience]]:
    generator = random.Random(7)
    words, weights = vocabulary(generator)
    found: dict[str, list[Experience]] = {}
    for tool in range(tools):
        spec = ToolSpec(
            name=f"tool_{tool}", parameters={"type": "object", "properties": {"item_id": {"type": "string"}}}
        )
        found[spec.name] = [one(spec, number, generator, words, weights) for number in range(experiences)]
    return found


def one(spec: ToolSpec, number: int, generator: random.Random, words: list[str], weights: list[float]) -> Experience:
    bits = [1] * 10 if generator.random() < 0.7 else [int(generator.random() < 0.8) for _ in range(10)]
    text = " ".join(generator.choices(words, weights, k=160))
    invocation = Invocation(
        tool=spec,
        context=text,
        input={"item_id": f"I{number:06d}", "note": " ".join(generator.choices(words, weights, k=6))},
        response=json.dumps({"item_id": f"I{number:06d}", "text": " ".join(generator.choices(words, weights, k=120))}),
        success=bits[6] == 1,
        seconds=generator.random(),
        tokens=generator.randint(50, 500),
        run=f"r{number // 5}",
        call=f"r{number // 5}/{number % 5}/0",
        task=f"t{number // 20}",
    )
    return Experience.of(invocation, Judgement(scores=tuple(bits), explanation="drawn"))  # type: ignore[arg-type]


def timed(work: list) -> list[float]:  # type: ignore[type-arg]
    """Seconds of each piece of work, in order."""
    seconds: list[float] = []
    for piece in work:
        start = time.perf_counter()
        piece()
        seconds.append(time.perf_counter() - start)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiences", type=int, default=10_000, help="experiences of each tool")
    parser.add_argument("--tools", type=int, default=3)
    parser.add_argument("--operations", type=int, default=500, help="retrieves and updates timed")
    arguments = parser.parse_args()
    console = Console()
    with console.status("making experiences"):
        found = make(arguments.tools, arguments.experiences + arguments.operations)
    generator = random.Random(11)
    with tempfile.TemporaryDirectory() as folder, ExperienceStore(Path(folder) / "store") as store:
        with console.status("filling the store"):
            for experiences in found.values():
                store.extend(experiences[: arguments.experiences])
            store.sync()
        with console.status("indexing"):
            for name in found:
                store.retrieve(name, "warm up", k=1)
        size = store.bytes_on_disk() / len(store)
        names = list(found)
        queries = [
            (generator.choice(names), generator.choice(found[generator.choice(names)]).invocation.context[:400])
            for _ in range(arguments.operations)
        ]
        retrieves = timed([lambda t=tool, q=query: store.retrieve(t, q, k=5) for tool, query in queries])
        fresh = [
            found[names[i % len(names)]][arguments.experiences + i // len(names)] for i in range(arguments.operations)
        ]

        def update(experience: Experience) -> None:
            """One experience in, on disk, and the tool's class statistics and stability anew."""
            store.add(experience)
            store.statistics(experience.tool)
            store.retrieve(experience.tool, "", k=1)  # indexes it

        updates = timed([lambda e=experience: update(e) for experience in fresh])

        def safe_update(experience: Experience) -> None:
            update(experience)
            store.sync()

        more = [
            found[n][arguments.experiences + arguments.operations // len(names) + 1 + i]
            for n in names
            for i in range(30)
        ]
        synced = timed([lambda e=experience: safe_update(e) for experience in more])
        start = time.perf_counter()
        loaded = len(ExperienceStore(Path(folder) / "store"))
        loading = time.perf_counter() - start
    start = time.perf_counter()
    distil(found[names[0]], settings=DistilSettings())
    distilling = time.perf_counter() - start

    def both(seconds: list[float]) -> list[str]:
        ordered = sorted(seconds)
        return [f"{statistics.median(ordered) * 1e3:.3f} ms", f"{ordered[int(len(ordered) * 0.99)] * 1e3:.3f} ms"]

    rows = [
        ["retrieve (5 of a tool, by likeness)", *both(retrieves), PAPER["retrieve"]],
        ["update (append, index, statistics, stability)", *both(updates), PAPER["update"]],
        ["update, waiting for the disk (fsync)", *both(synced), PAPER["update"]],
        ["bytes of an experience on disk", f"{size / 1e3:.2f} KB", "", PAPER["bytes"]],
        [f"opening a store of {loaded:,}", f"{loading:.2f} s", "", ""],
        [f"distilling a tool of {len(found[names[0]]):,}", f"{distilling:.2f} s", "", ""],
    ]
    title = f"ExpG store, {arguments.tools} tools of {arguments.experiences:,} experiences each"
    print_table(title, ["", "median", "p99", "paper"], rows, ["numpy", "pydantic", "orjson"])


if __name__ == "__main__":
    main()
