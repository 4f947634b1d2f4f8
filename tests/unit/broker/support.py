"""Nodes over files in memory, on free ports of the loopback interface."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from kaa.broker.development import format_if_empty
from kaa.broker.node import Broker
from kaa.config.development import development_settings
from kaa.config.server import load_broker_config
from kaa.log.sim_files import SimFiles

if TYPE_CHECKING:
    from kaa.config.server import BrokerConfig

DATA = "/data"


def config(*overrides: str) -> BrokerConfig:
    listeners = "listeners=PLAINTEXT://127.0.0.1:0"
    return load_broker_config(development_settings(DATA, overrides=[listeners, *overrides])).config


def formatted(settings: BrokerConfig) -> SimFiles:
    files = SimFiles()
    assert format_if_empty(settings, files, Random(1), 0)
    return files


def node(settings: BrokerConfig, files: SimFiles | None = None) -> Broker:
    return Broker(settings, files=files or formatted(settings))
