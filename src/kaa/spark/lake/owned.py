"""Settings that belong to the table: said once, when it is made, and kept with it.

Anyone who works with the table later needs its name alone. What is said again must be the same; a
difference is refused with both values, since rows of two ways of dividing or decoding in one table
are wrong rows. `kaa lake alter` changes what can be changed.

An Iceberg table keeps them as properties, `kaa.settings-version` and one `kaa.<option>` each;
its partitioning is not among them, since Iceberg keeps that itself. A folder of Parquet files keeps
them in its manifests. Passwords and tokens are kept nowhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kaa.spark.formats.options import NAMES as FORMAT_OPTIONS
from kaa.spark.lake.partitioning import parse_terms
from kaa.spark.lake.settings import lake_settings, normal_columns
from kaa.spark.lake.table import LakeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.spark.lake.settings import LakeSettings

PREFIX: Final = "kaa."
VERSION_PROPERTY: Final = "kaa.settings-version"
VERSION: Final = "1"
_SECRET: Final = ("schemaRegistry.basicAuth", "schemaRegistry.bearerToken")
_PLAIN: Final = ("topic", "mode", "columns", "targetFileBytes", "compression", "maintenance")
_DIVISION: Final = ("partitionBy", "buckets")
_FORMATS: Final = tuple(one for one in FORMAT_OPTIONS if one not in _SECRET)
OWNED: Final = (*_PLAIN, *_DIVISION, *_FORMATS)
"""The options that a table keeps."""
FREE: Final = ("targetFileBytes", "compression", "maintenance")
"""Those of them that may differ from one command to the next: they say how files are written."""


def kept(settings: LakeSettings) -> dict[str, str]:
    """What a new table is to keep."""
    found = {
        "mode": settings.mode,
        "targetFileBytes": str(settings.file_bytes),
        "compression": settings.compression,
        "maintenance": settings.maintenance,
        **_division(settings),
    }
    if not settings.has_topic:
        return found
    formats = {name.lower(): value for name, value in settings.formats.items()}
    found |= {name: formats[name.lower()] for name in _FORMATS if name.lower() in formats}
    return found | {"topic": settings.topic, "columns": ",".join(settings.columns)}


def adopted(settings: LakeSettings, stored: Mapping[str, str]) -> LakeSettings:
    """The settings with what the table keeps; raises LakeError where they differ."""
    said = _said(settings)
    is_upsert = stored.get("mode", said.get("mode")) == "upsert"
    for name, value in stored.items():
        if name in FREE or name not in said:
            continue
        if name in _DIVISION and is_upsert != (name == "buckets"):
            continue
        mode = "upsert" if is_upsert else "append"
        if _normal(name, said[name], mode) != _normal(name, value, mode):
            raise LakeError(
                f"{settings.table} has {name}={value or 'nothing'}, and {said[name] or 'nothing'} "
                f"is asked for; leave it out, or see what kaa lake alter can change"
            )
    own = {name: value for name, value in stored.items() if name not in said or name not in FREE}
    own = {name: value for name, value in own.items() if name not in _DIVISION}
    own |= _own_division(stored, is_upsert=is_upsert)
    left = {
        name: value
        for name, value in settings.given.items()
        if name.lower() not in {one.lower() for one in own}
    }
    found = lake_settings({**left, **own}, has_topic=settings.has_topic)
    # What was said stays what it was: the table may be changed by others at any time.
    return replace(found, given=settings.given)


def _division(settings: LakeSettings) -> dict[str, str]:
    if settings.mode == "upsert":
        return {"buckets": str(settings.buckets)}
    return {"partitionBy": ", ".join(map(str, settings.terms))}


def _own_division(stored: Mapping[str, str], *, is_upsert: bool) -> dict[str, str]:
    name = "buckets" if is_upsert else "partitionBy"
    return {name: stored[name]} if name in stored else {}


def _said(settings: LakeSettings) -> dict[str, str]:
    """What the user said of these, under the names of this page."""
    lower = {name.lower(): value for name, value in settings.given.items()}
    return {name: lower[name.lower()] for name in OWNED if name.lower() in lower}


def _normal(name: str, value: str, mode: str) -> object:
    if name == "partitionBy":
        return parse_terms(value)
    if name == "columns":
        return frozenset(normal_columns(value, mode))
    return value.strip()


def to_properties(stored: Mapping[str, str]) -> dict[str, str]:
    """As properties of an Iceberg table."""
    named = {PREFIX + name: value for name, value in stored.items() if name not in _DIVISION}
    return {VERSION_PROPERTY: VERSION, **named}


def is_of_query(properties: Mapping[str, str]) -> bool:
    """Whether a query fills the table; it keeps settings then, and no topic."""
    return VERSION_PROPERTY in properties and PREFIX + "topic" not in properties


def from_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Out of the properties of an Iceberg table, without the partitioning."""
    version = properties.get(VERSION_PROPERTY, VERSION)
    if version != VERSION:
        raise LakeError(f"the settings of the table have version {version}, of a newer Kaa")
    return {
        name: properties[PREFIX + name]
        for name in OWNED
        if name not in _DIVISION and PREFIX + name in properties
    }
