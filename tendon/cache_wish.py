# SPDX-License-Identifier: Apache-2.0
"""What an evaluation wants of the backbone's cache, as people write it."""

from dataclasses import dataclass
from fractions import Fraction

from onboard_decoder.planner_client import LinkSettings
from tendon.errors import BadRequest


@dataclass(frozen=True)
class CacheWish:
    """Policy and budget; empty and 0 leave them to the backbone.

    Attributes:
      policy: by name.
      budget_bytes: of one session [B].
      share: the same as a share of a usual turn in half precision.
    """

    policy: str = ''
    budget_bytes: int = 0
    share: Fraction = Fraction(0)

    @classmethod
    def read(cls, policy: str, budget: str) -> 'CacheWish':
        """Read a policy's name, and a budget such as 30000 or 1/8.

        Raises:
          BadRequest: for a budget that is neither bytes nor a share.
        """
        try:
            value = Fraction(budget or 0)
        except (ValueError, ZeroDivisionError):
            value = Fraction(-1)
        if value < 0 or (value > 1 and value.denominator > 1):
            raise BadRequest(f'cache-budget is {budget!r}; allowed: bytes, or a share such as 1/8')
        if 0 < value <= 1:
            return cls(policy, share=value)
        return cls(policy, int(value))

    def settings(self) -> dict[str, object]:
        """Return the settings of a backbone that is started for it."""
        said = {
            'cache.policy': self.policy, 'cache.budget_bytes': self.budget_bytes,
            'cache.budget_fraction': float(self.share),
        }
        return {key: value for key, value in said.items() if value}

    def link(self) -> LinkSettings:
        """Return what a robot says to a backbone that is there already.

        Raises:
          BadRequest: for a share, which only a backbone's own settings can ask for.
        """
        if self.share:
            raise BadRequest(
                f'cache-budget is {self.share}; with --backbone give bytes, or set '
                'cache.budget_fraction there'
            )
        return LinkSettings(cache_policy=self.policy, cache_budget_bytes=self.budget_bytes)
