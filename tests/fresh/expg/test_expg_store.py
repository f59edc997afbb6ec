import json
from pathlib import Path

import pytest
from expg_builders import GET_PARCEL, PERFECT, SEND_PARCEL, experience, many
from hypothesis import given, settings
from hypothesis import strategies as st

from fresh.expg import Experience, ExperienceStore, class_statistics
from fresh.expg.index import WordIndex
from fresh.expg.observed import words
from graph_schema.errors import MemoryFileError

BAD = "1111110000"


def several() -> list[Experience]:
    found = many({PERFECT: 5, BAD: 3}, seconds=0.5, time=3.0)
    odd = experience(number=77, tool=SEND_PARCEL, input={"parcel_id": "Ω\ud800", "big": 2**80})
    return [*found, odd]


def test_what_is_stored_is_loaded(tmp_path: Path) -> None:
    found = several()
    with ExperienceStore(tmp_path / "store") as store:
        assert store.extend(found) == 9
        assert store.extend(found) == 0
        before = store.bytes_on_disk()
    with ExperienceStore(tmp_path / "store") as again:
        assert sorted(again, key=lambda e: e.key)[0] == sorted(found, key=lambda e: e.key)[0]
        assert {e.key: e for e in again if e.tool == "get_parcel"} == {e.key: e for e in found[:8]}
        assert len(again) == 9 and not again.damaged
        assert again.extend(found) == 0
        assert again.bytes_on_disk() == before
        assert again.statistics("get_parcel") == class_statistics(found[:8])


def test_each_description_is_written_once(tmp_path: Path) -> None:
    with ExperienceStore(tmp_path / "s") as store:
        store.extend(several())
    lines = (tmp_path / "s" / "tools.jsonl").read_bytes().splitlines()
    assert sorted(json.loads(line)["tool"]["name"] for line in lines) == ["get_parcel", "send_parcel"]


def test_a_broken_last_line_costs_one_experience(tmp_path: Path) -> None:
    found = several()[:8]
    with ExperienceStore(tmp_path / "s") as store:
        store.extend(found)
    file = tmp_path / "s" / "experiences.jsonl"
    file.write_bytes(file.read_bytes()[:-40])
    with ExperienceStore(tmp_path / "s") as store:
        assert store.damaged == ["experiences.jsonl:8"]
        assert len(store) == 7
        assert store.add(found[7])
    with ExperienceStore(tmp_path / "s") as store:
        assert len(store) == 8
        assert {e.key for e in store} == {e.key for e in found}


@pytest.mark.parametrize("name", ["tools.jsonl", "experiences.jsonl"])
@pytest.mark.parametrize("line", ["5", "[]", "{}", '"x"', "null", '{"key": 1, "tool": 2}'])
def test_lines_of_another_shape_are_reported_and_skipped(tmp_path: Path, name: str, line: str) -> None:
    with ExperienceStore(tmp_path / "s") as store:
        store.extend(several())
        count = len(store)
    file = tmp_path / "s" / name
    file.write_text(f"{line}\n{file.read_text()}")
    with ExperienceStore(tmp_path / "s") as store:
        assert store.damaged == [f"{name}:1"] and len(store) == count


def test_foreign_newer_and_damaged_folders_are_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("mine")
    with pytest.raises(MemoryFileError, match="not an experience store"):
        ExperienceStore(foreign)
    assert [p.name for p in foreign.iterdir()] == ["notes.txt"]
    with pytest.raises(MemoryFileError, match="is a file"):
        ExperienceStore(foreign / "notes.txt")
    ExperienceStore(tmp_path / "s").close()
    manifest = tmp_path / "s" / "store.json"
    manifest.write_text('{"format": "fresh-experiences", "version": 99}')
    with pytest.raises(MemoryFileError, match="upgrade"):
        ExperienceStore(tmp_path / "s")
    manifest.write_text("{")
    with pytest.raises(MemoryFileError, match="damaged"):
        ExperienceStore(tmp_path / "s")


def test_in_memory_store_writes_nothing() -> None:
    store = ExperienceStore()
    store.extend(several())
    assert store.bytes_on_disk() == 0
    assert store.statistics("nobody").experiences == 0
    assert store.retrieve("nobody", "P00001") == []


def test_retrieve_finds_the_likeliest_first() -> None:
    store = ExperienceStore()
    store.extend(experience(number=n, context=f"parcel for depot {'north' if n % 2 else 'south'}") for n in range(20))
    (first, score), *rest = store.retrieve("get_parcel", "what of P00007 in the north?", k=3)
    assert first.invocation.input == {"parcel_id": "P00007"}
    assert [e.invocation.input for e, _ in rest] == [{"parcel_id": "P00019"}, {"parcel_id": "P00017"}]
    assert score > rest[0][1] > 0
    assert store.retrieve("get_parcel", "?!", k=3) == []
    assert store.retrieve("get_parcel", "P00007", k=0) == []


@settings(max_examples=60)
@given(st.lists(st.text("abcd ", max_size=12), max_size=15), st.text("abcd ", max_size=10), st.integers(1, 6))
def test_index_ranks_as_a_scan_of_all_texts_does(texts: list[str], query: str, k: int) -> None:
    import math

    index = WordIndex()
    for text in texts:
        index.add(text)
    counts = {w: sum(w in words(t) for t in texts) for w in words(query)}
    scores = [
        (sum(math.log1p(len(texts) / counts[w]) for w in set(words(query)) if w in words(t)), i)
        for i, t in enumerate(texts)
    ]
    expected = sorted(((s, i) for s, i in scores if s > 0), key=lambda x: (-round(x[0], 9), -x[1]))[:k]
    found = index.search(query, k)
    assert [round(s, 9) for _, s in found] == [round(s, 9) for s, _ in expected]
    assert {i for i, _ in found} <= {i for s, i in scores if s > 0}


@given(
    st.dictionaries(st.sampled_from([PERFECT, BAD, "0111111111"]), st.integers(1, 9), min_size=1), st.integers(1, 900)
)
def test_running_statistics_equal_those_from_scratch(sizes: dict[str, int], budget: int) -> None:
    found = many(sizes, tokens=7)
    found.append(experience(number=9999, context="longer " * 30))
    store = ExperienceStore()
    store.extend(found)
    assert store.statistics(GET_PARCEL.name, budget=budget) == class_statistics(found, budget=budget)
