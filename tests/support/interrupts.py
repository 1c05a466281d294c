"""Children that heed an interrupt."""

from __future__ import annotations

import signal


def heed_interrupts() -> None:
    """For `preexec_fn`: a run in the background of a shell has its interrupts ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
