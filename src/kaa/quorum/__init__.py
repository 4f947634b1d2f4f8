"""KRaft consensus: one replica of the metadata quorum, as a machine without IO.

The replicas of the quorum agree on one log. A majority of the voters elects a leader for an epoch
(KIP-595, with pre-votes by KIP-996); only the leader appends; the others fetch from it, and a fetch
at an offset says that all before it is on the fetcher's disk. What a majority has on disk is
committed: the high watermark. Replicas that are too far behind fetch a snapshot (KIP-630). A leader
that no majority fetches from resigns. Voters are replicas with directory ids in a set that is data
(KIP-853), read from the log, or fixed by `controller.quorum.voters`.

How to read the package: `states` and `transitions` say what a replica can be; `leader` holds the
high watermark; `replica` changes state; `serving` answers requests, `replies` handles answers,
`duties` are the timers; `machine` puts them together. `log_view` explains how logs are compared,
`connections` why late answers are harmless.

## What a driver must do

A driver is the only owner of a `QuorumMachine`: one task, one queue of events.

1. Before the start: recover the log and flush it. If the newest snapshot is newer than the log end
   (higher epoch, or same epoch and higher offset), empty the log and let it start at the snapshot's
   end offset. Read the quorum-state file. Fill a `VoterSetHistory`: the static voters, then every
   VotersRecord of the newest snapshot (at its last contained offset) and of the log after it,
   committed or not.
2. Build the machine with a `LogView` on that log and hand in `Start`. A quorum of one leads when
   `handle` returns.
3. For each event: call `handle(event, now_ms)` with a monotonic clock and perform the effects in
   the order given, all of them before the next event is handed in. Hand in `Tick` when
   `next_deadline_ms` has come and nothing else has.
4. `PersistElection`: write the quorum-state file and fsync it and its directory *before* the next
   effect. No vote, no request and no answer of an epoch leaves before its epoch and vote are on
   disk.
5. `AppendLeaderChange`, `AppendAsLeader`, `AppendAsFollower`, `TruncateLog`, `InstallSnapshot`
   change the log. The change must be visible in the `LogView` before the next event. Then flush
   (`AppendAsFollower` with `flush=False` need not) and hand in `LogWritten` with the id of the
   write and the log end offset, in order; one report stands for all writes before it, so that
   several can share one fsync. The fsync may run elsewhere while other events are handled; hand in
   a `Tick` after the append then, and waiting followers get the records while the disk works.
6. A VotersRecord among what was appended or installed: hand in `VoterSetRead` before the
   `LogWritten` of that write.
7. `AppendAsFollower`: the first batch must start at the log end offset, CRC and format are checked;
   the append ends before the first batch that is wrong, and what was appended is reported. Never
   append half a batch. If not even the first could be taken, hand in `FetchDamaged` before the
   `LogWritten`.
8. A failed write or fsync is not retried: stop the machine and take the directory offline.
9. `BeginSnapshot`, `AppendToSnapshot`, `DiscardSnapshot` work on an unfinished file that is not yet
   a snapshot of the `LogView`; `InstallSnapshot` fsyncs it, makes it one, and empties the log, in
   this order, so that step 1 finishes the work after a crash in between. A file that turns out
   damaged is removed, and `FetchDamaged` handed in instead of `LogWritten`; the log stays as it is.
10. `SendRequest`: convert to the newest version of the API that the node has, send, hand the answer
    in as `ReceivedResponse`. A broken connection or a timeout of the transport is
    `ErrorResponse(BROKER_NOT_AVAILABLE)`, a version that the node does not have
    `ErrorResponse(UNSUPPORTED_VERSION)`: so a node whose Vote has no pre-vote yet (before v2) is
    not sent one.
11. `ReceivedRequest`: only for the metadata partition; any other topic, partition or count of them
    is answered by the driver (INVALID_REQUEST). `Respond` answers it; `RespondWithRecords` and
    `RespondWithSnapshot` first put what they name into `records`. A fetch may be answered much
    later, by the effects of another event.
12. `HighWatermarkAdvanced`: feed the local state machine from where it is up to the offset; if the
    log starts after where it is, load the newest snapshot first.
13. `LeaderChanged`: tell the local state machine. If the leader is this replica, tell it only when
    it has applied the record at `epoch_start_offset`. So a leader never has to load a snapshot: it
    applied all before it led.
14. Snapshots of the local state machine end at most at the high watermark, at a batch boundary. The
    log start may be moved to the end offset of a snapshot that is kept, and snapshots older than
    the log start deleted.
15. `Append` comes from a state machine that knows it leads `epoch`. `RejectAppend` means nothing
    was written. Records are committed when the high watermark passes them; if the leader changes
    first, they may or may not be.
16. `Stopped` ends it. A `QuorumError` ends it too: the process must not go on as a replica.

| module | what it owns |
|---|---|
| `config` | the settings of the quorum |
| `control_records` | the control records of the metadata log and its snapshots |
| `control_state` | what the metadata log says about the quorum itself |
| `election` | the durable result of elections, and the count of votes in one |
| `messages` | the requests and responses that replicas of the quorum exchange |
| `metadata_log` | the metadata log on disk: `__cluster_metadata-0` |
| `outgoing` | requests of this replica as they go over the wire |
| `replicated_state` | what a driver of the quorum needs around it: state machine, network, clock |
| `shared_sync` | group commit: writes of the metadata log that share a sync |
| `values` | frozen values: the base of every message, event and effect of the quorum |
| `voter_changes` | voters that are added, removed and updated while the quorum runs (KIP-853) |
| `connections` | one request at a time per node, with a time limit, and a pause after a failure |
| `driver` | the driver of the quorum machine |
| `duties` | what a replica does of its own accord |
| `effects` | what a replica of the quorum must do, in this order |
| `events` | what happens to a replica of the quorum: the input of `QuorumMachine.handle` |
| `leader` | the leader's state |
| `log_view` | what the machine knows of its log: its end, how epochs lie in it, and its snapshots |
| `machine` | the machine: events in, effects out; no clock, no disk, no socket |
| `node` | puts a replica of the quorum together: recovered log, voters, machine, driver |
| `replica` | the local replica |
| `replies` | responses to this replica's own requests, and log writes that have reached the disk |
| `serving` | requests of other replicas: votes, epochs that begin and end, fetches, snapshots |
| `snapshots` | metadata snapshots: files that hold the whole state up to an offset (KIP-630) |
| `states` | the states of a replica, one class each, holding only what that state needs |
| `transitions` | which state may follow which, and what the epoch does on the way |
| `transport` | the way of the quorum's requests to other replicas: kept connections, one per node |
| `voters` | who votes (KIP-595, KIP-853) |
"""

