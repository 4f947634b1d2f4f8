"""The reference page."""

from kaa.config.broker import BROKER
from kaa.config.reference import reference
from kaa.config.topic import TOPIC


def test_every_setting_has_its_paragraph() -> None:
    page = reference()
    for table in (BROKER, TOPIC):
        for key in table:
            assert (f"\n### {key.name}\n" in page) is not key.internal
            assert key.internal or key.documentation in page
    assert (
        "*long*, high importance; no default; dynamic, cluster-wide"
        in page.split("log.roll.ms\n")[1]
    )
    assert "default `604800000` (7 d); valid values `[-1,...]`; broker setting" in page
    assert "`log.retention.ms`, then `log.retention.minutes`, then `log.retention.hours`" in page
    assert "*refused* where this version lacks it" in page
    assert "default `1073741824` (1 GiB)" in page


def test_headings_are_unique_within_their_section() -> None:
    for section in reference().split("\n## ")[1:]:
        headings = [line for line in section.splitlines() if line.startswith("### ")]
        assert len(headings) == len(set(headings))
