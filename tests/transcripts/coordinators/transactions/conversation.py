"""Conversations with a transaction coordinator: commands, and everything it does in return.

A block is a command, a line of dashes, and the output up to an empty line. Comments start with #.
Nothing happens by itself: no time passes, no marker is written, and nothing is committed later than
it was appended, unless a command says so.

| Command                            | What it does                                             |
|------------------------------------|----------------------------------------------------------|
| coordinator [SETTING=NUMBER ...]   | begins with nothing stored                               |
| init [FIELD=NUMBER ...]            | InitProducerId; fields: timeout, id, epoch, keep         |
| add ID EPOCH NUMBER ... [v0]       | AddPartitionsToTxn; v0 is a client before version 2      |
| commit / abort ID EPOCH [v0]       | EndTxn                                                   |
| exhaust                            | the epoch of the producer becomes the last but two       |
| markers                            | the markers of all decisions are written                 |
| advance MS                         | lets time pass                                           |
| hold / committed / lost ERROR      | what is appended waits / is committed / is refused       |
| restart                            | the coordinator is loaded from its log again             |

Output lines: an answer, `+ ...` a record, `! ...` a decision whose markers may be written.
"""

from __future__ import annotations

from typing import Any

from kaa.coordinators.machine import WritableRecord
from kaa.coordinators.transaction.machine import ProducerIdAndEpoch
from kaa.coordinators.transaction.state import EPOCH_MAX, Transaction, TransactionState
from kaa.wire.errors import Errors
from kaa.wire.messages.transaction_log import TransactionLogValue
from tests.unit.coordinators.transaction.bench import NAME, TransactionBench

_FIELDS = {
    "timeout": "timeout_ms",
    "id": "producer_id",
    "epoch": "producer_epoch",
    "keep": "keeps_prepared",
}


class Conversation:
    """One coordinator and what was shown of it."""

    def __init__(self) -> None:
        self.bench = TransactionBench()
        self._records = 0

    def hear(self, line: str) -> list[str]:
        command, *words = line.split()
        self.bench.answered.clear()
        before = list(self.bench.decisions)
        getattr(self, f"_{command}")(*words)
        shown = [wording(answer) for _, answer in self.bench.answered]
        shown += [f"+ {record_wording(record)}" for record in self.bench.log[self._records :]]
        self._records = len(self.bench.log)
        shown += [
            f"! {state_wording(decision.transaction)}"
            for decision in self.bench.decisions
            if decision not in before
        ]
        return shown

    def _coordinator(self, *words: str) -> None:
        settings = {name: int(value) for name, value in (word.split("=") for word in words)}
        self.bench = TransactionBench(**settings)
        self._records = 0

    def _init(self, *words: str) -> None:
        pairs = (word.split("=") for word in words)
        fields: dict[str, Any] = {_FIELDS[name]: int(value) for name, value in pairs}
        self.bench.init(**fields)

    def _add(self, producer_id: str, epoch: str, *words: str) -> None:
        numbers = [int(word) for word in words if word != "v0"]
        producer = (int(producer_id), int(epoch))
        self.bench.add(producer, *numbers, version=0 if "v0" in words else 2)

    def _commit(self, *words: str) -> None:
        self._end(*words, is_commit=True)

    def _abort(self, *words: str) -> None:
        self._end(*words, is_commit=False)

    def _end(self, producer_id: str, epoch: str, *words: str, is_commit: bool) -> None:
        producer = (int(producer_id), int(epoch))
        self.bench.end(producer, is_commit=is_commit, version=0 if "v0" in words else 2)

    def _exhaust(self) -> None:
        changed = self.bench.transaction._replace(producer_epoch=EPOCH_MAX - 2)
        machine = self.bench.machine
        self.bench.run("exhaust", lambda *_: machine._store(NAME, changed, "done"))

    def _markers(self) -> None:
        self.bench.complete()

    def _advance(self, milliseconds: str) -> None:
        self.bench.advance(int(milliseconds))

    def _hold(self) -> None:
        self.bench.is_holding = True

    def _committed(self) -> None:
        self.bench.commit()

    def _lost(self, error: str) -> None:
        before = len(self.bench.log)
        self.bench.fail(Errors[error])
        self._records -= before - len(self.bench.log)

    def _restart(self) -> None:
        self.bench.restart()


def wording(answer: Any) -> str:
    if isinstance(answer, Errors):
        return answer.name
    if isinstance(answer, ProducerIdAndEpoch):
        if answer.producer_id < 0:
            return "done"
        words = f"producer {answer.producer_id} epoch {answer.producer_epoch}"
        if answer.ongoing_producer_id >= 0:
            words += (
                f", going on with the transaction of {answer.ongoing_producer_id} "
                f"epoch {answer.ongoing_producer_epoch}"
            )
        return words
    return str(answer)


def state_wording(transaction: Transaction) -> str:
    numbers = " ".join(str(number) for _, number in sorted(transaction.partitions))
    words = f"{transaction.state.title}, producer {transaction.producer_id}"
    words += f" epoch {transaction.producer_epoch}"
    return words + (f", partitions {numbers}" if numbers else "")


def record_wording(record: WritableRecord) -> str:
    if record.value is None:
        return "forgotten"
    value = record.value
    assert isinstance(value, TransactionLogValue)
    words = TransactionState(value.transaction_status).title
    words += f", producer {value.producer_id} epoch {value.producer_epoch}"
    numbers = [
        number for topic in value.transaction_partitions or () for number in topic.partition_ids
    ]
    if numbers:
        words += f", partitions {' '.join(map(str, numbers))}"
    if value.next_producer_id >= 0:
        words += f", next producer {value.next_producer_id}"
    if value.next_producer_epoch >= 0:
        words += f", next epoch {value.next_producer_epoch}"
    return words