from kaa.quorum.config import QuorumConfig
from kaa.quorum.effects import (
    AppendAsFollower,
    AppendAsLeader,
    AppendLeaderChange,
    AppendToSnapshot,
    BeginSnapshot,
    DiscardSnapshot,
    Effect,
    HighWatermarkAdvanced,
    InstallSnapshot,
    LeaderChanged,
    PersistElection,
    RejectAppend,
    Report,
    Respond,
    RespondWithRecords,
    RespondWithSnapshot,
    SendRequest,
    Stopped,
    TruncateLog,
)
from kaa.quorum.election import ElectionState
from kaa.quorum.events import (
    Append,
    Event,
    FetchDamaged,
    LogWritten,
    ReceivedRequest,
    ReceivedResponse,
    Resign,
    Shutdown,
    Start,
    Tick,
    VoterSetRead,
)
from kaa.quorum.log_view import (
    BOOTSTRAP_SNAPSHOT_ID,
    LogView,
    OffsetAndEpoch,
    end_offset_for_epoch,
)
from kaa.quorum.machine import QuorumDescription, QuorumMachine, ReplicaDescription
from kaa.quorum.messages import (
    HIGH_WATERMARK_UNKNOWN,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ErrorResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Records,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from kaa.quorum.transitions import IllegalTransitionError, QuorumError
from kaa.quorum.voters import Endpoints, Node, ReplicaKey, VoterNode, VoterSet, VoterSetHistory

__all__ = [
    "BOOTSTRAP_SNAPSHOT_ID",
    "HIGH_WATERMARK_UNKNOWN",
    "Append",
    "AppendAsFollower",
    "AppendAsLeader",
    "AppendLeaderChange",
    "AppendToSnapshot",
    "BeginQuorumEpochRequest",
    "BeginQuorumEpochResponse",
    "BeginSnapshot",
    "DiscardSnapshot",
    "Effect",
    "ElectionState",
    "EndQuorumEpochRequest",
    "EndQuorumEpochResponse",
    "Endpoints",
    "ErrorResponse",
    "Event",
    "FetchDamaged",
    "FetchRequest",
    "FetchResponse",
    "FetchSnapshotRequest",
    "FetchSnapshotResponse",
    "HighWatermarkAdvanced",
    "IllegalTransitionError",
    "InstallSnapshot",
    "LeaderChanged",
    "LogView",
    "LogWritten",
    "Node",
    "OffsetAndEpoch",
    "PersistElection",
    "QuorumConfig",
    "QuorumDescription",
    "QuorumError",
    "QuorumMachine",
    "ReceivedRequest",
    "ReceivedResponse",
    "Records",
    "RejectAppend",
    "ReplicaDescription",
    "ReplicaKey",
    "Report",
    "Request",
    "Resign",
    "Respond",
    "RespondWithRecords",
    "RespondWithSnapshot",
    "Response",
    "SendRequest",
    "Shutdown",
    "Start",
    "Stopped",
    "Tick",
    "TruncateLog",
    "VoteRequest",
    "VoteResponse",
    "VoterNode",
    "VoterSet",
    "VoterSetHistory",
    "VoterSetRead",
    "end_offset_for_epoch",
]
