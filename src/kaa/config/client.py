"""The settings of producers, consumers and admin clients, named as in Kafka's Java clients."""

from collections.abc import Iterator, Mapping

from kaa.config.definition import (
    ConfigDef,
    ConfigProblem,
    ConfigValues,
    InvalidConfigError,
)
from kaa.config.tables.client import admin, consumer, producer
from kaa.config.tables.client.common import COMMON_KEYS
from kaa.config.tables.security.sasl import SASL_CLIENT_KEYS, SASL_KEYS
from kaa.config.tables.security.ssl import SSL_KEYS
from kaa.config.values import ConfigValue

_SHARED_KEYS = (*COMMON_KEYS, *SSL_KEYS, *SASL_KEYS, *SASL_CLIENT_KEYS)

PRODUCER = ConfigDef("producer", (*producer.KEYS, *_SHARED_KEYS))
CONSUMER = ConfigDef("consumer", (*consumer.KEYS, *_SHARED_KEYS))
ADMIN = ConfigDef("admin client", (*admin.KEYS, *_SHARED_KEYS))

# A client of Kaa takes callables or bytes instead of Java classes.
_PRODUCER_OPTIONAL: dict[str, ConfigValue] = {"key.serializer": None, "value.serializer": None}
_CONSUMER_OPTIONAL: dict[str, ConfigValue] = {"key.deserializer": None, "value.deserializer": None}

_IDEMPOTENT_IN_FLIGHT_MAX = 5
_CLASSIC_UNSUPPORTED = ("group.remote.assignor",)
_CONSUMER_PROTOCOL_UNSUPPORTED = (
    "partition.assignment.strategy",
    "heartbeat.interval.ms",
    "session.timeout.ms",
)
# The broker decides these for share groups, or they make no sense there.
_SHARE_UNSUPPORTED = (
    "auto.offset.reset",
    "enable.auto.commit",
    "group.instance.id",
    "isolation.level",
    "partition.assignment.strategy",
    "interceptor.classes",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "group.protocol",
    "group.remote.assignor",
)
_SHARE_ONLY = ("share.acknowledgement.mode", "share.acquire.mode")


def producer_values(texts: Mapping[str, str]) -> ConfigValues:
    """The settings of a producer. Idempotence nobody asked for gives way to acks and retries."""
    values = PRODUCER.parse(texts, _PRODUCER_OPTIONAL)
    problems = [*_common_problems(values), *_producer_problems(values, texts)]
    if problems:
        raise InvalidConfigError(problems)
    refined = _refine_common(values, texts)
    if values.get_string("acks") == "all":
        refined["acks"] = "-1"
    if refined["acks"] != "-1" or values.get_int("retries") == 0:
        refined["enable.idempotence"] = False
    return ConfigValues(refined)


def consumer_values(texts: Mapping[str, str]) -> ConfigValues:
    """The settings of a consumer. Without a group nothing is committed in the background."""
    values = CONSUMER.parse(texts, _CONSUMER_OPTIONAL)
    problems = [*_common_problems(values), *_consumer_problems(values, texts)]
    if problems:
        raise InvalidConfigError(problems)
    refined = _refine_common(values, texts)
    if values.value("group.id") is None:
        refined["enable.auto.commit"] = False
    return ConfigValues(refined)


def share_consumer_values(texts: Mapping[str, str]) -> ConfigValues:
    """The settings of a share consumer."""
    values = CONSUMER.parse(texts, _CONSUMER_OPTIONAL)
    problems = list(_common_problems(values))
    if values.value("group.id") is None:
        problems.append(ConfigProblem("group.id", "group.id must name the share group"))
    problems += [
        ConfigProblem(name, f"{name} must not be set for a share consumer")
        for name in _SHARE_UNSUPPORTED
        if texts.get(name)
    ]
    if problems:
        raise InvalidConfigError(problems)
    return ConfigValues(_refine_common(values, texts))


