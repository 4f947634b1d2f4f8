"""Settings of one log: the topic configs that storage obeys, with Kafka's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

_NEVER = 2**63 - 1
# Of the local part of a tiered log: the same as for all of it.
_AS_THE_LOG = -2


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Field `x_y_ms` is the topic config `x.y.ms`. Values are valid; `kaa.config` checks."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _NEVER
    flush_ms: int = _NEVER
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = _NEVER
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = _NEVER
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def copies_remotely(self) -> bool:
        """Whether segments are copied to remote storage before they go."""
        return self.remote_storage_enable and not self.remote_log_copy_disable

    @property
    def kept_ms(self) -> int:
        """How long records are kept locally; -1 for ever."""
        is_own = self.copies_remotely and self.local_retention_ms != _AS_THE_LOG
        return self.local_retention_ms if is_own else self.retention_ms

    @property
    def kept_bytes(self) -> int:
        """How much is kept locally; -1 for all."""
        is_own = self.copies_remotely and self.local_retention_bytes != _AS_THE_LOG
        return self.local_retention_bytes if is_own else self.retention_bytes

    @property
    def segment_age_ms_max(self) -> int:
        """When a segment rolls by time: a compacted log may not hold records back for longer."""
        lag_ms = self.max_compaction_lag_ms
        return lag_ms if 0 < lag_ms < self.segment_ms and self.compact else self.segment_ms


@dataclass(frozen=True, slots=True)
class LogManagerConfig:
    """Node-wide settings of storage, with the names and defaults of the broker configs."""

    log_retention_check_interval_ms: int = 300_000
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
    transaction_partition_verification_enable: bool = True
    log_cleaner_enable: bool = True
    log_cleaner_dedupe_buffer_size: int = 134_217_728
    log_cleaner_io_buffer_load_factor: float = 0.9
    # For logs whose topic has no settings of its own.
    defaults: LogConfig = field(default_factory=LogConfig)
