"""Files of tables read, by landing, merging, compaction and `kaa_table` alike.

Files of Iceberg tables are read by pyiceberg: it finds columns by field id, whatever they are
called by now, fills in those that a file lacks, and leaves out rows whose positions are deleted.
Tables with lists of structs are read here in the same way, since it loses nulls in them. A folder
of Parquet files has no other names than those in the files.

Rows of given keys are looked up instead (`IcebergReader.find`): by the bounds of a file in its
manifest, then by those of each row group in its footer, and of the row groups that are left the key
column alone is read, before anything else is. Files sorted by key have narrow row groups, so that
the bytes read follow the keys that are looked for and not the size of the table.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as typed_parquet

from kaa.spark.formats.conform import conform, with_child
from kaa.spark.formats.untyped import pa, pc
from kaa.spark.lake.iceberg.columns import arrow_field
from kaa.spark.lake.iceberg.deletes import deleted_positions
from kaa.spark.lake.store import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaa.spark.formats.untyped import Array, DataType, Field, RecordBatch, Schema, Table
    from kaa.spark.lake.store import Store
    from kaa.spark.lake.table import DataFileInfo, FileReader

pq: Any = typed_parquet

POSITION = "kaa_position"
"""The column with the number of a row in its file."""


def shaped(batch: RecordBatch, schema: Schema, sources: Mapping[str, str] | None = None) -> Any:
    """The columns of a schema, in its order and types; what a batch lacks is null.

    `sources` names columns that are called otherwise in the batch.
    """
    present = set(batch.schema.names)
    arrays = []
    for one in schema:
        name = one.name if sources is None else sources.get(one.name, one.name)
        arrays.append(
            conform(batch.column(name), one.type)
            if name in present
            else pa.nulls(batch.num_rows, one.type)
        )
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def read_all(reader: FileReader, files: list[DataFileInfo], schema: Schema) -> Table:
    """The rows of some files."""
    batches = [batch for file in files for batch in reader.batches(file, schema)]
    return pa.Table.from_batches(batches, schema=schema)


@dataclass(frozen=True)
class FolderReader:
    """Columns by name."""

    store: Store = field(repr=False)

    def batches(self, file: DataFileInfo, schema: Schema) -> Iterator[RecordBatch]:
        """The rows of a file."""
        names = set(schema.names)
        with self.store.filesystem().open_input_file(path_of(file.url)) as source:
            parquet = pq.ParquetFile(source)
            present = [one for one in parquet.schema_arrow.names if one in names]
            for batch in parquet.iter_batches(columns=present):
                yield shaped(batch, schema)


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows of some keys with their positions, and the bytes that were read to find them."""

    rows: Table
    read_bytes: int


