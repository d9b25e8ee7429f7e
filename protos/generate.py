# SPDX-License-Identifier: Apache-2.0
"""Make the message classes from the .proto files, beside them.

``setup.py`` runs this at build time; ``python protos/generate.py`` runs it by hand.
"""

from pathlib import Path

PROTOS = Path(__file__).resolve().parent


def generate() -> None:
    """Write ``*_pb2.py``, ``*_pb2.pyi`` and ``*_pb2_grpc.py``; RuntimeError if protoc fails."""
    # Imported here: a machine that only runs the package needs no compiler.
    from grpc_tools import protoc

    sources = sorted(str(path.relative_to(PROTOS.parent)) for path in PROTOS.glob('*.proto'))
    root = str(PROTOS.parent)
    arguments = [
        f'-I{root}', f'--python_out={root}', f'--pyi_out={root}', f'--grpc_python_out={root}'
    ]
    if protoc.main(['protoc', *arguments, *sources]) != 0:
        raise RuntimeError(f'protoc failed on {", ".join(sources)}')


if __name__ == '__main__':
    generate()
