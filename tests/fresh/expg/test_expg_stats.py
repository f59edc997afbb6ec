import math
import random

from expg_builders import PERFECT, experience, many
from hypothesis import given
from hypothesis import strategies as st

from fresh.expg import FEATURE_NAMES, class_statistics, partition

BAD = "1111110000"
SIZES = st.dictionaries(st.text("01", min_size=10, max_size=10), st.integers(1, 6), max_size=5)


def feature(vector: list[float], name: str) -> float:
    return vector[FEATURE_NAMES.index(name)]


def test_by_hand() -> None:
    found = [*many({PERFECT: 6, BAD: 2}), experience("0111111111", number=99, seconds=3.0, tokens=20)]
    statistics = class_statistics(found)
    assert (statistics.experiences, statistics.classes) == (9, 3)
    assert statistics.perfect_share == 6 / 9
    assert statistics.largest_other_share == 2 / 9
    assert statistics.largest_other == (1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
    p = [6 / 9, 2 / 9, 1 / 9]
    assert math.isclose(statistics.entropy, -sum(x * math.log(x) for x in p) / math.log(3))
    assert statistics.aspect_means[0] == 8 / 9 and statistics.aspect_means[6] == 7 / 9
    assert statistics.success_rate == 7 / 9
    vector = statistics.vector()
    assert feature(vector, "experiences_log1p") == math.log(10)
    assert feature(vector, "mean_needed_now") == 8 / 9
    assert feature(vector, "seconds_log1p") == math.log(4) and feature(vector, "seconds_missing") == 0
    assert math.isclose(feature(vector, "tokens_log1p"), math.log(21)) and feature(vector, "tokens_missing") == 0


def test_a_single_experience_is_never_stable() -> None:
    assert not class_statistics(many({BAD: 1}), alpha=0.8).stable
    assert class_statistics(many({BAD: 2}), alpha=0.8).stable


def test_nothing_known() -> None:
    vector = class_statistics([]).vector()
    assert feature(vector, "seconds_missing") == feature(vector, "tokens_missing") == 1
    assert sum(vector) == 2
    assert class_statistics([]).mean_score is None


@given(SIZES, st.randoms(use_true_random=False))
def test_vector_is_finite_bounded_and_independent_of_order(sizes: dict[str, int], shuffler: random.Random) -> None:
    found = many(sizes)
    vector = class_statistics(found).vector()
    shuffler.shuffle(found)
    assert class_statistics(found).vector() == vector
    assert len(vector) == len(FEATURE_NAMES) == 19
    assert all(math.isfinite(value) for value in vector)
    named = dict(zip(FEATURE_NAMES, vector, strict=True))
    assert all(-1e-12 <= value <= 1 + 1e-12 for name, value in named.items() if not name.endswith("log1p"))


@given(SIZES)
def test_partition_is_a_partition(sizes: dict[str, int]) -> None:
    found = many(sizes)
    classes = partition(found)
    assert sorted(e.key for c in classes for e in c.members) == sorted(e.key for e in found)
    assert all(e.scores == c.scores for c in classes for e in c.members)
    assert {"".join(map(str, c.scores)): len(c.members) for c in classes} == sizes
    assert [len(c.members) for c in classes] == sorted(sizes.values(), reverse=True)
