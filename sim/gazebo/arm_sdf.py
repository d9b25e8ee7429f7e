# SPDX-License-Identifier: Apache-2.0
"""The arm of the URDF as an SDF model for Gazebo Classic: same links, joints, limits and masses.

Links have no weight, like those of a drive with gravity compensation; servos are set by whoever
commands the joints. Knows no scene.
"""

from __future__ import annotations

from sim.gazebo.urdf_links import Element, JointDescription, origin_of, pose_text, UrdfLinks
from sim.model import FINGER_FRICTION

MODEL = 'tendon_arm'


def arm_sdf(urdf: UrdfLinks) -> str:
    """Return the model's element, with all joints at 0."""
    poses = urdf.poses({})
    parts = [
        _link(name, link, pose_text(poses[name]), urdf.colours)
        for name, link in urdf.links.items() if link.find('inertial') is not None
    ]
    parts += [
        _joint(joint) for joint in urdf.joints.values()
        if urdf.links[joint.child].find('inertial') is not None
    ]
    root = next(iter(urdf.links))
    return (
        f'<model name="{MODEL}">{"".join(parts)}<joint name="stand" type="fixed">'
        f'<parent>world</parent><child>{root}</child></joint></model>'
    )


def surface(friction: float) -> str:
    """Return a contact surface; hard enough that what is held does not sink in."""
    return (
        f'<surface><friction><ode><mu>{friction:g}</mu><mu2>{friction:g}</mu2></ode></friction>'
        '<contact><ode><kp>100000</kp><kd>1</kd><min_depth>0.0005</min_depth>'
        '<max_vel>0.05</max_vel></ode></contact></surface>'
    )


def paint(rgb: tuple[float, ...]) -> str:
    """Return a plain material; ambient and diffuse are the same colour."""
    colour = ' '.join(f'{value:.4g}' for value in (*rgb[:3], 1.0))
    return f'<material><ambient>{colour}</ambient><diffuse>{colour}</diffuse></material>'


def _link(name: str, link: Element, pose: str, colours: dict[str, str]) -> str:
    inertial = link.find('inertial')
    assert inertial is not None
    body = _inertial(inertial)
    for kind in ('visual', 'collision'):
        for number, shape in enumerate(link.findall(kind)):
            inside = f'<pose>{pose_text(origin_of(shape))}</pose>' + _geometry(shape)
            if kind == 'visual':
                inside += paint(_colour(shape, colours))
            elif 'finger' in name:
                inside += surface(FINGER_FRICTION)
            body += f'<{kind} name="{kind}_{number}">{inside}</{kind}>'
    return f'<link name="{name}"><pose>{pose}</pose><gravity>0</gravity>{body}</link>'


def _inertial(inertial: Element) -> str:
    mass, inertia = inertial.find('mass'), inertial.find('inertia')
    assert mass is not None and inertia is not None
    entries = ''.join(
        f'<{name}>{inertia.get(name)}</{name}>'
        for name in ('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz')
    )
    return (
        f'<inertial><pose>{pose_text(origin_of(inertial))}</pose>'
        f'<mass>{mass.get("value")}</mass><inertia>{entries}</inertia></inertial>'
    )


def _geometry(shape: Element) -> str:
    geometry = shape.find('geometry')
    assert geometry is not None
    form = geometry[0]
    inside = ''.join(f'<{name}>{value}</{name}>' for name, value in form.attrib.items())
    return f'<geometry><{form.tag}>{inside}</{form.tag}></geometry>'


def _colour(shape: Element, colours: dict[str, str]) -> tuple[float, ...]:
    material = shape.find('material')
    name = '' if material is None else str(material.get('name'))
    return tuple(float(value) for value in colours.get(name, '0.6 0.6 0.6 1').split())


def _joint(joint: JointDescription) -> str:
    head = f'<joint name="{joint.name}" type="{joint.kind}">'
    ends = f'<parent>{joint.parent}</parent><child>{joint.child}</child>'
    if joint.kind == 'fixed':
        return f'{head}{ends}</joint>'
    limit, dynamics = joint.element.find('limit'), joint.element.find('dynamics')
    assert limit is not None
    limits = ''.join(
        f'<{name}>{limit.get(name)}</{name}>' for name in ('lower', 'upper', 'effort', 'velocity')
    )
    damping = '0' if dynamics is None else dynamics.get('damping', '0')
    axis = ' '.join(f'{value:g}' for value in joint.axis)
    return (
        f'{head}{ends}<axis><xyz>{axis}</xyz><limit>{limits}</limit>'
        f'<dynamics><damping>{damping}</damping></dynamics></axis></joint>'
    )
