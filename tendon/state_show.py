# SPDX-License-Identifier: Apache-2.0
"""Prints what snapshots and journals hold, and changes nothing: for whoever looks into a session.

Text is shown where the tokenizer at hand is the one that a snapshot was made with. Knows the
files of ``cloud_backbone.kv_state``; needs no model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
import json
from pathlib import Path
from typing import Any

from cloud_backbone.config import SHIPPED_CHECKPOINT
from cloud_backbone.errors import StartError
from cloud_backbone.kv_state.errors import Corrupt
from cloud_backbone.kv_state.fingerprint import digest_of_tokenizer
from cloud_backbone.kv_state.journal import MAGIC, read_journal
from cloud_backbone.kv_state.journalled_state import TOKENIZER
from cloud_backbone.kv_state.snapshot import ENDING, load_snapshot, Snapshot, TOKENS_ONLY
from cloud_backbone.model.checkpoint_files import load_processor
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tendon.errors import BadRequest

TEXT = 72
"""Characters of a text that are shown."""
NUMBERS = 8
"""Numbers of a list that are shown."""
DIGITS = 4
"""Digits of a number that is no whole one."""
TOKENS = ('tokens', 'history', 'scene')
"""Keys of token ids in the words of an operation."""
FAILED = 1
Decode = Callable[[Sequence[int]], str]


def run(path: Path, checkpoint: Path | None = None) -> int:
    """Print a file, or all files of a folder; return 1 if one of them is damaged.

    Raises:
        BadRequest: there is no such file, or none of ours in it.
    """
    console = Console()
    files = list(_files(path))
    if not files:
        raise BadRequest(
            f'{path} holds no state: give a snapshot (*{ENDING}), a journal, or a folder of them'
        )
    texts, damaged = Texts(checkpoint or SHIPPED_CHECKPOINT), 0
    for file in files:
        console.print(f'[bold]{escape(str(file))}[/]  {file.stat().st_size:,} bytes')
        try:
            if file.suffix == ENDING:
                damaged += _show_snapshot(console, load_snapshot(file), texts)
            else:
                _show_journal(console, file, texts)
        except Corrupt as error:
            console.print(f'  [red]{escape(str(error))}[/]')
            damaged += 1
        console.print()
    return FAILED if damaged else 0


class Texts:
    """Turns tokens into text, where the right tokenizer is at hand.

    Args:
        checkpoint: directory with a tokenizer.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        try:
            processor = load_processor(checkpoint)
        except StartError as error:
            self._tokenizer, self._digest = None, str(error)
            return
        self._tokenizer = getattr(processor, 'tokenizer', processor)
        self._digest = digest_of_tokenizer(self._tokenizer)

    def of(self, digest: str) -> tuple[Decode, str]:
        """Return how to show tokens of a tokenizer, and why that is no text, if it is none."""
        tokenizer = self._tokenizer
        if tokenizer is not None and digest == self._digest:
            return lambda tokens: str(tokenizer.decode(list(tokens))), ''
        return _numbers, (
            f'no text: made with tokenizer {digest[:12]}, that of {self._checkpoint} is '
            f'{self._digest[:60]}; name the right one with --checkpoint'
        )


def _files(path: Path) -> Iterator[Path]:
    """Yield what is ours at a path, or below it."""
    if not path.exists():
        raise BadRequest(f'there is nothing at {path}')
    for file in sorted(path.rglob('*')) if path.is_dir() else [path]:
        if file.is_file() and (file.suffix == ENDING or _is_journal(file)):
            if not file.name.startswith('image-'):
                yield file


def _is_journal(file: Path) -> bool:
    with file.open('rb') as stream:
        return stream.read(len(MAGIC)) == MAGIC


