from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from seer_builders import ChosenEncoder, made, run

from fresh.retrieval.encoder import HashedEncoder
from fresh.seer import Eviction, ExperiencePool, PoolSettings, Situation, Weights, load_pool, save_pool
from graph_schema.errors import ConfigError, MemoryFileError
from graph_schema.storage import file_hash

NOW = Situation(request="Please cancel my order", text="Please cancel my order", tools=("find",))


def filled() -> ExperiencePool:
    settings = PoolSettings(Weights.of(3, 2, 1), k=2, capacity=7, eviction=Eviction.LEAST_HELPFUL, query_only=True)
    pool = ExperiencePool(HashedEncoder(), settings)
    pool.add(
        [
            run("a", "Please cancel order #W2378156", ["find", made("cancel", {"order_id": "#W2378156"})]),
            run("b", "Отмени заказ ‘ü’ 🛒\nпожалуйста", ["наход\n", "pay"]),
            run("c", ""),
        ]
    )
    pool.feedback(pool.recall(NOW), helped=True)
    return pool


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_pool(filled(), tmp_path / "pool")
    return tmp_path / "pool"


def test_round_trip(saved: Path) -> None:
    pool, again = filled(), load_pool(saved)
    assert again.settings == pool.settings
    assert again.experiences == pool.experiences
    assert again.contents.counters == pool.contents.counters
    assert again.contents.recalls == pool.contents.recalls == 1
    assert np.array_equal(again.scores(NOW), pool.scores(NOW))
    assert again.recall(NOW) == pool.recall(NOW)
    assert again.add([run("a", "x"), run("d", "Walk the dog", ["walk"])]) == 1


def test_an_empty_pool_round_trips(tmp_path: Path) -> None:
    save_pool(ExperiencePool(HashedEncoder()), tmp_path / "pool")
    assert len(load_pool(tmp_path / "pool")) == 0


def test_saving_again_replaces_and_nothing_is_pickled(saved: Path) -> None:
    pool = load_pool(saved)
    pool.add([run("d", "Walk the dog", ["walk"])])
    save_pool(pool, saved)
    assert len(load_pool(saved)) == 4
    assert {file.suffix for file in saved.iterdir()} <= {".json", ".safetensors"}
    for file in saved.iterdir():
        assert b"2378156" not in file.read_bytes()


@pytest.mark.parametrize("pattern", ["runs.*.json", "embeddings.*.safetensors", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "changed", "missing"])
def test_a_damaged_file_is_one_clear_error(saved: Path, pattern: str, damage: str) -> None:
    (file,) = saved.glob(pattern)
    data = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(data[: len(data) // 2] if damage == "cut" else b"\0" + data[1:])
    with pytest.raises(MemoryFileError, match=str(saved)) as caught:
        load_pool(saved)
    assert "\n" not in str(caught.value)


def forge(folder: Path, name: str, data: bytes | dict[str, np.ndarray]) -> None:
    """Puts another content into a file, its hash in the manifest made to match."""
    manifest = json.loads((folder / "manifest.json").read_text())
    file = folder / manifest["files"][name]["path"]
    if isinstance(data, bytes):
        file.write_bytes(data)
    else:
        save_file(data, file)
    manifest["files"][name]["sha256"] = file_hash(file)
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("runs", [b"{}", b"[1, 2, 3]", b'[{"run_id": "a"}]', b"[", b"null"])
def test_runs_of_another_shape_are_refused(saved: Path, runs: bytes) -> None:
    forge(saved, "runs.json", runs)
    with pytest.raises(MemoryFileError, match="damaged"):
        load_pool(saved)


@pytest.mark.parametrize(
    "vectors",
    [
        {"runs": np.zeros((3, 256), np.float32)},
        {"runs": np.zeros((2, 256), np.float32), "requests": np.zeros((3, 256), np.float32)},
        {"runs": np.zeros((3, 256), np.float32), "requests": np.zeros((3, 9), np.float32)},
        {"runs": np.full((3, 256), np.nan, np.float32), "requests": np.zeros((3, 256), np.float32)},
        {"runs": np.zeros((3, 256), np.int32), "requests": np.zeros((3, 256), np.float32)},
    ],
)
def test_vectors_of_another_shape_are_refused(saved: Path, vectors: dict[str, np.ndarray]) -> None:
    forge(saved, "embeddings.safetensors", vectors)
    with pytest.raises(MemoryFileError, match="damaged"):
        load_pool(saved)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("settings", {"k": 4}),
        ("settings", None),
        ("encoder", {}),
        ("recalls", "many"),
        ("settings", {"weights": {"s1": 2, "s2": 0, "s3": 0}, "eviction": "oldest"}),
        ("settings", {"weights": {}, "eviction": "by mood"}),
        ("settings", {"weights": {}, "eviction": "oldest", "capacity": 2}),
    ],
)
def test_a_manifest_that_says_something_else_is_refused(saved: Path, key: str, value: object) -> None:
    manifest = json.loads((saved / "manifest.json").read_text())
    (saved / "manifest.json").write_text(json.dumps(manifest | {key: value}))
    with pytest.raises(MemoryFileError, match="damaged"):
        load_pool(saved)


def test_another_kind_of_folder_is_refused(saved: Path, tmp_path: Path) -> None:
    manifest = json.loads((saved / "manifest.json").read_text())
    (saved / "manifest.json").write_text(json.dumps(manifest | {"kind": "graph"}))
    with pytest.raises(MemoryFileError, match="no SEER pool"):
        load_pool(saved)
    with pytest.raises(MemoryFileError, match="no memory at"):
        load_pool(tmp_path / "nowhere")


def test_another_encoder_is_refused(saved: Path) -> None:
    for encoder in (ChosenEncoder({}), HashedEncoder(64)):
        with pytest.raises(ConfigError, match="load it with that one"):
            load_pool(saved, encoder)
    assert len(load_pool(saved, HashedEncoder())) == 3
