# SPDX-License-Identifier: Apache-2.0
"""The arm and its table in Gazebo Classic 11: a foreign physics, renderer, clock and process.

Data path: install (the program, without root) -> world_sdf (arm and scene, from the same URDF and
seed as MuJoCo's) -> process -> transport and joint_commands (its two protocols).
"""
