"""What can go wrong between Spark and a broker, as types that say what to do."""

from __future__ import annotations


class SparkSourceError(Exception):
    """Base of all errors of the data source."""


class OptionError(SparkSourceError, ValueError):
    """An option that cannot be used; the text names it and what would do."""


class DataLossError(SparkSourceError):
    """Records that the query should have read are gone, and `failOnDataLoss` is true."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Some data may have been lost: it was aged out, or the topic was deleted "
            "before the query had read it. To go on all the same, set failOnDataLoss to false"
        )


class VersionMismatchError(SparkSourceError):
    """Driver and executor have different versions of Kaa."""


class RowError(SparkSourceError, ValueError):
    """A row that is not a record: no topic, a partition that is not there."""


class SupersededError(SparkSourceError):
    """A newer run of the same query is at work; this one must stop."""


class LostTransactionError(SparkSourceError):
    """A transaction that was decided to be committed is gone."""
