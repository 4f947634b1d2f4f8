"""The page about what is compared with a real Kafka."""

from __future__ import annotations

from kaa.handlers.registry import BROKER_APIS, CONTROLLER_APIS
from kaa.wire.registry import ApiKey, api
from kaa.wire.version import KAFKA_VERSION
from tests.differential.case import Case, versions_of
from tests.differential.every import CASES
from tests.differential.known import KNOWN

_HEAD = f"""\
# Compared with Kafka

Requests that were sent to a real Kafka {KAFKA_VERSION} and to Kaa, both with the same settings, and
whose answers were compared field by field. This page is generated from the cases
(`tests/differential`), and a test keeps it current.

Each case runs at the lowest, the middle and the highest version of its API, on every listener that
serves it, as far as the case makes sense there. Not compared is what must differ between two nodes
(ids, ports, times, the wording of errors) and the order of lists that Kafka takes from hash tables.

| API | versions | listeners | cases |
|---|---|---|---|
"""


def table() -> str:
    """The page as Markdown."""
    served = [each if isinstance(each, ApiKey) else each[0] for each in CONTROLLER_APIS]
    lines = []
    for key in sorted({*BROKER_APIS, *served}):
        cases = [told for told in CASES if told.key is key]
        lines.append(_row(key, cases))
    page = _HEAD + "".join(lines)
    page += _listed("Differences that are meant", KNOWN)
    return page


def _listed(title: str, found: dict[tuple[ApiKey, str], str]) -> str:
    page = f"\n## {title}\n\n| API | case | reason |\n|---|---|---|\n"
    for (key, name), reason in sorted(found.items(), key=lambda item: item[0]):
        page += f"| {api(key).name} | {name} | {reason} |\n"
    return page


def _row(key: ApiKey, cases: list[Case]) -> str:
    versions = ", ".join(str(version) for version in versions_of(key))
    listeners = ", ".join(sorted({listener for told in cases for listener in told.listeners}))
    names = "; ".join(told.name for told in cases) or "none yet"
    return f"| {api(key).name} ({key.value}) | {versions} | {listeners} | {names} |\n"
