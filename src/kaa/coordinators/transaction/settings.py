"""The settings of the broker that the transaction coordinator works with."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kaa.config.server import BrokerConfig

FEATURE = "transaction.version"


class TransactionSettings(NamedTuple):
    """Defaults are those of Kafka."""

    timeout_ms_max: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    expiration_interval_ms: int = 3_600_000
    two_phase_enable: bool = False
    # The finalized level of the feature.
    transaction_version: int = 2


def transaction_settings(config: BrokerConfig) -> TransactionSettings:
    """Those of the configuration; the level is that of new clusters."""
    return TransactionSettings(
        config.get_int("transaction.max.timeout.ms"),
        config.get_int("transactional.id.expiration.ms"),
        config.get_int("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        config.get_int("transaction.remove.expired.transaction.cleanup.interval.ms"),
        config.get_boolean("transaction.two.phase.commit.enable"),
    )
