# SPDX-License-Identifier: Apache-2.0
"""Writes the GGUF file of the bench anew in single precision, so that all arms compute alike."""

from pathlib import Path
import tempfile
from typing import Any


def unpack(source: Path, target: Path) -> Path:
    """Write ``source`` with all weights as 32-bit floats unless ``target`` is there; return it."""
    if target.exists():
        return target
    import gguf

    reader = gguf.GGUFReader(source)
    kind = reader.fields['general.architecture'].contents()
    # Renamed when complete, so that an interrupted run leaves no half file.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        writer: Any = gguf.GGUFWriter(made, kind)
        for name, field in reader.fields.items():
            if name.startswith('GGUF.') or name in ('general.architecture', 'general.file_type'):
                continue
            inner = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(name, field.contents(), field.types[0], sub_type=inner)
        writer.add_file_type(gguf.LlamaFileType.ALL_F32)
        for tensor in reader.tensors:
            writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        made.rename(target)
    return target
