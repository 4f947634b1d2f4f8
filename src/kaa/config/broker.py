"""The settings of a broker: Kafka's, and the few of Kaa."""

from kaa.config.definition import ConfigDef, UpdateMode
from kaa.config.tables import (
    broker_groups,
    broker_kaa,
    broker_log,
    broker_network,
    broker_quorum,
    broker_remote,
    broker_replication,
    broker_security,
    broker_server,
    broker_share,
    broker_transactions,
)

BROKER = ConfigDef(
    "broker",
    (
        *broker_quorum.KEYS,
        *broker_network.KEYS,
        *broker_log.KEYS,
        *broker_replication.KEYS,
        *broker_groups.KEYS,
        *broker_transactions.KEYS,
        *broker_server.KEYS,
        *broker_security.KEYS,
        *broker_share.KEYS,
        *broker_remote.KEYS,
        *broker_kaa.KEYS,
    ),
)

# What can change while the broker runs: the dynamic ones above, and throttles that no file sets.
DYNAMIC_BROKER = ConfigDef(
    "dynamic broker",
    (
        *(key for key in BROKER if key.update_mode is not UpdateMode.READ_ONLY),
        *broker_replication.DYNAMIC_KEYS,
    ),
)
