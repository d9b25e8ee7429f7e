# SPDX-License-Identifier: Apache-2.0
"""The cloud side: images and instructions become action plans.

The data path: server -> planner_service -> wire -> session, session_store -> turn_batcher
-> plan_generator (image_intake, model/, constrained_decoding, plan_grammar) -> grounding
-> wire. Imports protos, never onboard_decoder, sim or ROS.
"""