@dataclass(frozen=True)
class IcebergReader:
    """Columns by field id, without deleted rows."""

    # Pyiceberg's metadata without the snapshots, which no task needs.
    metadata: Any = field(repr=False)
    properties: Mapping[str, str] = field(repr=False)

    def batches(self, file: DataFileInfo, schema: Schema) -> Iterator[RecordBatch]:
        """The rows of a file."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io import load_file_io
        from pyiceberg.io.pyarrow import ArrowScan
        from pyiceberg.table import FileScanTask

        columns = self.metadata.schema().select(*schema.names)
        io = load_file_io(dict(self.properties), file.url)
        if any(_has_objects_in_lists(one.type) for one in schema) and _is_parquet(file):
            yield from self._batches(file, schema, io)
            return
        scan = ArrowScan(self.metadata, io, columns, AlwaysTrue())
        task = FileScanTask(file.handle, set(file.deletes))
        for batch in scan.to_record_batches([task]):
            yield shaped(batch, schema)

    def _batches(self, file: DataFileInfo, schema: Schema, io: Any) -> Iterator[RecordBatch]:
        """The same without pyiceberg, which up to 0.12 makes null lists of structs empty ones."""
        gone = deleted_positions(io, file.deletes, file.handle.file_path)
        kinds = {one.name: arrow_field(one).type for one in self.metadata.schema().fields}
        with io.new_input(file.url).open() as source:
            parquet = pq.ParquetFile(source)
            names = self._names(parquet.schema_arrow)
            present = [one for one in schema.names if one in names]
            first = 0
            for batch in parquet.iter_batches(columns=[names[one] for one in present]):
                arrays = [by_ids(batch.column(names[one]), kinds[one]) for one in present]
                rows = pa.RecordBatch.from_arrays(arrays, present)
                at = pa.array(range(first, first + batch.num_rows), pa.int64())
                first += batch.num_rows
                yield shaped(rows.filter(pc.invert(pc.is_in(at, gone))), schema)

    def deleted(self, file: DataFileInfo, deletes: Sequence[Any]) -> Array:
        """The positions of a file that some of its files with deletes name."""
        from pyiceberg.io import load_file_io

        io = load_file_io(dict(self.properties), file.url)
        return deleted_positions(io, deletes, file.handle.file_path)

    def find(self, file: DataFileInfo, schema: Schema, key: str, keys: list[bytes]) -> FoundRows:
        """The rows of a file that have one of the keys, which are sorted, in columns of a schema.

        Rows that are deleted are left out.
        """
        from pyiceberg.io import load_file_io

        wanted = schema.append(pa.field(POSITION, pa.int64()))
        field_id = self.metadata.schema().find_field(key).field_id
        lower = (file.handle.lower_bounds or {}).get(field_id)
        upper = (file.handle.upper_bounds or {}).get(field_id)
        if not _any_within(keys, lower, upper):
            return FoundRows(wanted.empty_table(), 0)
        io = load_file_io(dict(self.properties), file.url)
        with io.new_input(file.url).open() as source:
            found = self._find(pq.ParquetFile(source), wanted, key, keys)
        if not found.rows.num_rows or not file.deletes:
            return found
        gone = deleted_positions(io, file.deletes, file.handle.file_path)
        size = found.read_bytes + sum(one.file_size_in_bytes for one in file.deletes)
        is_gone = pc.is_in(found.rows.column(POSITION), gone)
        return FoundRows(found.rows.filter(pc.invert(is_gone)), size)

    def _find(self, parquet: Any, wanted: Schema, key: str, keys: list[bytes]) -> FoundRows:
        names = self._names(parquet.schema_arrow)
        metadata = parquet.metadata
        leaves = {metadata.schema.column(one).path: one for one in range(metadata.num_columns)}
        others = [names[one.name] for one in wanted if one.name in names and one.name != key]
        values = pa.array(keys, pa.binary())
        tables, first, size = [wanted.empty_table()], 0, metadata.serialized_size
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            chunk = group.column(leaves[names[key]])
            lower, upper = _bounds(chunk.statistics)
            if _any_within(keys, lower, upper):
                size += chunk.total_compressed_size
                column = parquet.read_row_group(number, columns=[names[key]]).column(0)
                at = pc.indices_nonzero(pc.is_in(column.cast(pa.binary()), values))
                if len(at):
                    rows = parquet.read_row_group(number, columns=others)
                    size += sum(group.column(leaves[one]).total_compressed_size for one in others)
                    tables.append(_found(rows, column, at, first, wanted, key, names))
            first += group.num_rows
        return FoundRows(pa.concat_tables(tables), size)

    def _names(self, physical: Schema) -> dict[str, str]:
        """What the columns of the table are called in a file; those it lacks are left out."""
        by_id = {(one.metadata or {}).get(b"PARQUET:field_id", b""): one.name for one in physical}
        found = {}
        for one in self.metadata.schema().fields:
            name = by_id.get(str(one.field_id).encode())
            if name is None and not any(by_id):
                # A file without ids, which the table took over, goes by names.
                name = one.name if one.name in physical.names else None
            if name is not None:
                found[one.name] = name
        return found


def _is_parquet(file: DataFileInfo) -> bool:
    return str(file.handle.file_format).rpartition(".")[2] == "PARQUET"


def _has_objects_in_lists(kind: DataType, *, is_in_list: bool = False) -> bool:
    if pa.types.is_struct(kind):
        return is_in_list or any(_has_objects_in_lists(one.type) for one in kind)
    if pa.types.is_list(kind):
        return _has_objects_in_lists(kind.value_type, is_in_list=True)
    return pa.types.is_map(kind) and _has_objects_in_lists(kind.item_type, is_in_list=True)


def by_ids(array: Array, kind: DataType) -> Array:
    """The array with the parts of structs named as in `kind`, whose fields have the same ids.

    Parts that the file lacks are left out, those that the table lacks too. A file without ids,
    which the table took over, goes by names.
    """
    if pa.types.is_struct(kind):
        places = {_id(one): at for at, one in enumerate(array.type)}
        parts = [(one, places[_id(one)]) for one in kind if _id(one) in places]
        if not any(places) or not parts:
            return array
        arrays = [by_ids(array.field(at), one.type) for one, at in parts]
        fields = [
            pa.field(one.name, part.type) for (one, _), part in zip(parts, arrays, strict=True)
        ]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=array.is_null())
    if pa.types.is_list(kind) and pa.types.is_list(array.type):
        items = by_ids(array.values, kind.value_type)
        return with_child(array, pa.list_(pa.field("element", items.type)), items)
    if pa.types.is_map(kind) and pa.types.is_map(array.type):
        items = by_ids(array.items, kind.item_type)
        whole = pa.map_(array.type.key_type, items.type)
        entries = [pa.field("key", array.type.key_type, False), pa.field("value", items.type)]
        flat = pa.StructArray.from_arrays([array.keys, items], fields=entries)
        return with_child(array, whole, flat)
    return array


def _id(field: Field) -> bytes:
    found: bytes = (field.metadata or {}).get(b"PARQUET:field_id", b"")
    return found


def _found(
    rows: Table, keys: Any, at: Any, first: int, wanted: Schema, key: str, names: dict[str, str]
) -> Table:
    """The rows at some places of a row group that begins at position `first`."""
    arrays = []
    for one in wanted:
        if one.name == POSITION:
            arrays.append(pc.add(at.cast(pa.int64()), pa.scalar(first)))
        elif one.name == key:
            arrays.append(keys.take(at).cast(one.type))
        elif one.name in names:
            arrays.append(rows.column(names[one.name]).take(at).cast(one.type))
        else:
            arrays.append(pa.nulls(len(at), one.type))
    return pa.Table.from_arrays(arrays, schema=wanted)


def _bounds(statistics: Any) -> tuple[bytes | None, bytes | None]:
    if statistics is None or not statistics.has_min_max:
        return None, None
    return statistics.min, statistics.max


def _any_within(keys: list[bytes], lower: bytes | None, upper: bytes | None) -> bool:
    """Whether one of the sorted keys may lie within bounds; those that are unknown are wide."""
    first = 0 if lower is None else bisect_left(keys, lower)
    return first < len(keys) and (upper is None or keys[first] <= upper)


def iceberg_reader(table: Any) -> IcebergReader:
    """The reader for files of pyiceberg's table."""
    small: dict[str, Any] = {"snapshots": [], "snapshot_log": [], "metadata_log": [], "refs": {}}
    metadata = table.metadata.model_copy(update={**small, "current_snapshot_id": None})
    return IcebergReader(metadata, dict(table.io.properties))
