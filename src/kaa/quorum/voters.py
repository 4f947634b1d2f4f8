"""Who votes (KIP-595, KIP-853): replica keys, the voter set, and its history along the log.

A replica is known by its id and the id of its log directory. The directory id tells a replica from
one that came back under the same id with an empty disk, which must not vote as if it remembered. A
static quorum (`controller.quorum.voters`) does not know the directory ids of its voters: a voter
without one matches any directory. A dynamic quorum (kraft.version 1) keeps the voter set in the log
itself, as VotersRecords; a set is in force from the moment its record is *appended*, not committed,
and goes back to the one before when the record is truncated away. `VoterSetHistory` is that list;
with no entry it answers the static set.

Voter sets may differ by one voter at a time between neighbours in the history, so that any
majority of one meets any majority of the next.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final

from kaa import limits
from kaa.model.nodes import Endpoint, VersionRange
from kaa.quorum.values import Value
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaa.wire.primitives import Uuid


class ReplicaKey(Value):
    """A replica: node id, and directory id where it is known."""

    id: int
    directory_id: Uuid | None = None

    def matches(self, other: ReplicaKey) -> bool:
        """Whether `other` is this replica; a key without directory id stands for every directory of
        its id.
        """
        if self.id != other.id:
            return False
        return self.directory_id is None or self.directory_id == other.directory_id

    def sort_key(self) -> tuple[int, bytes]:
        return self.id, self.directory_id or b""

    def __str__(self) -> str:
        return f"{self.id}" if self.directory_id is None else f"{self.id}/{self.directory_id}"


def replica_key(node_id: int, directory_id: Uuid) -> ReplicaKey:
    """The key of a replica as messages and files name it; the zero id is a directory that is not
    known.
    """
    return ReplicaKey(node_id, None if directory_id == UUID_ZERO else directory_id)


class Node(Value):
    """An address to send to. Voters have their own id; bootstrap servers have -2, -3, ... until
    they are known.
    """

    id: int
    host: str
    port: int

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


Endpoints = tuple[Endpoint, ...]


def named_endpoints(points: Sequence[Any]) -> Endpoints:
    """The listeners that a message names. Of too many one more than are allowed, which is refused
    when everything before that was checked.
    """
    some = points[: limits.QUORUM_LISTENERS_MAX + 1]
    return tuple(Endpoint(point.name, point.host, point.port) for point in some)


def are_too_many(endpoints: Endpoints) -> bool:
    return len(endpoints) > limits.QUORUM_LISTENERS_MAX


def node_at(node_id: int, endpoints: Endpoints, listener: str) -> Node | None:
    """The address of a node under a listener, or None when it has no such endpoint."""
    for endpoint in endpoints:
        if endpoint.listener == listener:
            return Node(node_id, endpoint.host, endpoint.port)
    return None


KRAFT_VERSIONS: Final = VersionRange(0, 1)
"""What this release supports."""
NO_KRAFT_VERSION: Final = 0
"""The level at which voters come from the settings of the nodes and never change."""


class VoterNode(Value):
    """A voter with its addresses and what it supports."""

    key: ReplicaKey
    endpoints: Endpoints = ()
    supported_kraft_version: VersionRange = VersionRange()


class VoterSet(Value):
    """The voters, ordered by id, each id once."""

    voters: tuple[VoterNode, ...] = ()

    @staticmethod
    def of(voters: Iterable[VoterNode]) -> VoterSet:
        """A set of voters; ids must differ and there is a bound on their number."""
        ordered = tuple(sorted(voters, key=lambda voter: voter.key.id))
        ids = [voter.key.id for voter in ordered]
        if len(set(ids)) != len(ids):
            raise ValueError(f"two of the voters {', '.join(map(str, ids))} have the same id")
        if len(ordered) > limits.QUORUM_VOTERS_MAX:
            raise ValueError(f"{len(ordered)} voters, at most {limits.QUORUM_VOTERS_MAX}")
        return VoterSet(ordered)

    def __len__(self) -> int:
        return len(self.voters)

    def ids(self) -> tuple[int, ...]:
        return tuple(voter.key.id for voter in self.voters)

    def get(self, voter_id: int) -> VoterNode | None:
        for voter in self.voters:
            if voter.key.id == voter_id:
                return voter
        return None

    def is_voter(self, replica: ReplicaKey) -> bool:
        voter = self.get(replica.id)
        return voter is not None and voter.key.matches(replica)

    def is_only_voter(self, replica: ReplicaKey) -> bool:
        return len(self.voters) == 1 and self.is_voter(replica)

    def endpoints(self, voter_id: int) -> Endpoints:
        voter = self.get(voter_id)
        return () if voter is None else voter.endpoints

    def majority(self) -> int:
        """The least number of voters that any other such number must share a voter with."""
        return len(self.voters) // 2 + 1

    def add(self, voter: VoterNode) -> VoterSet | None:
        """The set with one voter more, or None when its id already votes."""
        if self.get(voter.key.id) is not None:
            return None
        return VoterSet.of((*self.voters, voter))

    def remove(self, key: ReplicaKey) -> VoterSet | None:
        """The set without exactly this voter, or None when it is not a voter or the last one."""
        voter = self.get(key.id)
        if voter is None or voter.key != key or len(self.voters) == 1:
            return None
        return VoterSet(tuple(other for other in self.voters if other is not voter))

    def update(self, voter: VoterNode) -> VoterSet | None:
        """The set with this voter's endpoints and versions replaced; None if it is not a voter."""
        old = self.get(voter.key.id)
        if old is None or not old.key.matches(voter.key):
            return None
        return VoterSet(tuple(voter if other is old else other for other in self.voters))

    def has_overlapping_majority(self, other: VoterSet) -> bool:
        """Whether the sets differ by at most one voter each way, so that their majorities always
        meet.
        """
        mine = {voter.key for voter in self.voters}
        theirs = {voter.key for voter in other.voters}
        return len(mine - theirs) <= 1 and len(theirs - mine) <= 1


