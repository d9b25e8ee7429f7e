# SPDX-License-Identifier: Apache-2.0
"""The bench of the agent's memory: one session, the same tokens, every arm in one run.

run          what is measured, in which order, and the JSON line
script       the session: which tokens stand in which segment at each turn
arm          what the bench asks of an arm; ours, stock, llama_cpp and vllm_cpu give it
race         all arms in turns through the session
exactness    our state against a prefill of the same tokens
edits        approximate edits against exact ones
restoring    a stored session against a prefill
"""
