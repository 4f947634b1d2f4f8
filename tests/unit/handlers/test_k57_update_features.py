from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.handlers.support import Node


@pytest.mark.parametrize("version", [1, 2])
def test_a_feature_that_does_not_exist(node: Node, version: int) -> None:
    request = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="weird.version", max_version_level=1)]
    )
    response = node.ask(request, version)
    assert response.error_code == Errors.INVALID_UPDATE_VERSION
    assert response.error_message


def test_a_dry_run_changes_nothing(node: Node) -> None:
    before = dict(node.services.image.features)
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)
        ],
        validate_only=True,
    )
    assert node.ask(request).error_code == Errors.NONE
    assert node.services.image.features == before
