"""What a command needs beyond the core, and which extra brings it.

The core of Kaa is small; Spark, tables, remote storage and formats of a schema registry come as
extras (`pip install 'kaa[lake]'`). A command without its extra says which one it needs.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

EXTRAS: Final = {
    "cryptography": "tls",
    "google": "protobuf",
    "grpc_tools": "protobuf",
    "obstore": "tier",
    "ptars": "protobuf",
    "pyarrow": "spark",
    "pyiceberg": "lake",
    "pyspark": "spark",
    "sqlalchemy": "lake",
    "yaml": "lake",
}
"""The smallest extra that brings a module."""


def missing_text(error: ImportError, extra: str | None = None) -> str | None:
    """What to install; None if the module belongs to no extra, so that something else is wrong."""
    module = (error.name or "").partition(".")[0]
    found = EXTRAS.get(module)
    if found is None:
        return None
    return f"{module} is missing: pip install 'kaa[{extra or found}]'"


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """The block needs an extra, of which not each module may be missing alone."""
    try:
        yield
    except ImportError as error:
        text = missing_text(error, extra)
        if text is None:
            raise
        raise click.ClickException(text) from error
