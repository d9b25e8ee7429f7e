# SPDX-License-Identifier: Apache-2.0
"""The card that lies beside an onboard planner. Only formats what others measured."""

from __future__ import annotations

from collections.abc import Mapping
import math
from typing import Any

from onboard_decoder.manifest import Manifest

_TEXT = """# Onboard planner of {robot}

`planner.onnx` lets the robot plan simple tasks without its backbone: pick a thing, put it into a
container, go home, stay, say that a thing is not there or that a task is done. Everything else,
and whatever it is not sure of, it leaves to the backbone. It runs on one CPU thread. It was
trained on pictures of a simulator and has never seen a real table.

- Inputs: image (1 x {image_px} x {image_px} x 3, uint8 RGB of the manifest's first camera), words
  (1 x {most_words} numbers of known words, 0 for none).
- Outputs: what was heard (task, and colour and kind of thing and place, as shares of 1), and for
  every cell of 4 px and each of two slots (things, containers): presence, kind, colour, centre
  within the cell; for things whether they lie in or on another, whether the gripper holds them,
  and how a cube is turned. `fallback/simple_planner.py` makes a plan of it.
- Eyes: convolutions at 4, 8 and 16 px, {eyes_parameters} parameters. Ears: {ears_layers}
  transformer layers over {words} known words, {ears_parameters} parameters.
- Opset {opset}. {bytes} bytes. Greatest relative difference to torch: {difference:.1e}. Digest of
  the weights: `{digest}`.

## Data and training

{train_scenes} scenes of `sim/dataset.py` (seed {train_seed}) with 16 sentences each. Eyes:
{eyes_steps} batches of {eyes_batch}, {eyes_cpu_s:.0f} s of one CPU core. Ears: {ears_steps}
batches of {ears_batch}, {ears_cpu_s:.0f} s. AdamW, seed {seed}. Half of the pictures have turned
hues, so that shape is not learned by colour; a third of the sentences is spoilt, so that what is
not understood is not answered. Confidence is calibrated on {val_scenes} other scenes (seed
{val_seed}).

## Figures

{test_scenes} scenes of the test split (seed {test_seed}; a third of the things are pairs of colour
and kind that training never shows), every sentence about them, half of them in wordings that
training never shows. A sentence counts as answered if the confidence is at least {least:g}. A plan
is right if outcome and task are, and thing and place are found within 4 px of 128 (about 2 cm).

| figure | value |
| --- | --- |
{figures}

An unseen wording mostly has words that the planner does not know; it then says so and waits.

## Limits

One camera, as calibrated in the manifest; things and containers of the simulator, in eight
colours. It takes nothing out of a container or from a stack, and puts nothing into a container in
which it sees something. It knows no sentence with two requests, no comparison, no place but a
container.

## Reproduce

The first line draws the scenes, which are the same for any number of them; of each set the first
{train_scenes}, {val_scenes} and {test_scenes} are used here.

    tendon distill --out runs/all
    python -m onboard_decoder.training.planner_pipeline runs/all/data --robot {robot} \\
        --out runs/planner --eyes-steps {eyes_steps} --ears-steps {ears_steps} --seed {seed}
"""


def planner_card(
    manifest: Manifest, about: Mapping[str, Any], figures: Mapping[str, float]
) -> str:
    """Return the card as Markdown.

    Args:
        manifest: of the robot.
        about: facts of the file and the training, keys as in the text.
        figures: from ``planner_scores.scores``.
    """
    rows = '\n'.join(
        f'| {name} | {"-" if math.isnan(value) else f"{value:.4g}"} |'
        for name, value in figures.items())
    return _TEXT.format(robot=manifest.name, figures=rows, **about)
