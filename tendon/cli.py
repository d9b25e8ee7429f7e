# SPDX-License-Identifier: Apache-2.0
"""The command line ``tendon``: names, options and exit statuses, and nothing else.

Every command imports what it runs when it runs, so that ``--help`` stays fast and a machine needs
only what its command needs. Exit status: 0 done, 1 task or run failed, 2 bad request.
"""

from pathlib import Path
import sys
from typing import Annotated

from tendon import __version__
from tendon.bench_commands import bench
from tendon.cli_options import (
    Checkpoint,
    end,
    examples,
    GoesWrong,
    Mishap,
    Mode,
    MODE_HELP,
    Out,
    Seed,
    Sim,
    Simulator,
)
from tendon.error_sentence import sentence
from tendon.errors import BadRequest, TendonError
import typer

FAILED = 1
BAD_REQUEST = 2
# For commands that hand what they do not know to a node or server.
PASS_ON = {'allow_extra_args': True, 'ignore_unknown_options': True}

app = typer.Typer(
    help='A robot that thinks in the cloud and moves on its own.',
    epilog='New here? tendon doctor, then tendon demo.',
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    context_settings={'help_option_names': ['-h', '--help']},
)
app.add_typer(bench, name='bench')
state = typer.Typer(help='Look at what sessions keep.', no_args_is_help=True)
app.add_typer(state, name='state')

@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option('--version', help='Print the version.')] = False,
) -> None:
    """A robot that thinks in the cloud and moves on its own."""
    if show:
        print(f'tendon {__version__}')
        end(0)


@app.command(epilog=examples(
    'tendon demo', 'tendon demo --seed 11', 'tendon demo --instruction "pick up the red cube"',
    'tendon demo --mode react --mishap moved', 'tendon demo --sim gazebo',
))
def demo(
    seed: Seed = 7,
    instruction: Annotated[
        str | None, typer.Option(help='Say this instead of the sentence of the drawn task.')
    ] = None,
    out: Out = Path('runs/demo'),
    checkpoint: Checkpoint = None,
    mode: Annotated[Mode, typer.Option(help=MODE_HELP)] = Mode.PLAN,
    mishap: GoesWrong = Mishap.NONE,
    sim: Sim = Simulator.MUJOCO,
) -> None:
    """Do one task: backbone, simulated arm and robot on this machine."""
    from tendon.demo import run

    end(run(
        seed=seed, instruction=instruction, out=out, checkpoint=checkpoint, mode=mode.value,
        mishap=mishap.value, simulator=sim.value,
    ))


@app.command(
    context_settings=PASS_ON, add_help_option=False,
    epilog=examples('tendon serve', 'tendon serve --port 50300', 'tendon serve --help'),
)
def serve(context: typer.Context) -> None:
    """Serve plans to robots over gRPC; options: tendon serve --help."""
    from cloud_backbone.server import main as run

    end(run(context.args))


@app.command(context_settings=PASS_ON, epilog=examples(
    'tendon arm --seed 3', 'tendon arm --mishap blocked',
    'tendon arm --seed 3 -- --ros-args -p task:=stack -r __ns:=/left',
))
def arm(
    context: typer.Context, seed: Seed = 1, mishap: GoesWrong = Mishap.NONE,
    sim: Sim = Simulator.MUJOCO,
) -> None:
    """Run the simulated arm as a ROS node; further arguments are those of ROS."""
    from sim.arm_node import main as run

    run(ros_arguments(
        {'scene_seed': seed, 'mishap': mishap.value, 'simulator': sim.value}, context.args
    ))


@app.command(context_settings=PASS_ON, epilog=examples(
    'tendon robot', 'tendon robot --backbone cloud.example:50251 --robot my_arm/manifest.yaml',
    'tendon robot --mode react',
    'tendon robot -- --ros-args --params-file config/onboard.yaml',
))
def robot(
    context: typer.Context,
    backbone: Annotated[
        str | None, typer.Option(help='host:port of the backbone; default: this machine.')
    ] = None,
    manifest: Annotated[
        str | None, typer.Option('--robot', help='A robot of Tendon, or a manifest.')
    ] = None,
    mode: Annotated[Mode | None, typer.Option(help=MODE_HELP)] = None,
) -> None:
    """Run the robot's node; further arguments are those of ROS."""
    from onboard_decoder.onboard_node import main as run

    parameters: dict[str, object] = {
        'backbone_address': backbone, 'robot': manifest, 'agent.mode': mode and mode.value,
    }
    end(run(ros_arguments(parameters, context.args)))


@app.command(epilog=examples('tendon ask "put the red cube in the blue bin"'))
def ask(
    instruction: Annotated[str, typer.Argument(help='What the robot is to do, in words.')],
    timeout_s: Annotated[float, typer.Option(help='How long to follow the task.', min=1)] = 180,
) -> None:
    """Give a running robot an instruction and follow it to the end."""
    from tendon.ask import ask as run

    end(run(instruction, timeout_s))


