# SPDX-License-Identifier: Apache-2.0
"""Sentence templates of the tasks: the ones to train on, and others kept apart for evaluation.

``{a}`` is the thing to handle, ``{b}`` the place, both with their article. Several templates name
the place first: a model that has only seen the other order swaps the two.
"""

TRAINING = {
    'put': (
        'put {a} in {b}', 'put {a} into {b}', 'place {a} in {b}', 'place {a} inside {b}',
        'drop {a} into {b}', 'pick up {a} and put it in {b}', 'take {a} and drop it in {b}',
        'grab {a} and place it inside {b}', 'move {a} into {b}', 'transfer {a} into {b}',
        'sort {a} into {b}', 'store {a} in {b}', '{a} goes in {b}', '{a} belongs in {b}',
        'I want {a} in {b}', 'I need {a} to be inside {b}', '{a} should end up in {b}',
        'into {b} goes {a}', 'in {b} put {a}', '{b} should contain {a}', '{b} must hold {a}',
        'fill {b} with {a}', 'let {b} have {a} in it', 'use {b} to keep {a}',
        'inside {b} I want {a}', 'clear {a} away into {b}', 'pack {a} in {b}',
    ),
    'stack': (
        'stack {a} on {b}', 'stack {a} on top of {b}', 'put {a} on top of {b}', 'put {a} on {b}',
        'place {a} onto {b}', 'set {a} on {b}', 'balance {a} on {b}', 'rest {a} on top of {b}',
        'pick up {a} and put it on {b}', 'build a tower with {a} on {b}',
        'I want {a} on top of {b}', '{a} goes on top of {b}', 'on top of {b} put {a}',
        '{b} should carry {a}', '{b} should be under {a}', 'use {b} as a base for {a}',
        'onto {b} place {a}',
    ),
    'pick': (
        'pick up {a}', 'pick {a}', 'grasp {a}', 'lift {a}', 'lift up {a}', 'get {a}', 'hold {a}',
        'take {a}', 'take {a} and hold it', 'raise {a}', 'I want you to hold {a}',
        '{a}: pick it up', 'fetch {a}', 'hold {a} up in the air',
    ),
    'push': (
        'push {a} to {b}', 'push {a} towards {b}', 'push {a} against {b}', 'slide {a} to {b}',
        'slide {a} over to {b}', 'shove {a} to {b}', 'nudge {a} up to {b}',
        'without lifting it, move {a} to {b}', 'push {a} until it touches {b}',
        '{a} should be pushed to {b}', 'towards {b} push {a}', 'to {b} slide {a}',
        'I want {a} pushed to {b}', 'make {a} touch {b} by pushing it',
    ),
}

UNSEEN = {
    'put': (
        'grab {a} and leave it in {b}', 'would you kindly deliver {a} into {b}',
        'throw {a} in {b}', 'get {a} into {b}', '{b} is where {a} should go',
        'make sure {b} has {a} inside', '{a} lives in {b}', 'tidy {a} up into {b}',
    ),
    'stack': (
        'lay {a} on top of {b}', '{a} should sit on top of {b}', 'pile {a} onto {b}',
        'on {b} I want {a} to stand',
    ),
    'pick': ('bring {a} up', 'grab {a} for me', 'seize {a}', 'can you hold up {a}'),
    'push': (
        'drag {a} along the table to {b}', '{a} has to be slid over to {b}',
        'bump {a} into {b} by pushing', 'give {a} a push so that it reaches {b}',
    ),
}

SYNONYMS = {
    'cube': ('cube', 'block', 'cube', 'brick', 'square block'),
    'ball': ('ball', 'sphere', 'ball', 'round ball'),
    'cylinder': ('cylinder', 'can', 'cylinder', 'tin'),
    'bin': ('bin', 'box', 'container', 'tray', 'bin'),
}
ARTICLES = ('the', 'the', 'the', 'the', 'the', 'the', 'that', 'this')
OPENINGS = (
    '', '', '', '', '', '', 'please ', 'now ', 'hey robot, ', 'could you ', 'robot, ', 'next, ',
)
CLOSINGS = ('', '', '', '', '.', '.', '!', ' please', ' now', ', thanks')
