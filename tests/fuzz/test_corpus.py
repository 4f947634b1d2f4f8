"""The corpora that fuzzing found, and honest inputs, replayed without a fuzzer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.__main__ import main, replay
from tests.fuzz.target import CORPUS, CORPUS_BYTES_MAX, Target
from tests.fuzz.targets import TARGETS

CORPORA_BYTES_MAX = 300_000

every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


@every_target
def test_the_corpus_keeps_every_promise(target: Target) -> None:
    for data in target.corpus():
        target.run(data)


@every_target
def test_honest_inputs_keep_every_promise(target: Target) -> None:
    seeds = list(target.seeds())
    assert seeds
    for data in seeds:
        target.run(data)


@every_target
def test_short_inputs_keep_every_promise(target: Target) -> None:
    for data in (b"", b"\x00", b"\xff", bytes(2), bytes(64), b"\xff" * 64, bytes(range(256))):
        target.run(data)


def test_every_corpus_has_a_target_and_together_they_are_small() -> None:
    files = list(CORPUS.iterdir())
    assert {path.stem for path in files} == set(TARGETS)
    assert sum(path.stat().st_size for path in files) <= CORPORA_BYTES_MAX


def test_the_shortest_inputs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.target.CORPUS", tmp_path)
    target = Target("some", bytes.hex)  # type: ignore[arg-type]
    assert target.corpus() == []
    long, short = b"x" * CORPUS_BYTES_MAX, b"ab"
    target.keep([long, short, b"b", b"", short])
    assert target.corpus() == [b"b", short]


def test_a_replay_tells_what_it_ran(capsys: pytest.CaptureFixture[str]) -> None:
    ran: list[bytes] = []
    target = Target("header", ran.append, lambda: [b"seed"])
    assert replay(target, 1, keep=False)
    assert ran == [*target.corpus(), b"seed"]
    assert f"{len(ran)} runs" in capsys.readouterr().out


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(SystemExit):
        main(["no-such-target"])
