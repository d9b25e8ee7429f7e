# SPDX-License-Identifier: Apache-2.0
"""The robot's side: from camera image and instruction to joint commands at 50 Hz.

Data path::

    onboard_node       the only file that knows ROS
    observation_intake newest images, joints by name, ages
    agent/             looks, asks the backbone, executes its steps one by one
    planner_client     one gRPC stream, a deadline per turn
    plan_decoder       one step and the measured joints -> a chunk of joint targets
    plan_buffer        aligned by ticks, cross-faded, expired
    safety_filter      limits, workspace, braking; always last
    command_loop       absolute deadlines; waits for nobody

``robot.Robot`` wires everything below the node. It blocks nowhere and takes its clock from
outside, so the same code runs in real time and in lockstep with simulated time.
"""
