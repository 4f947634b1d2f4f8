"""The settings of a client: read from what its user gave, with warnings about slips.

What is accepted, and what it means, is in `kaa.config.client_habits`. A name that no client has
is logged as a warning, as Java's clients do, with the name that was most likely meant. A name of
another kind of client is fine: people share one dictionary between a producer and a consumer.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaa.client.errors import SecurityConfigError
from kaa.config.client_habits import FILES, read_settings, unknown_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaa.config.client_habits import GivenSettings
    from kaa.config.definition import ConfigDef, ConfigValues

_log = logging.getLogger(__name__)


def client_values(
    definition: ConfigDef,
    values_of: Callable[[Mapping[str, str]], ConfigValues],
    settings: Mapping[str, object] | None,
    named: Mapping[str, object],
) -> tuple[ConfigValues, dict[str, Callable[..., Any]]]:
    """The values of a client, and the functions among its settings; `named` wins."""
    if settings is not None and not hasattr(settings, "keys"):
        raise TypeError(
            f"settings are a dictionary as {{'bootstrap.servers': 'localhost:9092'}}, "
            f"not a {type(settings).__name__}"
        )
    found = read_settings(definition, {**(settings or {}), **named})
    _report(found, definition)
    return values_of(_with_files(found.texts)), found.callables


def _report(found: GivenSettings, definition: ConfigDef) -> None:
    for name in found.unknown:
        _log.warning("%s; it is ignored", unknown_text(name))
    if found.foreign:
        names = ", ".join(found.foreign)
        _log.debug("settings that are not those of a %s are ignored: %s", definition.scope, names)


def _with_files(texts: dict[str, str]) -> dict[str, str]:
    """Librdkafka has key and certificate in two files, Kafka in one file or as text."""
    given = {name: texts[name] for name in FILES if name in texts}
    if not given:
        return texts
    if len(given) < len(FILES):
        (missing,) = FILES - given.keys()
        raise SecurityConfigError(f"{' and '.join(sorted(FILES))} belong together; set {missing}")
    read = {name: text for name, text in texts.items() if name not in FILES}
    read["ssl.keystore.type"] = "PEM"
    read["ssl.keystore.certificate.chain"] = _content("ssl.certificate.location", given)
    read["ssl.keystore.key"] = _content("ssl.key.location", given)
    return read


def _content(name: str, given: Mapping[str, str]) -> str:
    try:
        return Path(given[name]).read_text()
    except OSError as error:
        raise SecurityConfigError(f"cannot read {given[name]} of {name}: {error}") from error
