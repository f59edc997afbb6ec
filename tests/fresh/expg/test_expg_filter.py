from statistics import mean

from expg_builders import GET_PARCEL, PERFECT, experience
from hypothesis import given
from hypothesis import strategies as st

from fresh.expg import Experience
from fresh.expg.filter import drop_ineffective, drop_outdated, drop_repeats, filter_experiences

BAD = "1111110000"
MIXED = "1111111100"


def at(time: float | None, bits: str = PERFECT, number: int = 0, **more: object) -> Experience:
    return experience(bits, time=time, number=number, **more)  # type: ignore[arg-type]


def test_repeats_keep_the_latest() -> None:
    first = at(1.0, run="a", task="x", number=1)
    again = at(2.0, run="b", task="y", number=1)
    other = at(1.0, number=2)
    assert first.key == again.key
    kept = drop_repeats([again, first, other])
    assert {(e.invocation.run, e.key) for e in kept} == {("b", again.key), ("run-2", other.key)}


def test_a_later_answer_to_the_same_question_replaces_the_earlier() -> None:
    old = at(1.0, number=1, response='{"state": "waiting"}')
    new = at(5.0, number=1, response='{"state": "sent"}')
    assert old.key != new.key
    assert drop_outdated([old, new]) == [new]
    undated = at(None, number=1, response='{"state": "lost"}')
    assert drop_outdated([old, undated]) == [old, undated]


def test_a_changed_schema_overtakes_older_experiences_of_its_domain() -> None:
    changed = GET_PARCEL.model_copy(update={"parameters": {"type": "object", "properties": {"code": {}}}})
    old = at(1.0, number=1, domain="post")
    new = at(5.0, number=2, tool=changed, domain="post")
    elsewhere = at(1.0, number=3, domain="shop")
    assert drop_outdated([old, new, elsewhere]) == [new, elsewhere]


def test_max_age() -> None:
    found = [at(float(t), number=t) for t in range(10)]
    assert [e.invocation.time for e in drop_outdated(found, max_age=3)] == [6.0, 7.0, 8.0, 9.0]


def test_effectiveness_check_by_hand() -> None:
    # Means by timestamp: 10, 8, 6, 8, 10. The first is above its next three; the second is not (8 follows).
    found = [at(0, PERFECT, 0), at(1, MIXED, 1), at(2, BAD, 2), at(3, MIXED, 3), at(4, PERFECT, 4)]
    assert [e.invocation.time for e in drop_ineffective(found)] == [1, 2, 3, 4]


def test_effectiveness_check_needs_three_later_timestamps_and_ties_are_not_lower() -> None:
    assert len(drop_ineffective([at(0), at(1, BAD, 1), at(2, BAD, 2)])) == 3
    assert len(drop_ineffective([at(0, BAD), at(1, BAD, 1), at(2, BAD, 2), at(3, BAD, 3)])) == 4


def test_a_timestamp_is_judged_by_the_mean_of_all_it_contributed() -> None:
    # Timestamp 0: one perfect, one bad: mean 8; the next three have 6 each.
    found = [at(0), at(0, BAD, 1), at(1, BAD, 2), at(2, BAD, 3), at(3, BAD, 4)]
    assert [e.invocation.time for e in drop_ineffective(found)] == [1, 2, 3]


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 10)), max_size=25))
def test_effectiveness_check_equals_an_independent_reading(pairs: list[tuple[int, int]]) -> None:
    found = [at(float(t), "1" * s + "0" * (10 - s), n) for n, (t, s) in enumerate(pairs)]
    times = sorted({t for t, _ in pairs})
    score = {t: mean(s for u, s in pairs if u == t) for t in times}
    lost = set()
    for t in times:
        following = [u for u in times if u > t][:3]
        if len(following) == 3 and max(score[u] for u in following) < score[t] - 1e-12:
            lost.add(float(t))
    assert {e.invocation.time for e in found} - {e.invocation.time for e in drop_ineffective(found)} == lost


def test_report_adds_up_and_order_is_by_time() -> None:
    found = [at(3.0, number=3), at(1.0, number=1), at(1.0, number=1), at(None, number=9)]
    kept, report = filter_experiences(found)
    assert [e.invocation.time for e in kept] == [None, 1.0, 3.0]
    assert report.given == 4 and report.repeats == 1 and report.kept == 3
    assert report.given == report.kept + report.repeats + report.outdated + report.ineffective


def test_effectiveness_can_be_turned_off() -> None:
    found = [at(0), *[at(t, BAD, t) for t in (1, 2, 3)]]
    assert len(filter_experiences(found)[0]) == 3
    assert len(filter_experiences(found, effectiveness=False)[0]) == 4
