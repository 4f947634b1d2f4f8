from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kaa.controller.image import ClusterImage
from kaa.serving import metadata_answers
from kaa.serving.metadata_answers import MetadataAnswers
from kaa.wire.messages.metadata_cluster import FeatureLevelRecord

CHANGE = FeatureLevelRecord(name="group.version", feature_level=1)


@pytest.fixture
def view() -> Any:
    return SimpleNamespace(image=ClusterImage())


@pytest.fixture
def answers(view: Any) -> MetadataAnswers:
    return MetadataAnswers(cast("Any", view))


def test_an_answer_stands_until_the_image_changes(view: Any, answers: MetadataAnswers) -> None:
    answers.keep(answers.current(), "all", b"answer")
    assert answers.current() == {"all": b"answer"}
    view.image.replay(CHANGE)
    assert answers.current() == {}


def test_another_image_has_other_answers(view: Any, answers: MetadataAnswers) -> None:
    answers.keep(answers.current(), "all", b"answer")
    view.image = ClusterImage()
    assert answers.current() == {}


def test_an_answer_that_took_longer_than_its_image_is_not_kept(
    view: Any, answers: MetadataAnswers
) -> None:
    begun = answers.current()
    view.image.replay(CHANGE)
    answers.keep(begun, "all", b"answer")
    assert answers.current() == {}


def test_answers_are_bounded_in_number(
    answers: MetadataAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_answers, "METADATA_ANSWERS_MAX", 2)
    for number in range(3):
        answers.keep(answers.current(), number, b"answer")
        assert number in answers.current()
    assert list(answers.current()) == [2]


def test_answers_are_bounded_in_size(
    answers: MetadataAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_answers, "METADATA_ANSWERS_BYTES_MAX", 10)
    answers.keep(answers.current(), "a", b"123456")
    answers.keep(answers.current(), "b", b"1234")
    assert list(answers.current()) == ["a", "b"]
    answers.keep(answers.current(), "c", b"1")
    assert list(answers.current()) == ["c"]
    answers.keep(answers.current(), "d", b"12345678901")
    assert answers.current() == {}
