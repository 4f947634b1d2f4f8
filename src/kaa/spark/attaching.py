"""Every topic of a cluster and every table of a catalog as a view, so that SQL finds them.

::

    views = kaa.spark.attach(spark, {"kafka.bootstrap.servers": "localhost:9092"})
    spark.sql("select customer, sum(price) from orders group by customer")

The columns of a topic are, in this order: those of its schema in the registry
(`<topic>-value`, and `<topic>-key` if there is one), if `schemaRegistry.url` is given; those that
are inferred, if most of a few records are JSON objects; those of the record alone. Internal topics
have no view, nor have those that begin with `__kaa_`.

Names. A view has the name of its topic, with `_` for every character that SQL wants quoted:
`orders.eu-1` is `orders_eu_1`. A table has `lake_` before its name, and its namespace if that is
not the usual one. Where several topics would have one name, the topic that has it exactly gets it,
and the others get four characters of a digest of their names after it.

Spark plans a DataFrame once, and a view is one: it shows what there was when it was first used,
until `refresh`, which also looks for new topics, tables and columns.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.client.errors import ClientError
from kaa.spark.entry import schema_of
from kaa.spark.errors import OptionError, SparkSourceError
from kaa.spark.formats.codec import SchemaError
from kaa.spark.formats.options import registry_settings
from kaa.spark.formats.registry import SchemaNotFoundError, client
from kaa.spark.lookup import Lookup
from kaa.spark.options import BOOTSTRAP_SERVERS, KAFKA, source_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from kaa.spark.formats.registry import RegistrySettings

_TABLE_PREFIX: Final = "lake_"
_PATTERN: Final = "subscribepattern"
_DIGEST_CHARACTERS: Final = 4


class View(NamedTuple):
    """One view: what it shows, and where its columns are from."""

    name: str
    # `topic` or `table`.
    kind: str
    # The name of the topic or table.
    source: str
    # `registry`, `inferred`, `record` or `table`.
    columns: str
    # Why it has no columns of its own, where that may be a mistake.
    note: str = ""


class _Plan(NamedTuple):
    """How a view is read."""

    options: dict[str, str]
    schema: str | StructType
    columns: str
    note: str = ""


def attach(spark: SparkSession, options: Mapping[str, str]) -> Views:
    """Makes the views. Options: those of the format `kaa` without a topic (`subscribePattern`
    chooses some), `schemaRegistry.*`, and `warehouse`, `layout`, `catalog.*`, `store.*` for tables.
    """
    return Views(spark, options).refresh()


class Views:
    """The views of one `attach`, by their names."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        self._spark = spark
        self._of_topics: dict[str, str] = {}
        self._of_tables: dict[str, str] = {}
        for name, value in options.items():
            small = name.lower()
            is_of_tables = small in {"warehouse", "layout"} or small.startswith(
                ("catalog.", "store.")
            )
            (self._of_tables if is_of_tables else self._of_topics)[small] = str(value)
        has_servers = bool(self._of_topics.get(KAFKA + BOOTSTRAP_SERVERS, "").strip())
        if not has_servers and (self._of_topics or not self._of_tables):
            raise OptionError(
                "give kafka.bootstrap.servers to attach topics, and warehouse or catalog.* to "
                "attach tables"
            )
        self._registry = registry_settings(self._of_topics)
        self._views: dict[str, View] = {}

    def __iter__(self) -> Iterator[View]:
        return iter(self._views.values())

    def __len__(self) -> int:
        return len(self._views)

    def __getitem__(self, name: str) -> View:
        return self._views[name]

    def __str__(self) -> str:
        rows = [(one.name, f"{one.kind} {one.source}", one.columns, one.note) for one in self]
        widths = [max((len(row[at]) for row in rows), default=0) for at in range(4)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )

    def refresh(self) -> Views:
        """Looks again: new rows, topics, tables and columns; what is gone has no view any more."""
        found: dict[str, View] = {}
        topics = self._topics()
        for topic, name in view_names(topics).items():
            found[name] = self._make("kaa", View(name, "topic", topic, ""), self._plan_topic(topic))
        tables = self._tables()
        for table, name in view_names(tables, _TABLE_PREFIX).items():
            plan = self._plan_table(table)
            if plan is not None:
                found[name] = self._make("kaa_table", View(name, "table", table, ""), plan)
        for name in self._views.keys() - found.keys():
            self._spark.catalog.dropTempView(name)
        self._views = found
        return self

    def detach(self) -> None:
        """Drops the views."""
        for name in self._views:
            self._spark.catalog.dropTempView(name)
        self._views = {}

    def _make(self, kind: str, view: View, plan: _Plan) -> View:
        reader = self._spark.read.format(kind).schema(plan.schema).options(**plan.options)
        reader.load().createOrReplaceTempView(view.name)
        return view._replace(columns=plan.columns, note=plan.note)

    # --- topics

    def _topics(self) -> list[str]:
        if not self._of_topics:
            return []
        wanted = {_PATTERN: ".*", **self._of_topics}
        try:
            return sorted(Lookup(source_options(wanted, is_stream=False)).partitions().topic_ids)
        except ClientError as error:
            servers = self._of_topics[KAFKA + BOOTSTRAP_SERVERS]
            raise SparkSourceError(f"the topics of {servers} cannot be listed: {error}") from error

    def _plan_topic(self, topic: str) -> _Plan:
        given = {name: value for name, value in self._of_topics.items() if name != _PATTERN}
        options = {**given, "subscribe": topic}
        if self._registry is not None:
            described = _described(self._registry, topic)
            if described:
                options |= described
                try:
                    return _Plan(options, schema_of(options), "registry")
                except (SchemaError, ImportError) as error:
                    return _raw(given, topic, str(error))
        return _inferred(given, topic) or _raw(given, topic)

    # --- tables

    def _tables(self) -> list[str]:
        if not self._of_tables:
            return []
        from kaa.spark.lake.listing import tables_of

        return tables_of(self._of_tables)

    def _plan_table(self, table: str) -> _Plan | None:
        """None for one that has no version yet, so that there is nothing to show."""
        from kaa.spark.lake.kaa_table.reader import schema_of as table_schema
        from kaa.spark.lake.table import LakeError

        options = {**self._of_tables, "table": table}
        try:
            return _Plan(options, table_schema(options), "table")
        except LakeError:
            return None