def _show_snapshot(console: Console, snapshot: Snapshot, texts: Texts) -> int:
    """Print a snapshot; return how many of its tensors are damaged."""
    meta = snapshot.meta
    made_with, ledger = meta['fingerprint'], meta['ledger']
    decode, no_text = texts.of(made_with['tokenizer'])
    counts = meta['epoch'] or ledger['expected']  # the server has both in its journal
    console.print(
        f'  snapshot, {snapshot.tokens} tokens, {meta["held"]} of them with keys and values'
        + (f'; epoch {meta["epoch"]}, next step {ledger["expected"]}' if counts else '')
    )
    console.print(
        f'  policy {made_with["cache_policy"]}, {made_with["dtype"]}, {made_with["library"]}, '
        f'weights {made_with["weights"][:12]}', highlight=False, soft_wrap=True,
    )
    for note in (meta.get(TOKENS_ONLY) and f'tokens only, {meta[TOKENS_ONLY]}',
                 meta['reason'] and f'not all computed: {meta["reason"]}', no_text):
        if note:
            console.print(f'  {escape(note)}', highlight=False, soft_wrap=True)
    console.print(_segments(meta['segments'], decode))
    kinds = _bytes_by_kind(snapshot)
    console.print('  bytes: ' + ', '.join(f'{name} {count:,}' for name, count in kinds.items()))
    for name in snapshot.damaged:
        console.print(f'  [red]tensor {escape(name)} is damaged: its checksum does not fit[/]')
    if meta['words']:
        console.print(f'  words: {escape(_short(meta["words"], _numbers))}', highlight=False)
    return len(snapshot.damaged)


def _segments(segments: Sequence[Mapping[str, Any]], decode: Decode) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
    for title in ('segment', 'tokens', 'class', 'epoch', 'image', 'text'):
        table.add_column(title, justify='right' if title in ('tokens', 'epoch') else 'left')
    for one in segments:
        grade, kind, measured = one['exactness']
        known = [grade, kind, '' if measured is None else f'{measured:.3g}']
        table.add_row(
            one['name'], str(len(one['tokens'])), ' '.join(part for part in known if part),
            '' if one['epoch'] is None else str(one['epoch']), (one['image'] or '')[:12],
            escape(_cut(decode(one['tokens']))),
        )
    return table


def _bytes_by_kind(snapshot: Snapshot) -> dict[str, int]:
    """Return the bytes of the tensors by what they are for."""
    kinds = {'kv': 'keys and values', 'layers': 'windows', 'image': 'images'}
    found = dict[str, int]()
    for name, tensor in snapshot.tensors.items():
        kind = kinds.get(name.partition('.')[0], 'rest')
        found[kind] = found.get(kind, 0) + tensor.nbytes
    return found


def _show_journal(console: Console, file: Path, texts: Texts) -> None:
    reading = read_journal(file)
    decode, _ = texts.of(str(reading.head.get(TOKENIZER)))
    torn = file.stat().st_size - reading.whole
    end = f'; the last {torn} bytes are of a torn record, which counts as never written' \
        if torn else ''
    console.print(f'  journal of {len(reading.records)} records{end}')
    for number, record in enumerate((reading.head, *reading.records)):
        line = f'  {number:>5}  {escape(_short(record, decode))}'
        console.print(line, highlight=False, soft_wrap=True)


def _short(words: Any, decode: Decode) -> str:
    """Return words on one line, long lists and texts cut, token ids as text."""
    return json.dumps(_pruned(words, decode), ensure_ascii=False)


def _pruned(words: Any, decode: Decode) -> Any:
    if isinstance(words, Mapping):
        return {
            key: _cut(decode(value)) if key in TOKENS and isinstance(value, list)
            else _pruned(value, decode) for key, value in words.items()
        }
    if isinstance(words, (list, tuple)):
        if len(words) > NUMBERS and all(isinstance(one, (int, float)) for one in words):
            return _numbers(words)
        return [_pruned(one, decode) for one in words]
    if isinstance(words, float):
        return float(f'{words:.{DIGITS}g}')
    return _cut(words) if isinstance(words, str) else words


def _numbers(numbers: Sequence[float]) -> str:
    shown = ' '.join(
        f'{number:.{DIGITS}g}' if isinstance(number, float) else str(number)
        for number in numbers[:NUMBERS]
    )
    return shown if len(numbers) <= NUMBERS else f'{shown} … {len(numbers)} in all'


def _cut(text: str) -> str:
    """Return the beginning and the end of a text on one line."""
    line = ' '.join(text.split())
    half = TEXT // 2
    return line if len(line) <= TEXT else f'{line[:half]} … {line[-half:]}'