class VoterSetHistory:
    """The voter sets read from the log, by the offset of their record. With no entry it answers the
    static set.
    """

    __slots__ = ("_offsets", "_sets", "_static")

    def __init__(self, static: VoterSet | None = None) -> None:
        # In force while the log holds no VotersRecord.
        self._static = VoterSet() if static is None else static
        # Strictly increasing offsets, and the set that each record holds.
        self._offsets: list[int] = []
        self._sets: list[VoterSet] = []

    def last(self) -> VoterSet:
        """The set in force."""
        return self._sets[-1] if self._sets else self._static

    def last_offset(self) -> int | None:
        """The offset of the record that the set in force was read from; None for the static set."""
        return self._offsets[-1] if self._offsets else None

    def before_last(self) -> VoterSet | None:
        """The set that the one in force took the place of; None if no record says so."""
        return self._sets[-2] if len(self._sets) > 1 else None

    def at(self, offset: int) -> VoterSet:
        """The set that was in force once `offset` had been appended."""
        index = bisect_right(self._offsets, offset)
        return self._sets[index - 1] if index else self._static

    def append(self, offset: int, voters: VoterSet) -> None:
        """Note a VotersRecord at an offset above all before it."""
        if self._offsets and offset <= self._offsets[-1]:
            raise ValueError(
                f"voter set at {offset} is not above the last one at {self._offsets[-1]}"
            )
        # What formatting wrote, at -1, gives way to whatever the quorum agreed on.
        has_agreed = bool(self._offsets) and self._offsets[-1] >= 0
        if has_agreed and not self._sets[-1].has_overlapping_majority(voters):
            raise ValueError(
                f"voter set {voters} differs by more than one voter from {self._sets[-1]}"
            )
        self._offsets.append(offset)
        self._sets.append(voters)

    def truncate_to(self, end_offset: int) -> None:
        """Forget the sets whose records were cut off the end of the log."""
        while self._offsets and self._offsets[-1] >= end_offset:
            self._offsets.pop()
            self._sets.pop()

    def forget_before(self, start_offset: int) -> None:
        """Forget the sets that a snapshot covers, but the one in force at its end."""
        covered = bisect_right(self._offsets, start_offset - 1)
        if covered > 1:
            del self._offsets[: covered - 1]
            del self._sets[: covered - 1]

    def clear(self) -> None:
        """Forget all: the log was replaced by a snapshot, which brings its own voter set."""
        self._offsets.clear()
        self._sets.clear()
