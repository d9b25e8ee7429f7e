# SPDX-License-Identifier: Apache-2.0
"""Promises of what ``tendon demo`` prints."""

import io
import json

import pytest
from rich.console import Console

pytest.importorskip('rclpy')

from tendon import demo  # only after the check above
from tendon.story import Story


def test_the_story_is_printed_as_it_was_said(tmp_path):
    """One line per event, however long, and words in brackets are no markup."""
    transcript, shown = tmp_path / 'transcript.jsonl', io.StringIO()
    story = Story(transcript)
    question = 'Can you clear [bold]the bin[/bold]? ' * 5
    transcript.write_text(json.dumps({'event': 'question', 'question': question}) + '\n')

    demo._tell(story, Console(file=shown, width=40))

    assert shown.getvalue() == f'  ask     a person is asked: {question}\n'


def test_the_last_line_says_how_it_ended(tmp_path):
    """Exit status and words agree; the reason is shown as it is."""
    result = {'attempts': 2, 'turns': 5, 'duration_s': 1.0, 'outcome': 'failed', 'reason': '[x]'}
    for is_fulfilled, status, words in ((True, 0, 'SUCCESS: '), (False, 1, 'failed: [x] (2 ')):
        shown = io.StringIO()
        assert demo._close(Console(file=shown, width=20), is_fulfilled, result) == status
        assert words in shown.getvalue()
        assert shown.getvalue().count('\n') == 1
