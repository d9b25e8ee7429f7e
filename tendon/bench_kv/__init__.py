# SPDX-License-Identifier: Apache-2.0
"""The bench of the key-value cache: one model, the same tokens, every method in one run.

run          draws the passages, sends the jobs to workers, measures speed, reports
subject      the language model: real weights, a tiny random one, a shape, a biased one
passage      long English text with facts planted in it, from Python's own documentation
recording    what one prefill computes, so that each method need not compute it again
method       what the bench asks of a method; ours, stock_caches and presses give it
quality      one method at one budget: likelihood, agreement, recall, bytes
"""
