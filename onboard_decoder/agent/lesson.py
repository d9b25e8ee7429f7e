# SPDX-License-Identifier: Apache-2.0
"""One lesson: a sentence that a failed trial gave, with what it came from and how it fared.

A lesson is data. It is shown to the backbone as it stands and read by nothing on the robot, so it
can relax no limit and name no tool that the interlocks do not know.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
import json
import re

from onboard_decoder.agent.task_result import FailureCode

MAX_CHARS = 200
_PLAIN = re.compile(r"[A-Za-z0-9 .,:;'-]+")


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson.

    Attributes:
      task: the tool that failed, by name.
      object_name: the thing that it failed with.
      code: what went wrong.
      evidence: step ids of the trial that it was drawn from.
      text: one or two plain sentences.
      uses, wins, losses: trials that were given it; those that succeeded, those that failed.
      created: date and time, UTC.
      model: fingerprint of the model that wrote it.
      refused_by: fingerprint of a model that does not take it; empty if none is known.
    """

    task: str
    object_name: str
    code: FailureCode
    evidence: tuple[int, ...]
    text: str
    uses: int = 0
    wins: int = 0
    losses: int = 0
    created: str = ''
    model: str = ''
    refused_by: str = ''

    def credited(self, has_won: bool) -> 'Lesson':
        """Return it after one more trial that was given it."""
        return replace(
            self, uses=self.uses + 1, wins=self.wins + has_won, losses=self.losses + (not has_won)
        )

    def is_retired(self, most_losses: int = 2) -> bool:
        """True once it has lost too often, and not won more often, or is not taken."""
        if self.refused_by:
            return True
        return self.losses >= most_losses and self.losses > self.wins

    def rank(self, codes: Iterable[FailureCode]) -> tuple[int, float, int]:
        """Return how much it should be preferred: by failure code, then success, then use."""
        rate = self.wins / self.uses if self.uses else 0.5
        return int(self.code in set(codes)), rate, -self.losses

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps({**asdict(self), 'code': self.code.value}, ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> 'Lesson':
        """Read one line. Raises ValueError for anything that ``to_json`` does not write."""
        try:
            record = json.loads(line)
            record['code'] = FailureCode(record['code'])
            record['evidence'] = tuple(int(entry) for entry in record['evidence'])
            lesson = cls(**record)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f'no lesson: {error}') from error
        if plain_sentence(lesson.text) != lesson.text:
            raise ValueError('no lesson: its text is not plain')
        return lesson


def plain_sentence(text: str) -> str | None:
    """Return the text of a lesson without surplus spaces, or None if it is none.

    Only letters, digits and simple marks are taken, up to ``MAX_CHARS``: a lesson must not look
    like anything that a model or a file gives a meaning of its own.
    """
    cleaned = ' '.join(text.split())
    is_good = 0 < len(cleaned) <= MAX_CHARS and _PLAIN.fullmatch(cleaned) is not None
    return cleaned if is_good else None
