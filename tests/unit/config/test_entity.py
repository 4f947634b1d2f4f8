"""Client metrics, users, IP addresses."""

import pytest

from kaa.config import ConfigError
from kaa.config.entity import CLIENT_METRICS, IP, USER, validate_client_metrics


def test_a_subscription() -> None:
    values = validate_client_metrics(
        {
            "metrics": "a.,b.",
            "interval.ms": "100",
            "match": "client_id=app-.*, client_source_port=1",
        }
    )
    assert values.get_list("metrics") == ("a.", "b.")
    assert validate_client_metrics({}).get_int("interval.ms") == 300_000


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"nonsense": "1"}, "Unknown client metrics configuration: nonsense"),
        ({"interval.ms": "99"}, "between 100 and 3600000"),
        ({"interval.ms": "3600001"}, "between 100 and 3600000"),
        ({"match": "client_id"}, "name=pattern"),
        ({"match": "color=red"}, "client_software_name"),
        ({"match": "client_id=("}, "Illegal client matching pattern"),
        ({"match": "client_id=a=b"}, "Illegal client matching pattern"),
    ],
)
def test_refused_subscriptions(overrides: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        validate_client_metrics(overrides)


def test_tables() -> None:
    assert set(CLIENT_METRICS.names()) == {"metrics", "interval.ms", "match"}
    assert set(IP.names()) == {"connection_creation_rate"}
    assert {"producer_byte_rate", "SCRAM-SHA-512"} <= set(USER.names())