@app.command('eval', epilog=examples(
    'tendon eval --episodes 20', 'tendon eval --split test --episodes 200 --out runs/eval',
    'tendon eval --axis visual --backbone 127.0.0.1:50251',
    'tendon eval --cache-policy cake+squat4 --cache-budget 1/8',
    'tendon eval --planner onboard', 'tendon eval --sim gazebo --kinds pick,put --episodes 50',
))
def evaluate(
    split: Annotated[str, typer.Option(help='train or test.')] = 'test',
    episodes: Annotated[int, typer.Option(help='Tasks per kind of wording.')] = 200,
    seed: Seed = 0,
    axis: Annotated[
        str, typer.Option(help='What differs from the training: none, visual or action.')
    ] = 'none',
    backbone: Annotated[
        str | None, typer.Option(help='host:port; default: start one.')
    ] = None,
    checkpoint: Checkpoint = None,
    workers: Annotated[
        int | None, typer.Option(help='Processes; default: one per core.', min=1)
    ] = None,
    delay_ms: Annotated[
        float, typer.Option(help='Simulated time from question to answer.', min=0)
    ] = 160.0,
    manifest: Annotated[
        str, typer.Option('--robot', help='A robot of Tendon, or a manifest.')
    ] = 'tendon_arm',
    cache_policy: Annotated[
        str, typer.Option(help='How sessions keep keys and values; default: full.')
    ] = '',
    cache_budget: Annotated[
        str, typer.Option(help='Bytes, or a share of a usual turn in half precision: 1/8.')
    ] = '',
    planner: Annotated[
        str, typer.Option(help='Who plans: cloud, onboard, or auto.')
    ] = 'cloud',
    kinds: Annotated[
        str, typer.Option(help='Kinds of tasks, in turn; for example pick,put.')
    ] = '',
    sim: Sim = Simulator.MUJOCO,
    out: Annotated[
        Path | None, typer.Option(help='Folder for one line per task and the scores.')
    ] = None,
) -> None:
    """Measure the success over many tasks, faster than real time; last line is JSON."""
    from tendon.evaluate import evaluate as run

    end(run(
        split=split, episodes=episodes, seed=seed, axis=axis, backbone_address=backbone,
        checkpoint=checkpoint, workers=workers, delay_ms=delay_ms, manifest=manifest, out=out,
        cache_policy=cache_policy, cache_budget=cache_budget, planner=planner, kinds=kinds,
        simulator=sim.value,
    ))


@app.command('gazebo-install', epilog=examples('tendon gazebo-install'))
def gazebo_install() -> None:
    """Fetch Gazebo Classic into the user's cache; 245 MB, without root."""
    from sim.gazebo.install import install as run

    print(f'Gazebo is in {run()}')


@app.command(epilog=examples(
    'tendon distill --profile smoke --out runs/smoke', 'tendon distill --out runs/distill',
))
def distill(
    out: Out = Path('runs/distill'),
    profile: Annotated[
        str, typer.Option(help='How much to train; see docs/training.md.')
    ] = 'full',
    seed: Annotated[int, typer.Option(help='Of data, weights and order.', min=0)] = 0,
    device: Annotated[
        str | None, typer.Option(help='Of torch; default: a GPU where there is one.')
    ] = None,
) -> None:
    """Make data, train teacher, student and decoder; goes on where it was interrupted."""
    from tendon.distill import run

    end(run(out=out, profile=profile, seed=seed, device=device))


@app.command(epilog=examples('tendon calibrate', 'tendon calibrate --checkpoint runs/mine'))
def calibrate(
    checkpoint: Checkpoint = None,
    scenes: Annotated[int, typer.Option(help='Turns to look at.')] = 100,
    seed: Seed = 0,
) -> None:
    """Prepare a checkpoint's compressed caches; again for each model of your own."""
    from tendon.calibrate import run

    end(run(checkpoint=checkpoint, scenes=scenes, seed=seed))


@state.command(epilog=examples(
    'tendon state show runs/state/cache.safetensors', 'tendon state show /var/lib/tendon',
))
def show(
    path: Annotated[Path, typer.Argument(help='A snapshot, a journal, or a folder of them.')],
    checkpoint: Checkpoint = None,
) -> None:
    """Print what a snapshot or journal holds; text where the model's tokenizer is at hand."""
    from tendon.state_show import run

    end(run(path=path, checkpoint=checkpoint))


@app.command(epilog=examples('tendon doctor', 'tendon doctor --backbone cloud.example:50251'))
def doctor(
    backbone: Annotated[
        str | None, typer.Option(help='host:port to look for a backbone at; default: here.')
    ] = None,
) -> None:
    """Check this machine, its way to the backbone and its ROS graph, with a remedy for each."""
    from tendon.doctor import run

    end(run(backbone))


def ros_arguments(parameters: dict[str, object], more: list[str]) -> list[str]:
    """Write parameters as ROS arguments; those in ``more`` come later and win."""
    given = [
        part for name, value in parameters.items() if value is not None
        for part in ('-p', f'{name}:={value}')
    ]
    return [*(['--ros-args', *given, '--'] if given else []), *more]


def main() -> None:
    """Run a command; expected errors become one sentence and an exit status."""
    try:
        app()
    except Exception as error:
        text = sentence(error)
        if text is None:
            raise
        print(f'tendon: {text}', file=sys.stderr)
        is_run = isinstance(error, TendonError) and not isinstance(error, BadRequest)
        sys.exit(FAILED if is_run else BAD_REQUEST)


if __name__ == '__main__':
    main()
