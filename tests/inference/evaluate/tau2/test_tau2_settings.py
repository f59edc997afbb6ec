from __future__ import annotations

from pathlib import Path

import pytest

from graph_schema.errors import ConfigError
from inference.evaluate.tau2.settings import ErrorKind, Settings, load_settings


def test_the_shipped_file_makes_every_kind_of_error() -> None:
    settings = load_settings()
    assert set(settings.rates) == set(ErrorKind)
    assert all(rate > 0 for rate in settings.rates.values())
    assert settings.trials == 4 and settings.record_trials == 3


def test_overrides_and_defaults(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("rates: {wrong_object: 0.5}\n")
    settings = load_settings(path, seed=7, trials=None)
    assert settings == Settings(rates={ErrorKind.WRONG_OBJECT: 0.5}, seed=7)
    assert settings.as_json()["rates"] == {"wrong_object": 0.5}
    assert settings.only().rates == {}
    assert settings.only(ErrorKind.SKIPPED_READ, rate=0.2).rates == {ErrorKind.SKIPPED_READ: 0.2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rates: {typo: 0.1}", "typo"),
        ("rates: {wrong_object: 1.5}", "between 0 and 1"),
        ("rates: {wrong_object: 0.6, skipped_read: 0.6}", "at most 1"),
        ("trails: 3", "unknown settings: trails"),
        ("trials: 0", "trials must be at least 1"),
        ("max_revisions: -1", "max_revisions"),
        ("- a list", "one mapping"),
        ("{", "cannot be read as YAML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_settings(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml"):
        load_settings(tmp_path / "absent.yaml")
