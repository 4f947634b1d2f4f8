"""The chain of leader epochs out of the answers that brokers give."""

from __future__ import annotations

from random import Random

import pytest

from kaa.log.leader_epochs import EpochEntry, LeaderEpochCache, encode_epochs
from kaa.spark.tier.chain import chain_of
from kaa.spark.tier.plan import ChainEpoch


def test_an_epoch_that_the_leader_never_had_is_not_in_its_chain() -> None:
    # Epochs 3 and 7 are the leader's; 5 was another's.
    answers = {2: (2, 40), 3: (3, 90), 4: (3, 90), 5: (3, 90), 6: (3, 90), 7: (7, 120)}
    assert chain_of([3, 5, 7], answers) == [ChainEpoch(3, 40, 90), ChainEpoch(7, 90, 120)]
    assert chain_of([0], {0: (0, 10)}) == [ChainEpoch(0, 0, 10)]
    # Newer than all that the leader knows.
    assert chain_of([9], {8: (-1, -1), 9: (-1, -1)}) == []


@pytest.mark.parametrize("seed", range(10))
def test_random_chains(seed: int) -> None:
    random = Random(seed)
    entries, offset = [], random.randrange(100)
    for epoch in sorted(random.sample(range(30), 8)):
        entries.append(EpochEntry(epoch, offset))
        offset += random.randrange(1, 50)
    log = LeaderEpochCache.decode("epochs", encode_epochs(entries))
    answers = {epoch: log.end_offset_for(epoch, offset) for epoch in range(30)}
    ends = [entry.start_offset for entry in entries[1:]] + [offset]
    expected = [
        ChainEpoch(entry.epoch, entry.start_offset, end)
        for entry, end in zip(entries, ends, strict=True)
    ]
    # The log begins with its first epoch, and is read from there on.
    begin = entries[0].start_offset
    clipped = [one._replace(start=max(one.start, begin)) for one in chain_of(range(30), answers)]
    assert [one for one in clipped if one.start < one.end] == expected
