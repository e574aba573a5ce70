from __future__ import annotations

from hypothesis import settings

# Machines that run the suite are shared; how long one example takes says nothing.
settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")
