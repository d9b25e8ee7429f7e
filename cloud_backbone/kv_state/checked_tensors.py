# SPDX-License-Identifier: Apache-2.0
"""Named tensors and plain words as one safetensors file of which every byte is checked.

Each tensor has a checksum (CRC-32, which finds any damage within 32 bits for certain), and the
header has a digest of its own. Any reader of safetensors can open such a file; this one refuses
it if a single byte is not as it was written. Knows no disk and no session.

    uint64 bytes of the header | header, JSON | tensors, without gaps, in the header's order
"""

from __future__ import annotations

from collections.abc import Mapping
import hashlib
import json
import math
from typing import Any
import zlib

from cloud_backbone.kv_state.errors import Corrupt
import torch
from torch import Tensor

DTYPES = {
    'I64': torch.int64, 'F32': torch.float32, 'I32': torch.int32, 'F16': torch.float16,
    'BF16': torch.bfloat16, 'I16': torch.int16, 'U8': torch.uint8, 'I8': torch.int8,
    'BOOL': torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
META, CHECKS, DIGEST = 'tendon', 'crc32', 'sha256'
PREFIX = 8
ALIGNED = 8
"""Tensors begin at a multiple of this [B]."""


def encode(tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> list[memoryview]:
    """Return the bytes of a file, part by part; tensors are not copied if they are contiguous.

    Args:
        tensors: on the CPU.
        meta: as JSON knows it.
    """
    # As the format asks: wide types first, so that all are aligned.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    parts = [_bytes_of(tensors[name]) for name in names]
    header: dict[str, Any] = {'__metadata__': {
        META: _text(meta),
        CHECKS: _text({name: zlib.crc32(part) for name, part in zip(names, parts, strict=True)}),
    }}
    start = 0
    for name, part in zip(names, parts, strict=True):
        tensor = tensors[name]
        header[name] = {
            'dtype': NAMES[tensor.dtype], 'shape': list(tensor.shape),
            'data_offsets': [start, start + len(part)],
        }
        start += len(part)
    raw = _header_bytes(header)
    return [memoryview(len(raw).to_bytes(PREFIX, 'little') + raw), *parts]


def decode(
    buffer: Any, name: str = 'snapshot', damaged: list[str] | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors, which lie in the buffer, and the words.

    Args:
        buffer: a writable buffer (a private map of a file); not changed.
        name: of the file, for messages.
        damaged: where it is given, names of damaged tensors are added to it, and the others are
            returned; a header that is damaged still raises.

    Raises:
        Corrupt: a byte is not as it was written; it names the header or the tensor.
    """
    view = memoryview(buffer)
    header, start = _read_header(view, name)
    said = header.pop('__metadata__')
    checks = json.loads(said[CHECKS])
    tensors: dict[str, Tensor] = {}
    end = 0
    for key, entry in header.items():
        first, end = entry['data_offsets']
        part = view[start + first : start + end]
        if len(part) != end - first or zlib.crc32(part) != checks[key]:
            if damaged is None:
                raise Corrupt(f'{name}: tensor {key}', 'its checksum does not fit')
            damaged.append(key)
            continue
        dtype, shape = DTYPES[entry['dtype']], entry['shape']
        count = math.prod(shape)
        flat = torch.frombuffer(buffer, dtype=dtype, count=count, offset=start + first) \
            if count else torch.empty(0, dtype=dtype)
        tensors[key] = flat.view(shape)
    if start + end != len(view) and not damaged:
        raise Corrupt(f'{name}: end', f'{len(view)} bytes are there, {start + end} were written')
    return tensors, json.loads(said[META])


def _read_header(view: memoryview, name: str) -> tuple[dict[str, Any], int]:
    """Return the header and where the tensors begin."""
    size = int.from_bytes(view[:PREFIX], 'little')
    start = PREFIX + size
    if start > len(view):
        raise Corrupt(f'{name}: header', f'it has {size} bytes, the file only {len(view)}')
    raw = bytes(view[PREFIX:start])
    try:
        header = json.loads(raw)
        digest = header['__metadata__'].pop(DIGEST)
        # Written anew it must be the same: then nothing in it is unchecked, not even a space.
        fits = _header_bytes(header) == raw and header['__metadata__'][DIGEST] == digest
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corrupt(f'{name}: header', f'it cannot be read ({error!r})') from error
    if not fits:
        raise Corrupt(f'{name}: header', 'its digest does not fit')
    return header, start


def _header_bytes(header: dict[str, Any]) -> bytes:
    """Return the header with its digest, filled up so that tensors are aligned."""
    digest = hashlib.sha256(_text(header).encode()).hexdigest()
    header['__metadata__'] = {**header['__metadata__'], DIGEST: digest}
    text = _text(header).encode()
    return text + b' ' * (-(PREFIX + len(text)) % ALIGNED)


def _bytes_of(tensor: Tensor) -> memoryview:
    flat = tensor.detach().contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy()).cast('B') if flat.numel() \
        else memoryview(b'')


def _text(words: Any) -> str:
    return json.dumps(words, separators=(',', ':'))
