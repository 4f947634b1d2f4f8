"""What Python loads at its start when this folder is on its path."""

from importlib import import_module

import_module("kaa_kill_points").install()
