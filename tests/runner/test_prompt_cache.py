"""Saved prompts: the same bits as computing them, bound to their model, refused when damaged."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.errors import DeniedError, InvalidFileError, RefusedError, UsageError
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.kv_cache import CacheType
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.prompt_cache import (
    Binding,
    binding_of,
    common_prefix,
    load_noted,
    load_prompt,
    save_prompt,
)
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from tests.reference.tiny_models import VOCABULARY, TinyShape, write_tiny_llama

TOKENS = np.random.default_rng(6).integers(0, VOCABULARY, 75).tolist()
SHAPE = TinyShape(layers=2, embedding=64, heads=4, kv_heads=2, feed_forward=96)


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OrkPack]:
    folder = tmp_path_factory.mktemp("prompt")
    pack_gguf(write_tiny_llama(folder / "tiny.gguf", shape=SHAPE), folder / "tiny.orkpack")
    with OrkPack.open(folder / "tiny.orkpack") as opened:
        yield opened


def binding(engine: Engine) -> Binding:
    return binding_of(engine, "ab" * 32, "w8a8")


def saved(pack: OrkPack, path: Path, count: int = 70, cache: CacheType = "f16") -> Engine:
    engine = Engine.from_pack(pack, cache_type=cache)
    engine.prefill(TOKENS[:count])
    save_prompt(path, engine, TOKENS[:count], binding(engine))
    return engine


@pytest.mark.parametrize("cache", ["f16", "f32", "int8"])
@pytest.mark.parametrize("count", [1, 32, 70])
def test_a_loaded_prompt_goes_on_with_the_same_bits(
    pack: OrkPack, tmp_path: Path, cache: CacheType, count: int
) -> None:
    first = saved(pack, tmp_path / "p", count, cache)
    second = Engine.from_pack(pack, cache_type=cache)
    assert load_prompt(tmp_path / "p", second, binding(second)) == TOKENS[:count]
    assert second.position == count
    assert second.decode(5).tobytes() == first.decode(5).tobytes()
    # A beginning of it serves as well.
    second.rewind(count // 2)
    first.rewind(count // 2)
    assert second.prefill(TOKENS[70:]).tobytes() == first.prefill(TOKENS[70:]).tobytes()


def test_only_its_owner_may_read_it_and_nothing_is_left_beside(pack: OrkPack, tmp_path: Path) -> None:
    saved(pack, tmp_path / "p")
    saved(pack, tmp_path / "p", 10)
    assert stat.S_IMODE((tmp_path / "p").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


def test_a_smaller_context_takes_the_beginning(pack: OrkPack, tmp_path: Path) -> None:
    saved(pack, tmp_path / "p")
    small = Engine.from_pack(pack, context=40)
    assert load_prompt(tmp_path / "p", small, binding(small)) == TOKENS[:40]
    fresh = Engine.from_pack(pack, context=40)
    fresh.prefill(TOKENS[:39])
    small.rewind(39)
    assert small.decode(3).tobytes() == fresh.decode(3).tobytes()


@pytest.mark.parametrize(
    ("change", "named"),
    [({"model_sha256": "cd" * 32}, "model_sha256"), ({"quant": "f32"}, "quant"), ({"layers": 3}, "layers")],
)
def test_another_model_or_arithmetic_is_refused(
    pack: OrkPack, tmp_path: Path, change: dict[str, object], named: str
) -> None:
    engine = saved(pack, tmp_path / "p")
    with pytest.raises(RefusedError, match=named):
        load_prompt(tmp_path / "p", engine, dataclasses.replace(binding(engine), **change))  # type: ignore[arg-type]
    other = Engine.from_pack(pack, cache_type="int8")
    with pytest.raises(RefusedError, match="its cache is f16, this run's is int8"):
        load_prompt(tmp_path / "p", other, binding(other))
    assert other.position == 0


def test_what_is_no_prompt_cache_is_named(pack: OrkPack, tmp_path: Path) -> None:
    engine = Engine.from_pack(pack)
    for content in (b"", b"GGUF" + bytes(100), b"ORKPRMPT"):
        (tmp_path / "p").write_bytes(content)
        with pytest.raises(InvalidFileError, match="not a prompt cache"):
            load_prompt(tmp_path / "p", engine, binding(engine))
    for place in (tmp_path / "absent", tmp_path, Path("/dev/zero")):
        with pytest.raises(UsageError, match=str(place)):
            load_prompt(place, engine, binding(engine))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe"):
        load_prompt(tmp_path / "pipe", engine, binding(engine))
    (tmp_path / "p").write_bytes(b"ORKPRMPT" + (2).to_bytes(4, "little") + bytes(4))
    with pytest.raises(InvalidFileError, match="version is 2"):
        load_prompt(tmp_path / "p", engine, binding(engine))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_damage_is_noticed_and_leaves_the_engine_alone(
    pack: OrkPack, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damage") / "p"
    engine = saved(pack, path, 20)
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    else:
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    path.write_bytes(bytes(content))
    engine.rewind(7)
    try:
        tokens = load_prompt(path, engine, binding(engine))
    except (InvalidFileError, RefusedError):
        assert engine.position == 7
    else:
        # A changed space or letter of a JSON key's case cannot be: only equal facts come through.
        assert tokens == TOKENS[:20]


def test_a_header_that_promises_other_tokens_is_damage(pack: OrkPack, tmp_path: Path) -> None:
    engine = saved(pack, tmp_path / "p", 20)
    content = (tmp_path / "p").read_bytes()
    length = int.from_bytes(content[12:16], "little")
    header, payload = json.loads(content[16 : 16 + length]), content[16 + length :]
    for count in (19, 10**9, "20", -1):
        changed = json.dumps(header | {"tokens": count}).encode()
        head = content[:12] + len(changed).to_bytes(4, "little")
        (tmp_path / "p").write_bytes(head + changed + payload)
        with pytest.raises(InvalidFileError):
            load_prompt(tmp_path / "p", engine, binding(engine))


def test_a_folder_that_is_not_there_or_not_ours_is_named(
    pack: OrkPack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine.from_pack(pack)
    with pytest.raises(ValueError, match="holds 0"):
        save_prompt(tmp_path / "p", engine, [1], binding(engine))

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("orkbench_tui.runner.prompt_cache.os.open", refuse)
    with pytest.raises(DeniedError, match="cannot write"):
        save_prompt(tmp_path / "p", engine, [], binding(engine))


def test_nothing_but_our_own_files_is_replaced(pack: OrkPack, tmp_path: Path) -> None:
    engine = Engine.from_pack(pack)
    engine.prefill([1, 2])
    (tmp_path / "letter").write_text("dear all")
    with pytest.raises(RefusedError, match="another kind"):
        save_prompt(tmp_path / "letter", engine, [1, 2], binding(engine))
    assert (tmp_path / "letter").read_text() == "dear all"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="no regular file"):
        save_prompt(tmp_path / "pipe", engine, [1, 2], binding(engine))
    # Positive control: our own file, and an empty one, are.
    (tmp_path / "empty").touch()
    for _ in range(2):
        save_prompt(tmp_path / "empty", engine, [1, 2], binding(engine))
    assert load_prompt(tmp_path / "empty", engine, binding(engine)) == [1, 2]


@given(notes=st.binary(max_size=200))
@settings(max_examples=20, deadline=None)
def test_notes_come_back(pack: OrkPack, tmp_path_factory: pytest.TempPathFactory, notes: bytes) -> None:
    path = tmp_path_factory.mktemp("notes") / "p"
    engine = Engine.from_pack(pack)
    engine.prefill([1, 2, 3])
    save_prompt(path, engine, [1, 2, 3], binding(engine), notes)
    other = Engine.from_pack(pack)
    assert load_noted(path, other, binding(other), "note") == ([1, 2, 3], notes)
    if not notes:
        assert load_prompt(path, other, binding(other)) == [1, 2, 3]
        return
    with pytest.raises(RefusedError, match="holds a conversation"):
        load_prompt(path, other, binding(other))


def test_common_prefix() -> None:
    assert common_prefix([1, 2, 3], [1, 2, 4]) == 2
    assert common_prefix([1, 2], [1, 2, 4]) == 2
    assert common_prefix([], [1]) == 0


def test_restoring_other_arrays_is_refused(pack: OrkPack) -> None:
    engine = Engine.from_pack(pack)
    with pytest.raises(ValueError, match="not the keys and values of 3 tokens"):
        engine.restore(3, [])
