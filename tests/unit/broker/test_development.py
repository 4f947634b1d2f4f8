from __future__ import annotations

from random import Random

import pytest

from kaa.broker.development import format_if_empty
from kaa.log.properties import read_meta_properties
from kaa.log.sim_files import CrashError, CrashMode, SimFiles
from tests.unit.broker.support import DATA, config


def test_empty_directory_is_formatted_once() -> None:
    settings, files = config(), SimFiles()
    assert format_if_empty(settings, files, Random(1), 0)
    first = read_meta_properties(files, DATA)
    assert first is not None
    assert first.node_id == settings.node_id
    assert not format_if_empty(settings, files, Random(2), 0)
    assert read_meta_properties(files, DATA) == first


@pytest.mark.parametrize("mode", ["kill", "lost", "torn"])
def test_a_format_that_was_interrupted_is_gone_on_with(mode: CrashMode) -> None:
    settings = config("log.dirs=/one,/two,/three", "metadata.log.dir=/two")
    step = 0
    while True:
        files = SimFiles(crash_at=step, seed=step)
        try:
            format_if_empty(settings, files, Random(step), 0)
        except CrashError:
            pass
        else:
            break
        found = files.restart(mode, seed=step)
        format_if_empty(settings, found, Random(step), 0)
        properties = [read_meta_properties(found, path) for path in settings.log_dirs]
        assert None not in properties, f"{mode} at {step}: {properties}"
        assert len({each.cluster_id for each in properties if each is not None}) == 1
        assert not format_if_empty(settings, found, Random(step + 1), 0)
        step += 1
    assert step > 10


def test_a_disk_that_was_used_is_not_given_another_metadata_log() -> None:
    settings, files = config("log.dirs=/one,/two", "metadata.log.dir=/one"), SimFiles()
    assert format_if_empty(settings, files, Random(1), 0)
    files.make_directory("/two/orders-0")
    for path in ("/one/meta.properties", "/one/bootstrap.checkpoint"):
        files.unlink(path)
    assert not format_if_empty(settings, files, Random(2), 0)
