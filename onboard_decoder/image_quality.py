# SPDX-License-Identifier: Apache-2.0
"""Which JPEG quality a link bears: the best one whose image does not take too long to send.

One step down as soon as images take too long, one step up only when the larger ones have fitted
with room to spare for a while: a link that is just good enough must not flicker. Knows sizes and
seconds; encodes and sends nothing.
"""

from onboard_decoder.planner_port import LinkQuality

STEPS = (90, 85, 80, 75)
"""Qualities from best to worst; below the last one plans get worse (docs/transport_bench.md)."""
_MOST_UPLOAD_SHARE, _MOST_UPLOAD_S = 0.2, 0.05  # of the turn's deadline; in seconds
_ROOM = 2.0  # a better quality must fit so many times
_AFTER_TURNS = 10  # and that for so many turns in a row
_SIZES = (1.0, 0.89, 0.78, 0.65)  # of a JPEG at each step, as share of that at the first


class ImageQuality:
    """Keeps the quality of one robot's images.

    Args:
      deadline_s: of a turn [s].
      steps: qualities, from best to worst.
    """

    def __init__(self, deadline_s: float, steps: tuple[int, ...] = STEPS) -> None:
        self._budget_s = min(_MOST_UPLOAD_SHARE * deadline_s, _MOST_UPLOAD_S)
        self._steps = steps
        self._step, self._size_at_best = 0, 0.0
        self._fitting = 0

    @property
    def value(self) -> int:
        """The quality for the next image, 1..100."""
        return self._steps[self._step]

    def sent(self, size: int) -> None:
        """Note how many bytes the images of a turn have at the present quality."""
        self._size_at_best = size / _SIZES[self._step]

    def choose(self, link: LinkQuality | None) -> int:
        """Return the quality for the images of the next turn; call it once for each."""
        rate = link.bytes_per_s if link is not None else None
        if rate is None or rate <= 0 or not self._size_at_best:
            return self.value
        better = self._step - 1
        fits_better = self._step > 0 and self._upload_s(better, rate) * _ROOM < self._budget_s
        self._fitting = self._fitting + 1 if fits_better else 0
        if self._upload_s(self._step, rate) > self._budget_s:
            self._step = min(self._step + 1, len(self._steps) - 1)
        elif self._fitting >= _AFTER_TURNS:
            self._step, self._fitting = better, 0
        return self.value

    def _upload_s(self, step: int, rate: float) -> float:
        """Return how long images would take at a step [s]."""
        return self._size_at_best * _SIZES[step] / rate
