from __future__ import annotations

from kaa.handlers import authorized_operations


def test_as_a_broker_without_authorizer_says() -> None:
    assert authorized_operations.TOPIC == 3576
    assert authorized_operations.CLUSTER == 8096
    assert authorized_operations.NOT_ASKED == -2147483648
