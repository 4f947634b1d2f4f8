"""Which tables there are: those of a catalog, or the folders of a warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.spark.lake.settings import lake_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.spark.lake.settings import LakeSettings


def tables_of(options: Mapping[str, Any]) -> list[str]:
    """The names of all tables, with the namespaces of those that are in another than `kaa`."""
    settings = lake_settings(options, has_topic=False)
    found = _folders(settings) if settings.layout == "parquet" else _in_catalog(settings)
    return sorted(found)


def _in_catalog(settings: LakeSettings) -> list[str]:
    from pyiceberg.exceptions import RESTError

    from kaa.spark.lake.iceberg.catalog import open_catalog
    from kaa.spark.lake.table import LakeError

    catalog = open_catalog(settings)
    try:
        names = [
            (".".join(namespace), name)
            for namespace in catalog.list_namespaces()
            for *namespace, name in catalog.list_tables(namespace)
        ]
    except (RESTError, OSError) as error:
        raise LakeError(f"the catalog cannot be reached: {error}") from error
    return [name if namespace == settings.namespace else f"{namespace}.{name}"
            for namespace, name in names]  # fmt: skip


def _folders(settings: LakeSettings) -> list[str]:
    """Folders that have manifests in them."""
    import obstore

    from kaa.spark.lake.folder import MANIFESTS

    objects = settings.store.objects()
    below = obstore.list_with_delimiter(objects)["common_prefixes"]
    names = [one.strip("/") for one in below]
    return [
        name
        for name in names
        if obstore.list_with_delimiter(objects, f"{name}/{MANIFESTS}")["objects"]
    ]
