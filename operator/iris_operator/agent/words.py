"""What programs print, as a part of a sentence in a status. Pure."""

from __future__ import annotations

MOST_CHARACTERS = 200


def last_line(output: bytes) -> str:
    """The last line with anything on it, fit to be shown in one line; empty when there is none."""
    lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else ""


def one_line(text: str) -> str:
    """Without what can't be printed, and not too long."""
    return short("".join(one if one.isprintable() else "�" for one in text.strip()), MOST_CHARACTERS)


def short(text: str, most: int) -> str:
    """Its beginning, when it is too long."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
