"""Broker settings that only Kaa has. Their names start with `kaa.`."""

from kaa.config.tables.vocabulary import (
    BOOLEAN,
    HIGH,
    key,
)

# fmt: off
KEYS = (
    key("kaa.log.group.commit.enable", BOOLEAN, False, HIGH,
        "Whether an append, an offset commit or a transaction step is answered only after it is "
        "forced to disk, several sharing one flush. Off, a power cut may lose what no other "
        "replica has; a killed process loses nothing either way."),
)
# fmt: on
