from __future__ import annotations

from random import Random

from kaa.broker.development import format_if_empty
from kaa.log.properties import read_meta_properties
from kaa.log.sim_files import SimFiles
from tests.unit.broker.support import DATA, config


def test_empty_directory_is_formatted_once() -> None:
    settings, files = config(), SimFiles()
    assert format_if_empty(settings, files, Random(1), 0)
    first = read_meta_properties(files, DATA)
    assert first is not None
    assert first.node_id == settings.node_id
    assert not format_if_empty(settings, files, Random(2), 0)
    assert read_meta_properties(files, DATA) == first
