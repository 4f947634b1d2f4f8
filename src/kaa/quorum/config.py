"""The settings of the quorum, under the names that Kafka gives them in `server.properties`."""

from __future__ import annotations

from kaa.quorum.values import Value


class QuorumConfig(Value):
    """`controller.quorum.*`, with Kafka's defaults but for one."""

    # How long an election may take; each is drawn from one to two times this.
    election_timeout_ms: int = 1000
    # How long a follower waits for its leader before it looks for a new one.
    fetch_timeout_ms: int = 2000
    # The longest wait of the last of a resigned leader's successors.
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    # How long a leader gathers records before it syncs them. Kafka's default is 25; here what comes
    # while the disk works shares the next sync anyway.
    append_linger_ms: int = 0
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20
    # How long a leader may hold a fetch that it has nothing for. Fixed in Kafka, not a setting.
    fetch_max_wait_ms: int = 500

    @property
    def check_quorum_timeout_ms(self) -> int:
        """How long a leader leads without hearing from a majority."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_quorum_epoch_timeout_ms(self) -> int:
        """How often a leader tells voters that do not fetch that it leads."""
        return self.fetch_timeout_ms // 2