def view_names(sources: Iterable[str], prefix: str = "") -> dict[str, str]:
    """A name for each topic or table that SQL takes without quotes; none is there twice."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for source in sorted(sources):
        plain = prefix + re.sub(r"\W", "_", source, flags=re.ASCII)
        # A name of digits alone is a number.
        by_name[(f"_{plain}" if plain.isdecimal() else plain).lower()].append(source)
    names: dict[str, str] = {}
    for name, claimants in by_name.items():
        owner = next((one for one in claimants if prefix + one == name), None)
        for one in claimants:
            is_marked = len(claimants) > 1 and one != owner
            digest = hashlib.sha256(one.encode()).hexdigest()[:_DIGEST_CHARACTERS]
            names[one] = f"{name}_{digest}" if is_marked else name
    return names


def _described(registry: RegistrySettings, topic: str) -> dict[str, str]:
    """The options that decode a topic as the registry says; none if it says nothing of it.

    The schema is named by its id, so that a view keeps the columns that it was made with.
    """
    options: dict[str, str] = {}
    for side in ("value", "key"):
        try:
            found = client(registry).version(f"{topic}-{side}")
        except SchemaNotFoundError:
            if side == "value":
                return {}
            continue
        options[f"{side}Format"] = found.type.lower()
        options[f"{side}SchemaId"] = str(found.id)
    return options


def _inferred(given: Mapping[str, str], topic: str) -> _Plan | None:
    """None where there is no record yet, or most of them are something else than JSON."""
    from kaa.spark.formats.options import format_options
    from kaa.spark.formats.readers import decoded_schema, plan_with, sampled_columns

    # What is in the frames of a registry is not part of this.
    own = {name: value for name, value in given.items() if not name.startswith("schemaregistry.")}
    options = {**own, "subscribe": topic, "valueformat": "json"}
    wanted = format_options(options, "value")
    assert wanted is not None
    source = source_options(options, is_stream=False)
    found = sampled_columns(source, "value", has_only_doubles=wanted.has_only_doubles)
    if not (found.is_json and len(found.type)):
        return None
    return _Plan(
        options, decoded_schema(plan_with(options, found.type), source.columns), "inferred"
    )


def _raw(given: Mapping[str, str], topic: str, note: str = "") -> _Plan:
    options = {**given, "subscribe": topic}
    return _Plan(options, schema_of(options), "record", note)
