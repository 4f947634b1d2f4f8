"""Names of topics: which are allowed, which collide, which belong to Kafka itself."""

from __future__ import annotations

import re
from typing import Final

_LENGTH_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_problem(name: str) -> str | None:
    """Why a name is not allowed; None if it is."""
    if not name:
        return "the name of a topic must not be empty"
    if name in {".", ".."}:
        return f"a topic cannot be named {name}"
    if len(name) > _LENGTH_MAX:
        return f"a topic's name may have at most {_LENGTH_MAX} characters, this one has {len(name)}"
    if _LEGAL.fullmatch(name) is None:
        return "the name of a topic may have only ASCII letters, digits, '.', '_' and '-'"
    return None


def has_collision_characters(name: str) -> bool:
    """Metric names show '.' as '_', so names that differ only there would be mixed up."""
    return "." in name or "_" in name


def unified(name: str) -> str:
    return name.replace(".", "_")
