"""Names of directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaa.config.directories import directory_path
from tests.unit.config.test_server import config, refused

HERE = str(Path.cwd())


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/a", "/a"),
        ("/a/", "/a"),
        ("/a//b/.", "/a/b"),
        ("a", f"{HERE}/a"),
        ("./a", f"{HERE}/a"),
        ("/link/../a", "/link/../a"),
    ],
)
def test_a_directory_is_named_by_its_absolute_path(text: str, path: str) -> None:
    assert directory_path(text) == path


def test_directories_of_a_node() -> None:
    node = config("log.dirs=a,/b/,/b,./a", "metadata.log.dir=m/", "cordoned.log.dirs=/b/,a")
    assert node.log_dirs == (f"{HERE}/a", "/b")
    assert node.metadata_log_dir == f"{HERE}/m"
    assert node.cordoned_log_dirs == ("/b", f"{HERE}/a")


@pytest.mark.parametrize(
    ("settings", "name", "words"),
    [
        (["log.dirs=/a,/a/b"], "log.dirs", "/a/b, which is inside /a, a log directory"),
        (["log.dirs=/a/t-0/deep,/a/"], "log.dirs", "/a/t-0/deep, which is inside /a"),
        (["log.dirs=/a,/b/../a/c"], "log.dirs", "/b/../a/c, which is inside /a"),
        (["log.dirs=/a", "metadata.log.dir=/a/m"], "metadata.log.dir", "/a/m, which is inside /a"),
        (["log.dirs=/a,b", "cordoned.log.dirs=/c"], "cordoned.log.dirs", "some of /a, b, or * for"),
    ],
)
def test_a_list_that_cannot_be_served_is_refused(
    settings: list[str], name: str, words: str
) -> None:
    assert words in refused(*settings)[name]


def test_directories_side_by_side_are_fine_whatever_their_names_begin_with() -> None:
    assert config("log.dirs=/a,/ab", "metadata.log.dir=/a-m").log_dirs == ("/a", "/ab")
    assert config("log.dirs=/m/a", "metadata.log.dir=/m").metadata_log_dir == "/m"


def test_a_name_that_leads_out_of_a_directory_again_is_not_inside_it() -> None:
    assert config("log.dirs=/x/one,/x/one/../two").log_dirs == ("/x/one", "/x/one/../two")
