from __future__ import annotations

import pytest
from click.testing import CliRunner

from kaa.cli.output import show
from kaa.cli.root import root
from kaa.cli.template import Template, TemplateError, lines

ROW = {"name": "orders", "none": None, "configs": {"retention.ms": "7"}, "isr": [1, 2], "n": 3}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{name} {n}", "orders 3"),
        ("{name:<8}|{n:>3}|{n:^3}|", "orders  |  3| 3 |"),
        ("{configs[retention.ms]} {isr[1]} {isr[9]}{configs[x]}{none}", "7 2 "),
        ("{configs} {isr}", '{"retention.ms": "7"} [1, 2]'),
        ("{{{name}}}\\t\\n\\\\t", "{orders}\t\n\\t"),
        ("template={name}", "orders"),
    ],
)
def test_braces_are_filled_in(text: str, filled: str) -> None:
    assert lines(text, [ROW]) == [filled]


@pytest.mark.parametrize(
    "text", ["{name", "}", "{}", "{0}", "{name!r}", "{name:x}", "{n[}", "{a b}"]
)
def test_what_is_no_template(text: str) -> None:
    with pytest.raises(TemplateError):
        Template(text)


def test_no_way_to_the_insides_of_an_object() -> None:
    with pytest.raises(TemplateError, match=r"there is no field name.__class__; fields: name"):
        Template("{name.__class__}").fill(ROW)
    assert Template("{name[__class__]}").fill(ROW) == ""


def test_as_an_output(capsys: pytest.CaptureFixture[str]) -> None:
    show("template={name}={n}", ["name"], [ROW, {**ROW, "n": 4}])
    assert capsys.readouterr().out == "orders=3\norders=4\n"
    answer = CliRunner().invoke(root, ["version", "-o", "template={kafka}"])
    assert answer.output == "4.3.1\n"
    wrong = CliRunner().invoke(root, ["version", "-o", "template={kafka"])
    assert wrong.exit_code == 2
    absent = CliRunner().invoke(root, ["version", "-o", "template={kafak}"])
    assert absent.exit_code == 2
    assert "there is no field kafak; fields: kaa, kafka, python" in absent.output
