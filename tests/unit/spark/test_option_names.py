"""Misspelt options are reported, those of clients in a warning."""

from __future__ import annotations

import pytest

from kaa.spark.errors import OptionError
from kaa.spark.option_names import SINK, TABLE, check_names
from kaa.spark.options import sink_options, source_options

BASE = {"kafka.bootstrap.servers": "a:1", "subscribe": "t"}


def test_a_misspelt_option_is_refused_with_the_nearest() -> None:
    with pytest.raises(OptionError, match="no option startingOffset; did you mean startingOffsets"):
        source_options({**BASE, "startingOffset": "earliest"}, is_stream=True)
    with pytest.raises(OptionError, match="no option exactlyonec; did you mean exactlyOnce"):
        sink_options({"kafka.bootstrap.servers": "a:1", "topic": "t", "exactlyonec": "true"})
    with pytest.raises(OptionError, match=r"no option zzz$"):
        check_names(["zzz"], TABLE, ("catalog.",))


def test_what_spark_and_the_registry_say_is_no_slip() -> None:
    assert check_names(["checkpointLocation", "path", "TOPIC", "__internal"], SINK) == []
    assert check_names(["store.region", "atoffsets"], TABLE, ("store.",)) == []
    options = {**BASE, "valueFormat": "json", "schemaRegistry.url": "http://r"}
    assert source_options(options, is_stream=False).warnings == ()


def test_unknown_settings_of_clients_are_told() -> None:
    given = {
        **BASE,
        "kafka.fetch.min.byte": "1",
        "kafka.fetch.min.bytes": "1",
        "groupIdPrefix": "g",
    }
    assert source_options(given, is_stream=True).warnings == (
        "option kafka.fetch.min.byte is not a client setting, and has no effect",
        "option groupIdPrefix has no effect",
    )
