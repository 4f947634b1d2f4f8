"""Partition specs of Iceberg as terms, and terms as fields of a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.spark.lake.partitioning import Term
from kaa.spark.lake.table import LakeError

if TYPE_CHECKING:
    from kaa.spark.lake.partitioning import Part


def terms_of(table: Any) -> tuple[Term, ...]:
    """How pyiceberg's table divides new files, by the names that its columns have now."""
    from pyiceberg.transforms import BucketTransform

    schema, terms = table.schema(), []
    for field in table.spec().fields:
        column = schema.find_column_name(field.source_id)
        if isinstance(field.transform, BucketTransform):
            terms.append(Term("bucket", column, field.transform.num_buckets, field.name))
            continue
        name = str(field.transform)
        if name not in {"identity", "year", "month", "day", "hour"}:
            raise LakeError(
                f"the table is divided by {name} of {column}, which cannot be written here"
            )
        terms.append(Term(name, column, field=field.name))
    return tuple(terms)


def part_of(file: Any) -> Part:
    """The values of a file's part."""
    return tuple(file.partition[index] for index in range(len(file.partition)))


def transform_of(term: Term) -> Any:
    """The transform of a term, as pyiceberg has it."""
    from pyiceberg import transforms

    if term.transform == "bucket":
        return transforms.BucketTransform(term.buckets)
    plain: dict[str, Any] = {
        "identity": transforms.IdentityTransform,
        "year": transforms.YearTransform,
        "month": transforms.MonthTransform,
        "day": transforms.DayTransform,
        "hour": transforms.HourTransform,
    }
    return plain[term.transform]()
