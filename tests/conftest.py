"""What every test shares: how Hypothesis looks for examples.

`make test` must give the same verdict for the same commit, so examples follow from the test alone. To look further:
`pytest --hypothesis-profile=search`, which prints how to run a failure again.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "steady", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("steady")
