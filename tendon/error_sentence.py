# SPDX-License-Identifier: Apache-2.0
"""What people are told about an error that they can do something about.

Knows the bases of the errors by name only: naming them needs no import.
"""

# Bases of the errors whose text is one sentence for people.
EXPECTED = {
    ('cloud_backbone.errors', 'BackboneError'),
    ('onboard_decoder.errors', 'OnboardError'),
    ('sim.errors', 'SimError'),
    ('tendon.errors', 'TendonError'),
}
# What pip calls the part of Tendon that brings a module.
EXTRAS = {
    'matplotlib': 'report', 'mujoco': 'sim', 'onnxruntime': 'robot', 'rclpy': 'ros',
    'ruckig': 'robot', 'torch': 'cloud', 'transformers': 'cloud',
}


def sentence(error: Exception) -> str | None:
    """Return what to tell people about an error; None where it is a fault of ours."""
    if any((kind.__module__, kind.__name__) in EXPECTED for kind in type(error).__mro__):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get(error.name or '')):
        return f"this command needs {error.name}; run: pip install 'tendon[{extra}]'"
    return None
