"""The settings of a broker: Kafka's, and the few of Kaa."""

from kaa.config.definition import ConfigDef, UpdateMode
from kaa.config.tables.broker import (
    groups,
    kaa,
    log,
    network,
    quorum,
    remote,
    replication,
    security,
    server,
    share,
    transactions,
)

BROKER = ConfigDef(
    "broker",
    (
        *quorum.KEYS,
        *network.KEYS,
        *log.KEYS,
        *replication.KEYS,
        *groups.KEYS,
        *transactions.KEYS,
        *server.KEYS,
        *security.KEYS,
        *share.KEYS,
        *remote.KEYS,
        *kaa.KEYS,
    ),
)

# What can change while the broker runs: the dynamic ones above, and throttles that no file sets.
DYNAMIC_BROKER = ConfigDef(
    "dynamic broker",
    (
        *(key for key in BROKER if key.update_mode is not UpdateMode.READ_ONLY),
        *replication.DYNAMIC_KEYS,
    ),
)
