# SPDX-License-Identifier: Apache-2.0
"""The card that lies beside a decoder: what it is, what it was trained on, how good it is.

Only formats what others measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onboard_decoder.manifest import Manifest

_TEXT = """# Decoder of {robot}

`decoder.onnx` turns one step of a plan and the joints of the arm into a chunk of joint targets. It
runs on the robot, on one CPU thread. It was trained by imitation of a motion expert in simulation
and has never seen a real arm.

- Inputs (float32, batch of one): skill (one-hot of {skills}), target (tool x, y, z [m], yaw [rad]
  in base), gripper (0 closed to 1 open, wanted at the end), speed (share of the speed limits),
  joints and velocities (manifest order), accelerations of the arm and known (1 where they are,
  else 0), delay [s] until the first target is used, latent ({latent_size} numbers of the backbone;
  zeros where there is none), draft ({horizon} x {joints}, a noisy chunk), tau (0 noise, 1 chunk).
- Outputs: chunk ({horizon} x {joints} absolute joint targets, one per {period_s} s; the first is
  to be reached `delay` + one period after the state), remaining [s] until the step is over,
  at most 3.
- A chunk is drawn by five passes from the same noise each time, and led to the chunk that is being
  played over its first rows (`chunk_guidance.py`, `takeover.py`).
- Parameters: {parameters}. Opset {opset}. Greatest difference to torch: {difference:.1e}.

## Data and training

{samples} samples of the motion expert in `sim/expert.py` (made by `sim/demonstrations.py`): all
skills, targets anywhere over the table, states on, near and off the expert's motions, changed
targets, fingers with and without a thing between them, delays from 0 to 0.5 s. {steps} batches of
{batch}, AdamW, seed {seed}, {cpu_s:.0f} s of one CPU core{began}.
The loss is that of flow matching, in terms of the chunk, plus what a chunk asks for beyond 0.9 of
the acceleration limits. Accelerations are hidden in 4 of 10 samples.

The latent is unused. The demonstrations have none, so a third of the samples carries noise in its
place: the decoder neither needs nor follows one.

## Figures

Held-out plans ({sequences} steps of drawn tasks), ideal tracking, through the robot's plan buffer,
before any filter; decoded every so many ticks and used so many ticks later:

| figure | {rhythms} |
| --- | {rules} |
{figures}

"Over" needs remaining < 0.08 s at rest. Times by the expert's are of whole steps, detection and
cross-fade included. Limits are those of the manifest, looked at inside each chunk with what is
being played before it.

## Limits

Made for the tool pointing down over x 0.25 to 0.68 m, y -0.34 to 0.34 m, z 0.01 to 0.36 m; a
target elsewhere gives a motion that is within the joint limits and otherwise meaningless. It knows
no obstacles. Starts far from tool-down (more than about 0.3 rad in a joint) are rare in the data.

Made to be decoded every 8 ticks or less often. What it is off at the start of a chunk adds up when
chunks follow each other faster: look at the column of every third tick; at every tick it leaves
the way. The robot's filter holds whatever a chunk asks for beyond a limit.

## Reproduce

    python -m sim.demonstrations runs/demonstrations --manifest {manifest} \\
        --samples {samples} --seed {data_seed}
    python -m onboard_decoder.training runs/demonstrations --robot {robot} \\
        --out runs/decoder --steps {steps} --batch {batch} --rate {rate} --seed {seed}{start}
"""


def model_card(
    manifest: Manifest, about: Mapping[str, Any], figures: Mapping[str, Mapping[str, float]]
) -> str:
    """Return the card as Markdown.

    Args:
        manifest: of the robot.
        about: facts of the file and the training, keys as in the text.
        figures: from `closed_loop.summary`, by rhythm.
    """
    columns = list(figures.values())
    rows = '\n'.join(
        f'| {name} | {" | ".join(f"{column[name]:.4g}" for column in columns)} |'
        for name in columns[0])
    return _TEXT.format(
        robot=manifest.name, joints=len(manifest.joints), period_s=manifest.control_period_s,
        figures=rows, rhythms=' | '.join(figures), rules=' | '.join('---' for _ in columns),
        sequences=int(columns[0]['steps']),
        manifest=f'onboard_decoder/robots/{manifest.name}/manifest.yaml',
        **{'data_seed': 0, 'start': '', 'began': '', **about})
