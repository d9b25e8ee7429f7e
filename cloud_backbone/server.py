# SPDX-License-Identifier: Apache-2.0
"""Entry point of the backbone: read the settings, then serve until a signal.

``backbone --help`` lists the options. Exit status: 0 after a signal, 2 if it cannot start.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
import logging
import sys
from typing import Any

from cloud_backbone.config import BackboneConfig, load_config
from cloud_backbone.errors import StartError
from cloud_backbone.listening import check_free
import yaml

EXIT_START_ERROR = 2
EXAMPLES = """
examples:
  backbone                                       the shipped checkpoint on 127.0.0.1
  backbone --checkpoint ~/SmolVLM-256M-Instruct  any image-text-to-text checkpoint on disk
  backbone --config config/backbone.yaml --set limits.max_batch=4
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until a signal; return the exit status."""
    arguments = _parser().parse_args(argv)
    logging.basicConfig(
        level=logging.INFO, format='%(levelname)s %(name)s: %(message)s', stream=sys.stderr
    )
    try:
        asyncio.run(_serve(load_config(arguments.config, _overrides(arguments))))
    except StartError as error:
        print(f'backbone: {error}', file=sys.stderr)
        return EXIT_START_ERROR
    except KeyboardInterrupt:
        return 0
    return 0


async def _serve(config: BackboneConfig) -> None:
    check_free(config.host, config.port)
    # Imported here: torch takes seconds, and --help and wrong settings need none of it.
    from cloud_backbone.serving import serve

    await serve(config)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='backbone',
        description='Serves plans to robots over gRPC.',
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--config', help='YAML file with settings')
    parser.add_argument('--checkpoint', help='directory of an image-text-to-text checkpoint')
    parser.add_argument('--host', help='address to listen on (default 127.0.0.1)')
    parser.add_argument('--port', type=int, help='port to listen on; 0 picks a free one')
    parser.add_argument('--threads', type=int, help='threads of the model (default 1)')
    parser.add_argument('--device', help='torch device of the model (default cpu)')
    parser.add_argument(
        '--insecure', action='store_true', default=None,
        help='allow plain text on other hosts than loopback',
    )  # fmt: skip
    parser.add_argument(
        '--set', action='append', default=[], metavar='KEY=VALUE',
        help='any other setting by its dotted key, for example limits.max_sessions=4',
    )  # fmt: skip
    return parser


def _overrides(arguments: argparse.Namespace) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for text in arguments.set:
        key, separator, value = text.partition('=')
        if not separator:
            raise StartError(f'--set {text!r} has no value, write KEY=VALUE')
        values[key] = yaml.safe_load(value)
    for name in ('checkpoint', 'host', 'port', 'threads', 'device', 'insecure'):
        if getattr(arguments, name) is not None:
            values[name] = getattr(arguments, name)
    return values


if __name__ == '__main__':
    sys.exit(main())
