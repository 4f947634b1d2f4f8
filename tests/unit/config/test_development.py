"""A node without a file."""

from pathlib import Path

from kaa.config.development import development_settings
from kaa.config.server import load_broker_config
from kaa.config.sources import SettingSource


def test_it_runs_as_it_is() -> None:
    loaded = load_broker_config(development_settings("kaa-data"))
    config = loaded.config
    assert [str(each) for each in config.listeners.all] == [
        "PLAINTEXT://127.0.0.1:9092",
        "CONTROLLER://127.0.0.1:0",
    ]
    assert config.log_dirs == (str(Path.cwd() / "kaa-data"),)
    assert config.get_int("offsets.topic.replication.factor") == 1
    assert config.get_int("transaction.state.log.min.isr") == 1
    assert config.get_int("group.initial.rebalance.delay.ms") == 0
    assert loaded.warnings == ()


def test_environment_and_command_line_come_first() -> None:
    settings = development_settings(
        "kaa-data",
        environment={"KAFKA_NUM_PARTITIONS": "3", "KAFKA_BROKER_ID": "7"},
        overrides=["log.dir=/d", "controller.quorum.voters=7@127.0.0.1:0"],
    )
    config = load_broker_config(settings).config
    assert config.node_id == 7
    assert config.log_dirs == ("/d",)
    assert config.get_int("num.partitions") == 3
    assert config.get_list("controller.quorum.bootstrap.servers") == ()
    assert settings["num.partitions"].source is SettingSource.ENVIRONMENT


def test_other_listeners_still_get_a_controller() -> None:
    settings = development_settings("d", overrides=["listeners=PLAINTEXT://127.0.0.1:0"])
    assert settings["listeners"].text == "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    assert settings["listeners"].source is SettingSource.COMMAND_LINE
    load_broker_config(settings)
    own = ["listeners=PLAINTEXT://:1,CONTROLLER://127.0.0.1:9093"]
    assert development_settings("d", overrides=own)["listeners"].text == own[0].partition("=")[2]