def admin_values(texts: Mapping[str, str]) -> ConfigValues:
    """The settings of an admin client."""
    values = ADMIN.parse(texts)
    problems = [*_common_problems(values), *_admin_problems(values)]
    if problems:
        raise InvalidConfigError(problems)
    return ConfigValues(_refine_common(values, texts))


def _refine_common(values: ConfigValues, texts: Mapping[str, str]) -> dict[str, ConfigValue]:
    refined = values.as_dict()
    # A first pause without an upper bound is meant as the pause.
    if "reconnect.backoff.ms" in texts and "reconnect.backoff.max.ms" not in texts:
        refined["reconnect.backoff.max.ms"] = refined["reconnect.backoff.ms"]
    return refined


def _common_problems(values: ConfigValues) -> Iterator[ConfigProblem]:
    uses_sasl = values.get_string("security.protocol").upper().startswith("SASL_")
    if uses_sasl and not values.get_string("sasl.mechanism"):
        yield ConfigProblem(
            "sasl.mechanism",
            "sasl.mechanism must name a mechanism when security.protocol uses SASL",
        )


def _producer_problems(values: ConfigValues, texts: Mapping[str, str]) -> Iterator[ConfigProblem]:
    idempotent = values.get_boolean("enable.idempotence")
    asked_for = "enable.idempotence" in texts
    acknowledged_by_all = values.get_string("acks") in {"all", "-1"}
    retried = values.get_int("retries") > 0
    if idempotent and asked_for and not retried:
        yield ConfigProblem("retries", "retries must be above 0 when enable.idempotence is true")
    if idempotent and asked_for and not acknowledged_by_all:
        yield ConfigProblem("acks", "acks must be all when enable.idempotence is true")
    in_flight = values.get_int("max.in.flight.requests.per.connection")
    if idempotent and in_flight > _IDEMPOTENT_IN_FLIGHT_MAX:
        yield ConfigProblem(
            "max.in.flight.requests.per.connection",
            "max.in.flight.requests.per.connection must be at most "
            f"{_IDEMPOTENT_IN_FLIGHT_MAX} when enable.idempotence is true, it is {in_flight}",
        )
    remains_idempotent = idempotent and acknowledged_by_all and retried
    if "transactional.id" in texts and not (remains_idempotent or (idempotent and asked_for)):
        yield ConfigProblem(
            "transactional.id", "transactional.id needs enable.idempotence, acks=all and retries"
        )
    if values.get_boolean("transaction.two.phase.commit.enable") and (
        "transaction.timeout.ms" in texts
    ):
        yield ConfigProblem(
            "transaction.timeout.ms",
            "transaction.timeout.ms must not be set with transaction.two.phase.commit.enable: "
            "such transactions do not time out",
        )
    shortest_ms = values.get_int("linger.ms") + values.get_int("request.timeout.ms")
    if "delivery.timeout.ms" in texts and values.get_int("delivery.timeout.ms") < shortest_ms:
        yield ConfigProblem(
            "delivery.timeout.ms",
            f"delivery.timeout.ms must be at least {shortest_ms}, "
            "which is linger.ms plus request.timeout.ms",
        )


def _consumer_problems(values: ConfigValues, texts: Mapping[str, str]) -> Iterator[ConfigProblem]:
    commits = "enable.auto.commit" in texts and values.get_boolean("enable.auto.commit")
    if commits and values.value("group.id") is None:
        yield ConfigProblem("enable.auto.commit", "enable.auto.commit=true needs a group.id")
    protocol = values.get_string("group.protocol").lower()
    own = _CLASSIC_UNSUPPORTED if protocol == "classic" else _CONSUMER_PROTOCOL_UNSUPPORTED
    for name in (*own, *_SHARE_ONLY):
        if texts.get(name):
            yield ConfigProblem(name, f"{name} must not be set when group.protocol={protocol}")


def _admin_problems(values: ConfigValues) -> Iterator[ConfigProblem]:
    brokers = values.get_list("bootstrap.servers")
    controllers = values.get_list("bootstrap.controllers")
    if bool(brokers) == bool(controllers):
        yield ConfigProblem(
            "bootstrap.servers", "Set either bootstrap.servers or bootstrap.controllers"
        )
