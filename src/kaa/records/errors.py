"""What can be wrong with record bytes: `RecordsError` is the one type bad input can raise."""


class RecordsError(Exception):
    """Bytes that are not what the record formats demand; every subclass says in which way."""


class CorruptRecordsError(RecordsError):
    """The frame of a batch does not hold: impossible size, unknown magic, wrong checksum."""


class InvalidRecordError(RecordsError):
    """The frame holds, its content breaks a rule of the format: counts, sizes, varints, deltas."""


class CompressionError(RecordsError):
    """A codec cannot make sense of its input, or expanding it would exceed the given bound."""


class WorkLimitError(Exception):
    """A batch expands beyond what the caller wants to wait for; nothing is wrong with it yet."""
