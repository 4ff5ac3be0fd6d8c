"""The version of this installation."""

from importlib.metadata import version as _version

VERSION = _version("iris")
