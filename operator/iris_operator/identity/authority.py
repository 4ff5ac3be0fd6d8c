"""The authority's life: made once, followed by the next long before its end, both trusted meanwhile. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from iris_operator.identity.certificates import Pair, new_authority, split, validity

AUTHORITY_LIFE = timedelta(days=3650)
AGENT_LIFE = timedelta(hours=24)
GATEWAY_LIFE = timedelta(days=30)
# An agent hears of a new authority when it renews its certificate: at the latest a whole AGENT_LIFE after.
ANNOUNCE = 2 * AGENT_LIFE

_NAME = "iris-ca"


@dataclass(frozen=True)
class Authority:
    """`current` signs. `trusted`: whom both ends believe, a PEM each. `coming`: is believed already, signs later."""

    current: Pair
    trusted: tuple[bytes, ...]
    coming: Pair | None = None

    @property
    def bundle(self) -> bytes:
        """All that are trusted, as one PEM."""
        return b"".join(self.trusted)


def first_authority(now: datetime, life: timedelta = AUTHORITY_LIFE) -> Authority:
    """The first one of an installation."""
    made = new_authority(_NAME, now, life)
    return Authority(made, (made.certificate,))


def advance(authority: Authority, now: datetime, life: timedelta = AUTHORITY_LIFE) -> Authority:
    """What it should be now; itself when nothing is to be done.

    At two thirds of its life the next one is made and trusted; ANNOUNCE later that signs; the old one is trusted until
    its end, so that no certificate that it signed is refused before its time.
    """
    trusted = tuple(one for one in authority.trusted if validity(one).end > now)
    current, coming = authority.current, authority.coming
    if coming is None and now >= validity(current.certificate).renew_at:
        coming = new_authority(_NAME, now, life)
        trusted = (*trusted, *split(coming.certificate))
    elif coming is not None and now >= validity(coming.certificate).begin + ANNOUNCE:
        current, coming = coming, None
    after = Authority(current, trusted, coming)
    return authority if after == authority else after
