"""`quorum-state`: the vote and the epoch of a KRaft node, one line of JSON.

| field | versions | meaning |
|---|---|---|
| `clusterId` | 0 | always the empty string |
| `leaderId` | all | known leader of the epoch, -1 if none |
| `leaderEpoch` | all | the newest epoch this node has seen |
| `votedId` | all | who got this node's vote in the epoch, -1 if nobody |
| `votedDirectoryId` | 1 | the directory id of that candidate, zero if nobody |
| `appliedOffset` | 0 | always 0 |
| `currentVoters` | 0 | `[{"voterId": 1}, ...]`, the static voters |
| `data_version` | all | 0 with static voters, 1 with kraft.version 1 |

A vote counts only once it is durable: the file is replaced atomically and synced before the answer
leaves. A file that cannot be read is not the same as no file, since a forgotten vote may elect two
leaders; the reader raises and the node does not start.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaa.limits import QUORUM_EPOCHS_MAX
from kaa.log.errors import CorruptFileError
from kaa.log.files import read_whole, write_atomically
from kaa.wire.primitives import UUID_ZERO, Uuid

if TYPE_CHECKING:
    from kaa.log.files import Files

QUORUM_STATE_FILE = "quorum-state"
_VERSION_MAX = 1


@dataclass(frozen=True, slots=True)
class QuorumStateData:
    leader_id: int = -1
    leader_epoch: int = -1
    voted_id: int = -1
    voted_directory_id: Uuid = UUID_ZERO
    current_voters: tuple[int, ...] = ()
    version: int = 1


def encode_quorum_state(state: QuorumStateData) -> bytes:
    leader = {"leaderId": state.leader_id, "leaderEpoch": state.leader_epoch}
    voted = {"votedId": state.voted_id}
    fields: dict[str, object]
    if state.version == 0:
        voters = [{"voterId": voter} for voter in state.current_voters]
        fields = {"clusterId": "", **leader, **voted, "appliedOffset": 0, "currentVoters": voters}
    else:
        fields = {**leader, **voted, "votedDirectoryId": str(state.voted_directory_id)}
    return json.dumps(fields | {"data_version": state.version}, separators=(",", ":")).encode()


def decode_quorum_state(path: str, content: bytes) -> QuorumStateData:
    try:
        fields = json.loads(content)
        version = int(fields["data_version"])
        if not 0 <= version <= _VERSION_MAX:
            raise CorruptFileError(path, f"data_version {version} is unknown")
        epoch = int(fields["leaderEpoch"])
        if epoch > QUORUM_EPOCHS_MAX:
            raise CorruptFileError(path, f"leaderEpoch {epoch} is none that elections reach")
        voters = fields.get("currentVoters") or []
        directory_id = fields.get("votedDirectoryId")
        return QuorumStateData(
            leader_id=int(fields["leaderId"]),
            leader_epoch=epoch,
            voted_id=int(fields["votedId"]),
            voted_directory_id=Uuid.parse(directory_id) if directory_id else UUID_ZERO,
            current_voters=tuple(int(voter["voterId"]) for voter in voters),
            version=version,
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise CorruptFileError(path, "is not the JSON of a quorum state") from None


def read_quorum_state(files: Files, folder: str) -> QuorumStateData | None:
    """The stored state; None on a node that never had one."""
    path = f"{folder}/{QUORUM_STATE_FILE}"
    try:
        content = read_whole(files, path)
    except FileNotFoundError:
        return None
    return decode_quorum_state(path, content)


def write_quorum_state(files: Files, folder: str, state: QuorumStateData) -> None:
    write_atomically(files, f"{folder}/{QUORUM_STATE_FILE}", encode_quorum_state(state))
