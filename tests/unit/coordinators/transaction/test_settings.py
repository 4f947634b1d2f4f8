from __future__ import annotations

from kaa.config.development import development_settings
from kaa.config.server import load_broker_config
from kaa.coordinators.transaction.settings import TransactionSettings, transaction_settings


def test_defaults_are_those_of_the_configuration() -> None:
    config = load_broker_config(development_settings("data")).config
    assert transaction_settings(config) == TransactionSettings()


def test_every_setting_is_taken_over() -> None:
    overrides = [
        "transaction.max.timeout.ms=1",
        "transactional.id.expiration.ms=2",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms=3",
        "transaction.remove.expired.transaction.cleanup.interval.ms=4",
        "transaction.two.phase.commit.enable=true",
    ]
    config = load_broker_config(development_settings("data", overrides=overrides)).config
    assert transaction_settings(config) == TransactionSettings(1, 2, 3, 4, True)
