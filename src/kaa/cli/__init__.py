"""The command line: ``kaa NOUN VERB``, one module per noun, loaded only when it is used."""


def main() -> None:
    """Runs the program ``kaa``."""
    from kaa.cli.root import root

    root(prog_name="kaa")
