"""How many cases: IRIS_CASES for each property (`make properties CASES=5000`), else as many as half a minute bears.

They are others in every run: what one does not find, the next one may.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

_CASES = int(os.environ.get("IRIS_CASES", "30"))

settings.register_profile(
    "iris", max_examples=_CASES, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck)
)
settings.register_profile("hunt", settings.get_profile("iris"), phases=[Phase.explicit, Phase.reuse, Phase.generate])
settings.load_profile("hunt" if "IRIS_HUNT" in os.environ else "iris")
