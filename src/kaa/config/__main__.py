"""`python -m kaa.config` prints the reference of all settings as Markdown."""

import sys

from kaa.config.reference import reference

if __name__ == "__main__":
    sys.stdout.write(reference())
